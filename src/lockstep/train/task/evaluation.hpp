#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/tensor/device.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep {
class Batch;
class Dataset;
class Loader;
namespace nn {
class Module;
}
}  // namespace lockstep

namespace lockstep::train {

class Task;

/// Evaluates models on one data set, whose batches the ranks share out: loss and metrics of a task,
/// the same bits for any number of ranks.
class Evaluator {
 public:
  /// `task` must outlive this. The models will be on `device`.
  Evaluator(RankGroups ranks, const Task& task, std::shared_ptr<const Dataset> data,
            std::int64_t batch_size, Device device = {});
  ~Evaluator();

  /// The model's output for a batch; undefined on a rank that does not compute it.
  using Forward = std::function<Variable(const Batch& batch)>;
  /// Asked by all ranks between batches, as often on each; must say the same on all.
  using GoesOn = std::function<bool()>;

  /// Runs the model in evaluation mode and restores the mode of each module. Collective. Throws
  /// AgreedError if a rank cannot read a batch, or calculate its loss or figures.
  [[nodiscard]] Evaluation operator()(nn::Module& model);
  /// The same by `forward`, which runs `model` or a part of it. With `all_go_forward` all ranks
  /// call it as often, some with batches of 0 samples. Nothing as soon as `goes_on` is false.
  [[nodiscard]] std::optional<Evaluation> operator()(nn::Module& model, const Forward& forward,
                                                     bool all_go_forward, const GoesOn& goes_on);

 private:
  RankGroups ranks_;
  const Task& task_;
  std::shared_ptr<const Dataset> data_;
  EvalPlan batches_;
  Device device_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace lockstep::train
