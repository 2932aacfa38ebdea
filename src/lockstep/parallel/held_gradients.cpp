#include <lockstep/parallel/held_gradients.hpp>

#include <utility>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {

void HeldGradients::move_out(std::span<const Bucket> buckets) {
  for (const Bucket& bucket : buckets) {
    for (const Variable& parameter : bucket.parameters) {
      if (!parameter.grad().defined()) continue;
      const Tensor gradient = parameter.grad().clone();
      held_.push_back({parameter, parameter.grad_buffer(), gradient});
      parameter.set_grad_buffer(gradient);
      parameter.mark_grad_present();
    }
  }
}

void HeldGradients::restore_buckets() {
  for (Held& held : held_) {
    if (!held.in_bucket.defined()) continue;
    held.gradient = held.parameter.grad();
    held.parameter.set_grad_buffer(std::exchange(held.in_bucket, Tensor()));
  }
}

void HeldGradients::add_back() {
  restore_buckets();
  for (const auto& [parameter, in_bucket, gradient] : held_) {
    if (!gradient.defined()) continue;
    if (parameter.grad().defined()) {
      add_scaled(gradient, 1.0, parameter.grad());
    } else {
      parameter.grad_buffer().copy_from(gradient);
      parameter.mark_grad_present();
    }
  }
  held_.clear();
}

void HeldGradients::forget() noexcept {
  for (Held& held : held_) held.gradient = {};
}

}  // namespace lockstep
