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
struct PipelineStages;
namespace nn {
class Module;
}
}  // namespace lockstep

namespace lockstep::train {

/// How training data are loaded.
struct Loading {
  Shuffle shuffle;            ///< the order of an epoch
  std::int64_t prefetch = 2;  ///< number of batches that the loader holds
};

/// A figure of the evaluation beside the loss. Each batch gives one number; those of all batches
/// are combined in batch order, on any ranks.
struct Metric {
  std::string name;  ///< name in reports; in summary.json validation_<name> and test_<name>
  ReduceOp combine = ReduceOp::sum;     ///< sum, min or max
  std::function<double(double)> value;  ///< converts the combined number to the reported figure
  bool greater_is_better = true;        ///< for checkpoint.best and early stopping
};

/// A training task: the data, the model, its loss and its metrics. An application gives train::App
/// one of these; the same object on every rank.
class Task {
 public:
  virtual ~Task() = default;

  [[nodiscard]] virtual const Datasets& data() const = 0;
  [[nodiscard]] virtual Loading loading() const { return {}; }
  /// A new model. Called once, after nn::manual_seed(train.seed).
  [[nodiscard]] virtual std::shared_ptr<nn::Module> make_model() const = 0;
  /// The model's output for `batch`, in training and evaluation, in the model's present mode;
  /// loss() and measure() get it as `output`. By default model.forward(inputs).
  [[nodiscard]] virtual Variable forward(nn::Module& model, const Batch& batch) const;
  /// forward() from the output `x` of the last of the model's pipeline stages (mesh.pp), which hold
  /// the model between them; for a task with a forward() of its own. By default stages.output(x).
  [[nodiscard]] virtual Variable forward_from_stages(const PipelineStages& stages,
                                                     const Variable& x, const Batch& batch) const;
  /// Mean loss, one element, over the samples of `batch` (at least one).
  [[nodiscard]] virtual Variable loss(const Variable& output, const Batch& batch) const = 0;
  /// The metrics of an evaluation on `data`, a set of data(); the first is drawn in curves.svg.
  [[nodiscard]] virtual std::vector<Metric> metrics(const Dataset& data) const = 0;
  /// The number of each metric for the `output` of `batch` (at least one sample).
  virtual void measure(const Tensor& output, const Batch& batch,
                       std::span<double> figures) const = 0;
  /// Tokens per sample if samples are text, so that speeds are also given in tokens; else 0.
  [[nodiscard]] virtual std::int64_t tokens_a_sample() const { return 0; }
  /// Inputs and outputs of the model, kept in checkpoints for users of the model
  /// (docs/guide/predict.md). By default not known.
  [[nodiscard]] virtual ModelSignature signature() const { return {}; }
};

/// The set by which each epoch is judged: the validation set, else the test set, else null.
[[nodiscard]] inline const std::shared_ptr<const Dataset>& judged_by(const Datasets& data) {
  return data.validation ? data.validation : data.test;
}
/// The name of that set.
[[nodiscard]] inline const char* judging_set(const Datasets& data) noexcept {
  return data.validation ? "validation" : "test";
}
/// Whether a larger value of an evaluation figure, "loss" or a metric, is better. Throws
/// InputError, with the existing figures, if there is none with that name; `key` is the deck's.
[[nodiscard]] bool greater_is_better(const Task& task, const std::string& figure, const char* key);

/// "1800 training, 200 validation and 500 test samples".
[[nodiscard]] std::string samples_in_words(const Datasets& data);

/// Makes a program's task from its deck: reads the task's tables, loads its data. Throws
/// InputError. Local.
using TaskFactory = std::function<std::unique_ptr<Task>(Deck&)>;

}  // namespace lockstep::train
