#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {

/// Replaces each tensor (f16, bf16, f32 or f64) by its mean over the ranks of `group`, with equal
/// weights: the same bits on every rank. One all-reduce per tensor, so pass
/// DistributedDataParallel::flat_values() rather than parameters. Collective.
void average_parameters(std::span<const Tensor> values, ProcessGroup& group);
/// The same for the parameters of `module` that require a gradient. Collective.
void average_parameters(const nn::Module& module, ProcessGroup& group);

/// torch.distributed's PeriodicModelAverager: averages a model's parameters over the ranks after
/// every period-th optimizer step, first after the warmup_steps. With PostLocalSgdHook (same number
/// of steps) that is post-local SGD (Lin et al. 2018, arXiv:1808.07217). The optimizer's state
/// stays each rank's own.
///   optimizer.step();
///   averager.average_parameters();
class PeriodicModelAverager {
 public:
  /// Averages `values`, as average_parameters does. Make it after DistributedDataParallel, which
  /// moves them. Throws InputError unless period >= 1 and warmup_steps >= 0.
  PeriodicModelAverager(std::vector<Tensor> values, std::shared_ptr<ProcessGroup> group,
                        std::int64_t period, std::int64_t warmup_steps = 0);

  /// Call after each optimizer step. Returns true if it averaged: after steps warmup_steps,
  /// warmup_steps + period, ... (counted from 0). Collective.
  bool average_parameters();
  /// Averages if steps after the warm-up were taken since the last average: before evaluation and
  /// saving, when all ranks need the same parameters. Collective.
  void average_now();

  /// Calls of average_parameters() so far; a resumed run sets it.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  void set_step(std::int64_t step) noexcept { step_ = step; }
  /// Whether ranks have taken steps on their own since the last average.
  [[nodiscard]] bool is_local() const noexcept { return step_ > warmup_steps_; }
  /// Seconds spent averaging, since construction.
  [[nodiscard]] double seconds() const noexcept { return seconds_; }

 private:
  std::vector<Tensor> values_;
  std::shared_ptr<ProcessGroup> group_;
  std::int64_t period_, warmup_steps_;
  std::int64_t step_ = 0;
  bool apart_ = false;  ///< since the last average
  double seconds_ = 0.0;
};

}  // namespace lockstep
