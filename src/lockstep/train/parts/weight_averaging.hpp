#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/averaged_model.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep::train {

class Strategy;

/// A run's averaged weights ([averaging]) and, with update_bn, their buffers. Local except
/// update_bn(): ranks with equal models have equal averages.
class WeightAveraging {
 public:
  /// `strategy` must live as long.
  WeightAveraging(const AveragingOptions& options, const Strategy& strategy);

  /// Whether after_step(step, epoch) makes the first average. Until update_bn() it has the model's
  /// own statistics, which must be the same on all ranks.
  [[nodiscard]] bool begins_after(std::int64_t step, std::int64_t epoch) const {
    return !has_begun() && is_due(step, epoch);
  }
  /// To be called after step `step` of the run, with `epoch` epochs finished. Allocates nothing.
  void after_step(std::int64_t step, std::int64_t epoch);
  /// To be called after epoch `epoch`, from 1.
  void after_epoch(std::int64_t epoch);
  /// Whether there has been an update; before that the model itself is in use.
  [[nodiscard]] bool has_begun() const { return average_.n_averaged() > 0; }
  [[nodiscard]] std::int64_t n_averaged() const { return average_.n_averaged(); }

  /// Whether the averages need statistics of their own.
  [[nodiscard]] bool wants_update_bn() const;
  /// optim::update_bn of the averages. The statistics are the mean over all batches of the ranks of
  /// `group`, and the call is collective. Null: each rank has all batches.
  void update_bn(ProcessGroup* group, const std::function<bool()>& forward_next);

  /// While this object lives, the model has the averaged weights, if there are any.
  class InUse {
   public:
    explicit InUse(std::optional<WeightAveraging>& averaging);
    ~InUse();
    InUse(const InUse&) = delete;
    InUse& operator=(const InUse&) = delete;

   private:
    WeightAveraging* averaging_;
  };

  /// The model for use, with all names; for checkpoints the model's tensors.
  [[nodiscard]] StateDict state_dict() const;
  /// Restores a state_dict() after so many updates; there is none before the first.
  void restore(const StateDict& state, std::int64_t n_averaged);

 private:
  [[nodiscard]] bool is_due(std::int64_t step, std::int64_t epoch) const;
  void swap();

  AveragingOptions options_;
  const Strategy& strategy_;
  optim::AveragedModel average_;
  std::vector<std::pair<Tensor, Tensor>> buffers_;  ///< tensors of the model and of the averages
};

/// Checkpoints hold the trained weights beside the optimizer's slots, as "<name>/trained".
void insert_trained(const StateDict& model, StateDict& optimizer);
/// Separates them: the trained weights (none in checkpoints without averages) and the slots.
[[nodiscard]] std::pair<StateDict, StateDict> split_trained(const StateDict& optimizer);

}  // namespace lockstep::train
