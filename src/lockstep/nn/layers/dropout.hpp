#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep::nn {

/// In training mode each element is kept with probability 1 - p and scaled by 1 / (1 - p), else
/// zero. Every forward on every rank draws a new mask, reproducible from manual_seed; under a
/// RandomContextGuard a sample's mask does not depend on the rank that computes it (nn/random.hpp).
class Dropout : public Module {
 public:
  /// Throws InputError unless 0 <= p <= 1.
  explicit Dropout(double p = 0.5);
  Variable forward(const Variable& x) override;
  [[nodiscard]] double p() const noexcept { return p_; }
  /// The source of the masks, for ranks that agree on them.
  [[nodiscard]] RandomStream& random() noexcept { return random_; }

 protected:
  [[nodiscard]] RandomKey next_key() { return random_.next(); }

 private:
  double p_;
  RandomStream random_;
};

/// Whether `module` is a Dropout, and not one of whole channels: those ask no partition.
[[nodiscard]] bool drops_elements(const Module& module) noexcept;

/// Dropout of whole channels of x[N, C, H, W].
class Dropout2d : public Dropout {
 public:
  using Dropout::Dropout;
  Variable forward(const Variable& x) override;
  /// The factors of x in a forward: [N, C] of 0 and 1 / (1 - p); undefined when nothing is dropped.
  [[nodiscard]] Tensor channel_scale(std::int64_t samples, std::int64_t channels, DType dtype,
                                     Device device = {});
};

/// Dropout of whole channels of x[N, C, L].
class Dropout1d : public Dropout {
 public:
  using Dropout::Dropout;
  Variable forward(const Variable& x) override;
};

/// Dropout of whole channels of x[N, C, D, H, W].
class Dropout3d : public Dropout {
 public:
  using Dropout::Dropout;
  Variable forward(const Variable& x) override;
};

}  // namespace lockstep::nn
