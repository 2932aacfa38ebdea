#include <lockstep/tensor/kernels/optim/grad_scale.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

template <class Space>
void update_scale_kernel(const Space& space, const Tensor& scale, const Tensor& growth_tracker,
                         const Tensor& found_inf, const GradScaleRule& rule) {
  const auto kept = flat_view<Space, float>(scale);
  const auto good_steps = flat_view<Space, std::int64_t>(growth_tracker);
  const auto found = flat_view<Space, const float>(found_inf);
  constexpr float least = std::numeric_limits<float>::min(),
                  most = std::numeric_limits<float>::max();
  const GradScaleRule by = rule;
  for_each(
      "lockstep::update_grad_scale", space, 1, KOKKOS_LAMBDA(std::int64_t i) {
        const bool is_bad = found(0) != 0.0F;
        const std::int64_t now = is_bad ? 0 : good_steps(i) + 1;
        const bool grows = now == by.growth_interval;
        good_steps(i) = grows ? 0 : now;
        if (!is_bad && !grows) return;
        const double factor = is_bad ? by.backoff_factor : by.growth_factor;
        const auto next = static_cast<float>(static_cast<double>(kept(i)) * factor);
        if (is_bad || next <= most) kept(i) = next < least ? least : next;
      });
}

}  // namespace

void update_grad_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& found_inf,
                       const GradScaleRule& rule) {
  dispatch(current_stream(scale.device()), [&](const auto& space) {
    update_scale_kernel(space, scale, growth_tracker, found_inf, rule);
  });
}

}  // namespace lockstep
