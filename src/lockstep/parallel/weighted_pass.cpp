#include <lockstep/parallel/weighted_pass.hpp>

#include <span>

#include <fmt/format.h>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// weight x loss_scale, rounded once, like the loss.
Tensor gradient_of_scaled(const Tensor& loss, double weight, const Tensor& loss_scale) {
  const Tensor factor = loss_scale.to(DType::f64);
  factor *= weight;
  return factor.to(loss.dtype()).reshape(loss.shape());
}

}  // namespace

bool& WeightedPass::running() noexcept {
  thread_local constinit bool is_running = false;
  return is_running;
}

void WeightedPass::run(const char* caller, const Variable& loss, double weight,
                       const Tensor& loss_scale, PassObserver& observer) {
  if (loss.data().numel() != 1) {
    throw Error(fmt::format("{}: backward() needs a loss of one element, not {}", caller,
                            describe(loss.data())));
  }
  PassOptions pass{.roots = std::span(&loss, 1), .seed = weight, .observer = &observer};
  Tensor gradient;
  if (loss_scale.defined() && loss_scale.device() == Device{}) {
    pass.seed = weight * loss_scale.item();
  } else if (loss_scale.defined()) {
    gradient = gradient_of_scaled(loss.data(), weight, loss_scale);
    pass.gradients = std::span(&gradient, 1);
  }
  BackwardPass(pass).run();
}

}  // namespace lockstep
