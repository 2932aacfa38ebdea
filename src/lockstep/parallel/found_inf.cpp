#include <lockstep/parallel/found_inf.hpp>

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/tensor/finite.hpp>

namespace lockstep {

void agree_on_found_inf(const char* who, std::initializer_list<ProcessGroup*> groups,
                        const std::vector<nn::NamedParameter>& parameters) {
  constexpr double finite = 0, not_finite = 1, no_element = 2;
  const auto has_elements = [](const nn::NamedParameter& one) {
    return one.variable.requires_grad() && one.variable.data().numel() > 0;
  };
  const auto is_broken = [](const nn::NamedParameter& one) {
    const Tensor gradient = one.variable.grad();
    return gradient.defined() && !all_finite(gradient);
  };
  const double mine = std::ranges::none_of(parameters, has_elements) ? no_element
                      : std::ranges::any_of(parameters, is_broken)   ? not_finite
                                                                     : finite;
  double worst = mine;
  for (ProcessGroup* const group : groups) {
    if (group) worst = all_reduce_scalar(*group, worst, ReduceOp::max);
  }
  if (worst == no_element) {
    throw AgreedError(fmt::format(
        "{}: a rank has no element of any trained parameter (the model is small, or a stage is "
        "frozen), so its GradScaler cannot see that the others skip a step. Use fewer ranks or "
        "stages, or another precision than fp16.",
        who));
  }
  if (worst == finite) return;
  constexpr double nan = std::numeric_limits<double>::quiet_NaN();
  bool is_seen = false;  // by this rank's GradScaler
  for (const auto& one : parameters) {
    const Tensor gradient = one.variable.grad();
    if (!gradient.defined()) continue;
    gradient.fill(nan);
    is_seen |= gradient.numel() > 0;
  }
  if (is_seen) return;
  const auto& any = *std::ranges::find_if(parameters, has_elements);
  any.variable.grad_buffer().fill(nan);
  any.variable.mark_grad_present();
}

}  // namespace lockstep
