#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/train/task/outcome.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

/// A classifier's confusion matrix.
class Confusion {
 public:
  /// `counts` [classes, classes]: samples of class row that were predicted as class column.
  Confusion(std::int64_t classes, std::vector<std::int64_t> counts);

  [[nodiscard]] std::int64_t classes() const noexcept { return classes_; }
  [[nodiscard]] std::int64_t count(std::int64_t is, std::int64_t taken_for) const {
    return counts_[static_cast<std::size_t>(is * classes_ + taken_for)];
  }
  [[nodiscard]] std::int64_t samples_of(std::int64_t is) const;
  [[nodiscard]] std::int64_t taken_for(std::int64_t taken_for) const;
  /// A class's recall (fraction of its samples found) and precision (fraction of its predictions
  /// that are right); NaN where there are none.
  [[nodiscard]] double recall(std::int64_t is) const;
  [[nodiscard]] double precision(std::int64_t taken_for) const;

  /// One line per class: name, recall, precision, samples and, for up to 20 classes, its row.
  [[nodiscard]] std::string table(const std::vector<std::string>& names) const;

 private:
  std::int64_t classes_;
  std::vector<std::int64_t> counts_;
};

/// A classifier's task whose evaluation also computes the confusion matrix, as further figures.
class WithConfusion final : public Task {
 public:
  /// More classes would give a table that nobody reads, and a row of doubles for each batch.
  static constexpr std::int64_t most_classes = 100;

  /// `task`, whose outputs are scores [N, classes], must outlive this.
  WithConfusion(const Task& task, std::int64_t classes) : task_(task), classes_(classes) {}

  /// Removes the counts from the end of the evaluation's figures.
  [[nodiscard]] Confusion take(NamedFigures& figures) const;

  [[nodiscard]] const Datasets& data() const override { return task_.data(); }
  [[nodiscard]] Loading loading() const override { return task_.loading(); }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override {
    return task_.make_model();
  }
  [[nodiscard]] Variable forward(nn::Module& model, const Batch& batch) const override {
    return task_.forward(model, batch);
  }
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override {
    return task_.loss(output, batch);
  }
  [[nodiscard]] std::vector<Metric> metrics(const Dataset& data) const override;
  void measure(const Tensor& output, const Batch& batch, std::span<double> figures) const override;

 private:
  const Task& task_;
  std::int64_t classes_;
};

}  // namespace lockstep::train
