#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::optim {

/// Defaults are PyTorch's.
struct GradScalerOptions {
  double init_scale = 65536.0;
  double growth_factor = 2.0, backoff_factor = 0.5;
  std::int64_t growth_interval = 2000;  ///< steps in a row without a number that is not finite
};

/// Keeps gradients of half-precision numbers from vanishing (PyTorch's GradScaler): the loss is
/// multiplied by a scale before the backward pass, the gradients are divided by it on their way
/// into the parameters. A step whose gradients are not all finite is skipped, and the scale is
/// reduced; after many good steps it grows.
///   scaler.scaled(loss).backward();
///   scaler.unscale(optimizer);  // only where somebody looks at the gradients, to clip them
///   scaler.step(optimizer);
///   scaler.update();
/// Local: after DistributedDataParallel::backward all ranks have the same bits of the gradients,
/// and so the same scale. On a device the scale and the flag for non-finite gradients stay there:
/// the host waits for neither.
class GradScaler {
 public:
  /// For losses and parameters on `device`. Throws InputError unless init_scale is above 0 and a
  /// normal number of single precision, growth_factor > 1, 0 < backoff_factor < 1 and
  /// growth_interval > 0.
  explicit GradScaler(const GradScalerOptions& options = {}, Device device = {});

  /// The factor of the next loss; in single precision, as in PyTorch. Waits for the device.
  [[nodiscard]] double scale() const;
  /// The same, f32 [] on the device, for DistributedDataParallel::backward: the scaler's own
  /// memory.
  [[nodiscard]] const Tensor& scale_tensor() const noexcept { return scale_; }
  [[nodiscard]] Variable scaled(const Variable& loss) const;

  /// Divides the optimizer's gradients by the scale, once between two calls of update(), before
  /// step(). This also checks that they are finite, before they are clipped. Throws Error, before
  /// any is divided, in another order of the calls; or if one is of f16, which could not hold it
  /// then: step() takes it scaled. Throws ShapeError for parameters on another device. PyTorch's
  /// unscale_.
  void unscale(Optimizer& optimizer);

  /// The flag of these gradients, f32 [1] on the device: not 0 if one was not finite when they were
  /// unscaled. The scaler's own memory: where ranks hold parts of the parameters, they reduce it to
  /// the largest before step(), and all make or skip it (agree_on_found_inf, parallel/tensor).
  /// Throws Error if the gradients are not unscaled.
  [[nodiscard]] Tensor found_inf(const Optimizer& optimizer);

  /// One update by the gradients of the loss, times `gradient_factor`, unless one of them is not
  /// finite, or was not when they were unscaled. Returns found_inf, f32 [1] on the device: 0 if the
  /// step was made. If they were not unscaled before, they stay scaled. Throws Error for a second
  /// step of the optimizer since the last update().
  Tensor step(Optimizer& optimizer, double gradient_factor = 1.0);
  /// The same with a factor on the device, f64 [1]; undefined: 1.
  Tensor step(Optimizer& optimizer, const Tensor& gradient_factor);

  /// Once after the steps of all optimizers of an iteration: the next iteration's scale, a normal
  /// number of single precision. Throws Error if no gradients were unscaled or stepped.
  void update();
  /// Instead of update(), after a step that failed: its gradients count as scaled.
  void forget() noexcept;

  /// "scale", f32, and "growth_tracker", i64, the good steps since the last change: the scaler's
  /// own memory.
  [[nodiscard]] StateDict state_dict() const;
  /// Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state) { copy_state(state, state_dict()); }

 private:
  /// Gradients checked since the last update().
  struct Checked {
    const Optimizer* optimizer;
    Tensor found_inf;  ///< f32 [1]
    bool is_unscaled = false, is_stepped = false;
  };

  /// Of these gradients: null if they are not checked yet.
  [[nodiscard]] Checked* checked(const Optimizer& optimizer);
  [[nodiscard]] Checked& begin_check(const Optimizer& optimizer);

  GradScalerOptions options_;
  Tensor scale_, growth_tracker_;
  std::vector<Checked> checked_;
};

}  // namespace lockstep::optim
