#include <lockstep/parallel/held_gradients.hpp>

#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {

void HeldGradients::take(std::span<const Bucket> buckets) {
  for (const Bucket& bucket : buckets) {
    for (const Variable& parameter : bucket.parameters) {
      if (!parameter.grad().defined()) continue;
      held_.emplace_back(parameter, parameter.grad().clone());
      parameter.zero_grad();
    }
  }
}

void HeldGradients::give_back() {
  for (const auto& [parameter, gradient] : held_) {
    if (parameter.grad().defined()) {
      add_scaled(gradient, 1.0, parameter.grad());
    } else {
      parameter.grad_buffer().copy_from(gradient);
      parameter.mark_grad_present();
    }
  }
  held_.clear();
}

}  // namespace lockstep
