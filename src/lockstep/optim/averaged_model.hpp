#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::optim {

/// The averages of a model's parameters over its updates, for evaluation: PyTorch's
/// torch.optim.swa_utils.AveragedModel. With a decay d the exponential moving average
/// a = d a + (1 - d) p (get_ema_avg_fn), without one the mean of all updates (Izmailov et al. 2018,
/// arXiv:1803.05407). The first update copies. Buffers are not averaged (use_buffers=False). Local:
/// on ranks with equal parameters the averages are equal. One thread at a time.
class AveragedModel {
 public:
  /// Throws InputError unless 0 <= decay < 1, and for parameters of 16 bits.
  explicit AveragedModel(const nn::Module& model, std::optional<double> ema_decay = std::nullopt);
  /// Of these parameters, e.g. a rank's pieces (FullyShardedDataParallel::named_parameters).
  explicit AveragedModel(std::vector<nn::NamedParameter> parameters,
                         std::optional<double> ema_decay = std::nullopt);

  /// One more update of the model's parameters. Allocates nothing.
  void update_parameters();
  [[nodiscard]] std::int64_t n_averaged() const;

  /// The averages under the parameters' names, and `n_averaged`, an i64 scalar: for checkpoints;
  /// the tensors are the object's own memory.
  [[nodiscard]] StateDict state_dict() const;
  /// Copies into the averages. Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state) { copy_state(state, state_dict()); }

  /// The average of the parameter at `parameter`'s address; undefined if there is none.
  [[nodiscard]] Tensor average_of(const Tensor& parameter) const;

  /// Exchanges the model's parameters with the averages: before an evaluation, and after it.
  void swap();

 private:
  std::vector<nn::NamedParameter> parameters_;
  std::optional<double> decay_;
  std::vector<Tensor> averages_;
  Tensor n_averaged_;
};

/// Recomputes the running statistics of the model's BatchNorm layers as the mean over batches.
/// `forward_next` sends one batch per call through the model, until it returns false. PyTorch's
/// torch.optim.swa_utils.update_bn, for averaged weights. The model is in training mode meanwhile,
/// each module afterwards as it was, and nothing is recorded for a backward pass. Where
/// `forward_next` throws, the statistics are those before the call (PyTorch leaves the mean of some
/// batches). Without such layers `forward_next` is not called. Collective if the layers' forward
/// is.
void update_bn(nn::Module& model, const std::function<bool()>& forward_next);

}  // namespace lockstep::optim
