#pragma once
#include <memory>
#include <vector>

#include <lockstep/nn/models.hpp>
#include <lockstep/train/task.hpp>

namespace lockstep::train {

/// Values from samples: data with values for targets from [data], a model of the zoo from [model]
/// that ends in its last layer's outputs, as many as a target has elements; mean squared error.
///
/// Reports, over the whole test set and all elements k of its targets t with the outputs y,
///   r2 = 1 - sum (y - t)^2 / sum (t - mean of t_k)^2,
/// 1 for a perfect fit and 0 for the best constant (scikit-learn's r2_score, variance_weighted),
/// and
///   max_error = the largest |y - t|.
class Regression : public Task {
 public:
  /// Reads the deck and loads the data, the test targets once for their spread. Throws InputError.
  /// Local.
  explicit Regression(Deck& deck);

  [[nodiscard]] const Datasets& data() const override { return data_; }
  [[nodiscard]] Loading loading() const override { return loading_; }
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override;
  [[nodiscard]] Variable loss(const Variable& output, const Batch& batch) const override;
  [[nodiscard]] std::vector<Metric> metrics() const override;
  void measure(const Tensor& output, const Batch& batch, std::span<double> figures) const override;

 private:
  nn::ModelOptions model_;
  Loading loading_;
  Datasets data_;
  double spread_ = 0;  ///< sum of (t - mean of t_k)^2 over the test set
};

}  // namespace lockstep::train
