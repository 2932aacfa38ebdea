#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/checkpoint/signature.hpp>
#include <lockstep/comm/reduce_op.hpp>
#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/dataset.hpp>

namespace lockstep {
class Deck;
namespace nn {
class Module;
}
}  // namespace lockstep

namespace lockstep::train {

/// How the training data are fetched.
struct Loading {
  Shuffle shuffle;            ///< the order of an epoch
  std::int64_t prefetch = 2;  ///< batches that the loader holds
};

/// What evaluation finds beside the loss. Each batch gives one figure; those of all batches are
/// combined in batch order, whatever rank had them.
struct Metric {
  std::string name;  ///< reported under it, in summary.json under validation_<name> and test_<name>
  ReduceOp combine = ReduceOp::sum;     ///< sum, min or max
  std::function<double(double)> value;  ///< what is reported of the combined figure
  bool greater_is_better = true;        ///< for checkpoint.best and early stopping
};

/// What is trained: the data, the model, and what its output is worth. An application gives
/// train::App one of these; the same object on every rank.
class Task {
 public:
  virtual ~Task() = default;

  [[nodiscard]] virtual const Datasets& data() const = 0;
  [[nodiscard]] virtual Loading loading() const { return {}; }
  /// A new model. Called once, after nn::manual_seed(train.seed).
  [[nodiscard]] virtual std::shared_ptr<nn::Module> make_model() const = 0;
  /// What the model says of `batch`, in training and evaluation, whose mode it is in: what loss()
  /// and measure() are given as `output`. By default model.forward(inputs).
  [[nodiscard]] virtual Variable forward(nn::Module& model, const Batch& batch) const;
  /// Mean loss, one element, over the samples of `batch` (at least one).
  [[nodiscard]] virtual Variable loss(const Variable& output, const Batch& batch) const = 0;
  /// What evaluation on `data`, a set of data(), measures beside the loss; the first is drawn in
  /// curves.svg.
  [[nodiscard]] virtual std::vector<Metric> metrics(const Dataset& data) const = 0;
  /// The figure of each metric for the `output` of `batch` (at least one sample).
  virtual void measure(const Tensor& output, const Batch& batch,
                       std::span<double> figures) const = 0;
  /// Of a sample that is text, so that speeds are told in tokens too; 0: it is none.
  [[nodiscard]] virtual std::int64_t tokens_a_sample() const { return 0; }
  /// What goes into the model and what comes out, kept in checkpoints for those who use the model
  /// (docs/guide/predict.md). By default not known.
  [[nodiscard]] virtual ModelSignature signature() const { return {}; }
};

/// What each epoch is judged by: the validation set, else the test set, else null.
[[nodiscard]] inline const std::shared_ptr<const Dataset>& judged_by(const Datasets& data) {
  return data.validation ? data.validation : data.test;
}
/// What that set is called.
[[nodiscard]] inline const char* judging_set(const Datasets& data) noexcept {
  return data.validation ? "validation" : "test";
}
/// Whether more of a figure of evaluation, "loss" or a metric, is better. Throws InputError, naming
/// the figures that there are, if there is none of that name; `key` is the deck's.
[[nodiscard]] bool greater_is_better(const Task& task, const std::string& figure, const char* key);

/// "1800 training, 200 validation and 500 test samples".
[[nodiscard]] std::string samples_in_words(const Datasets& data);

/// Makes a program's task from its deck: reads the task's tables, loads its data. Throws
/// InputError. Local.
using TaskFactory = std::function<std::unique_ptr<Task>(Deck&)>;

}  // namespace lockstep::train
