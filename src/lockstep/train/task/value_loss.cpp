#include <lockstep/train/task/value_loss.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/checkpoint/signature.hpp>

namespace lockstep::train {
namespace {

/// Half 0 (means) or 1 of the output of a ModelSignature::Output::gaussian model, [N, 2 K, ...].
Variable half_of(const Variable& output, std::int64_t half) {
  const std::int64_t width = output.data().size(1) / 2;
  return narrow(output, 1, half * width, width);
}

void declare_delta(DeckTable& table, double& delta) {
  table.key("delta", delta,
            {.doc = "error from which on the loss is linear (smooth_l1: PyTorch's beta)",
             .min = 0.0,
             .above_min = true});
}

}  // namespace

LossKinds& loss_kinds() {
  // In the order of the reference. The first is the default.
  static LossKinds kinds([](LossKinds& own) {
    add_loss<MseLoss>(own, "mse", "the errors' squares");
    add_loss<MaeLoss>(own, "mae", "the errors' sizes");
    add_loss<HuberLoss>(own, "huber", "squares of small errors, sizes of large ones");
    add_loss<SmoothL1Loss>(own, "smooth_l1", "the same, divided by delta");
    add_loss<GaussianNllLoss>(own, "gaussian_nll", "the likelihood of the targets");
  });
  return kinds;
}

Variable MseLoss::loss(const Variable& output, const Tensor& targets) {
  return mse_loss(output, targets);
}

Variable MaeLoss::loss(const Variable& output, const Tensor& targets) {
  return l1_loss(output, targets);
}

void declare(DeckTable& table, HuberLoss& options) { declare_delta(table, options.delta); }
Variable HuberLoss::loss(const Variable& output, const Tensor& targets) const {
  return huber_loss(output, targets, Reduction::mean, delta);
}

void declare(DeckTable& table, SmoothL1Loss& options) { declare_delta(table, options.delta); }
Variable SmoothL1Loss::loss(const Variable& output, const Tensor& targets) const {
  return smooth_l1_loss(output, targets, Reduction::mean, delta);
}

Variable GaussianNllLoss::means(const Variable& output) { return half_of(output, 0); }
Variable GaussianNllLoss::loss(const Variable& output, const Tensor& targets) {
  return gaussian_nll_loss(means(output), targets,
                           softplus(half_of(output, 1)) + ModelSignature::least_variance);
}

}  // namespace lockstep::train
