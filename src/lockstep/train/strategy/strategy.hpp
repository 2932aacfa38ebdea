#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {
class Batch;
class DistributedDataParallel;
class ProcessGroup;
}  // namespace lockstep
namespace lockstep::optim {
class GradScaler;
}

namespace lockstep::train {

class DeviceSpans;
struct MeshOptions;
struct RankGroups;
struct RunPlan;
struct StepTimes;
class Task;

/// How the ranks train one model together, as [mesh] and train.zero say: each rank's part of the
/// model, how the gradients of all samples are summed, and how they update the parameters. The word
/// is PyTorch Lightning's. Functions are collective over all ranks of the training, except where
/// "Local" is said.
class Strategy {
 public:
  /// Forward and backward of a part of this rank's share of a batch.
  struct Pass {
    const Batch& batch;        ///< may have no samples
    nn::RandomContext random;  ///< of the layers' draws
    double weight;             ///< of its mean loss in that of the whole batch; 0 without samples
    const Tensor& loss_scale;  ///< GradScaler's; undefined for 1
    bool is_last;              ///< of this rank's share: gradients are summed over the ranks
    DeviceSpans* spans;        ///< null: the device's phases are not timed
    StepTimes& times;          ///< gets seconds and FLOPs of the phases
  };

  explicit Strategy(std::int64_t parameter_count) noexcept : parameter_count_(parameter_count) {}
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy();

  /// This rank's part of the model. Local, as the next eleven.
  [[nodiscard]] virtual nn::Module& model() const noexcept = 0;
  /// This rank's share of the parameters: flat pieces where it does not hold whole ones.
  [[nodiscard]] virtual std::vector<nn::NamedParameter> named_parameters() const;
  /// Of those that are trained, or with train.zero = 1 of a share of them.
  [[nodiscard]] virtual optim::Optimizer& optimizer() const noexcept = 0;
  /// The model's state in checkpoints: this rank's share of each tensor.
  [[nodiscard]] virtual StateDict state_dict() const;
  /// Throws Error listing names or shapes that do not fit.
  virtual void load_state_dict(const StateDict& state);
  /// The optimizer's, likewise.
  [[nodiscard]] virtual StateDict optimizer_state_dict() const;
  virtual void load_optimizer_state_dict(const StateDict& state);
  /// Elements of the parameters of the whole model.
  [[nodiscard]] std::int64_t parameter_count() const noexcept { return parameter_count_; }
  /// Whether ranks without samples run forward, on 0 samples, as often as the others.
  [[nodiscard]] virtual bool all_go_forward() const = 0;
  /// Times of waiting for other ranks, since construction.
  [[nodiscard]] virtual GradientSumStats stats() const = 0;
  /// Null for a strategy without one.
  [[nodiscard]] virtual DistributedDataParallel* ddp() const noexcept { return nullptr; }

  /// Drops the gradients. Local.
  virtual void zero_grad() = 0;
  /// Calls body(shard) for each of this rank's shards of the batch (DdpOptions::shards), by
  /// default once. Each body runs the passes of a shard.
  virtual void for_each_shard(const std::function<void(std::int64_t shard)>& body);
  /// Adds the gradients of weight x mean loss; after the last pass they are all ranks'. Returns the
  /// mean loss over the samples; undefined without any.
  virtual Tensor run(const Pass& pass) = 0;

  /// From now on, ranks ask this in each step, and any_said_yes() is the answer. Local.
  virtual void ask_along(std::function<bool()> question) = 0;
  /// After the passes of a step: whether a rank's question was answered with yes.
  [[nodiscard]] virtual bool any_said_yes() = 0;

  /// With fp16, after `scaler` has unscaled the gradients of optimizer(): lets every rank see one
  /// that is not finite.
  virtual void agree_on_found_inf(optim::GradScaler& /*scaler*/) {}
  /// optim::clip_gradients with the norm of the whole gradient.
  [[nodiscard]] virtual optim::Clipping clip_gradients(const optim::OptimizerOptions& options) = 0;
  /// To be called before optimizer().step(), and after it.
  virtual void before_update() {}
  virtual void after_update() {}

  /// Rank 0's buffers to all, before evaluation and saving.
  virtual void broadcast_buffers() = 0;
  /// The model's output for `batch` without gradients, in its present mode. Undefined on a rank
  /// without its last layer.
  [[nodiscard]] virtual Variable evaluate(const Batch& batch) = 0;

 private:
  std::int64_t parameter_count_;
};

/// The answer of any rank, for ask_along. Collective over `group`.
[[nodiscard]] bool any_says_yes(ProcessGroup& group, const std::function<bool()>& question);

/// Throws InputError if mesh.fsdp, train.zero and the rest of the plan do not fit together; `sizes`
/// as fitted() gives them. Local.
void expect_strategy_fits(const RunPlan& plan, const MeshOptions& sizes);

/// The strategy of a plan. Builds the model (after nn::manual_seed), divides it, and gives all
/// ranks the same values. Collective.
[[nodiscard]] std::unique_ptr<Strategy> make_strategy(const Task& task, const RunPlan& plan,
                                                      const RankGroups& ranks);

}  // namespace lockstep::train
