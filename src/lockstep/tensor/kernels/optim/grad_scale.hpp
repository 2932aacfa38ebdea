#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// How the scale of a loss changes (optim::GradScaler).
struct GradScaleRule {
  double growth_factor, backoff_factor;
  std::int64_t growth_interval;
};

/// One iteration is over: where `found_inf`, f32 [1], is not 0, `scale`, f32 [], is multiplied by
/// the backoff factor, and `growth_tracker`, i64 [], is 0 again. Otherwise the tracker counts the
/// iteration, and each growth_interval of them the scale grows, unless it overflowed. It stays a
/// normal number. All on one device; the host does not wait.
void update_grad_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                       const GradScaleRule& rule);

}  // namespace lockstep
