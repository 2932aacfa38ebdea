#include <cmath>
#include <string>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

Variable reduced_by(const Variable& losses, Reduction reduction) {
  switch (reduction) {
    case Reduction::none:
      break;
    case Reduction::mean:
      return mean(losses);
    case Reduction::sum:
      return sum(losses);
  }
  return losses;
}

Variable smaller(const Variable& a, const Variable& b) { return a - clamp_min(a - b, 0.0); }

}  // namespace

Variable pairwise_distance(const Operand& x1, const Operand& x2, double p, double eps,
                           bool keepdim) {
  if (!(p > 0.0)) {
    throw InputError("pairwise_distance: p must be above 0, and is " + std::to_string(p));
  }
  const Variable d = x1 - x2 + eps;
  if (p == 2.0) return sqrt(sum(pow(d, 2.0), {-1}, keepdim));
  if (std::isinf(p)) return amax(abs(d), {-1}, keepdim);
  if (p == 1.0) return sum(abs(d), {-1}, keepdim);
  return pow(sum(pow(abs(d), p), {-1}, keepdim), 1.0 / p);
}

Variable cosine_similarity(const Operand& x1, const Operand& x2, int dim, double eps) {
  const Variable product = x1 * x2;
  // The root of what is bounded, and not bounded itself: it has no slope at 0.
  const auto length = [&](const Variable& x) {
    return sqrt(clamp_min(sum(expand(pow(x, 2.0), product.shape()), {dim}), eps * eps));
  };
  return sum(product, {dim}) / (length(x1) * length(x2));
}

Variable triplet_margin_loss(const Operand& anchor, const Operand& positive,
                             const Operand& negative, const TripletMarginOptions& options) {
  const auto distance = [&](const Variable& a, const Variable& b) {
    return pairwise_distance(a, b, options.p, options.eps);
  };
  Variable far = distance(anchor, negative);
  if (options.swap) far = smaller(far, distance(positive, negative));
  return reduced_by(clamp_min(distance(anchor, positive) - far + options.margin, 0.0),
                    options.reduction);
}

Variable cosine_embedding_loss(const Operand& x1, const Operand& x2, const Tensor& target,
                               double margin, Reduction reduction) {
  const Shape& shape = x1.shape();
  if (x2.shape() != shape || shape.dims() < 1 || shape.dims() > 2 ||
      target.numel() != shape.numel() / std::max<std::int64_t>(shape[-1], 1)) {
    throw ShapeError("cosine_embedding_loss of " + describe(x1.data()) + " and " +
                     describe(x2.data()) + " with target " + describe(target) +
                     ": they are [N, D] or [D], with one target for each row");
  }
  constexpr double eps = 1e-12;  // PyTorch's
  const auto square = [](const Variable& x) { return sum(pow(x, 2.0), {-1}) + eps; };
  const Variable cosine = sum(x1 * x2, {-1}) / sqrt(square(x1) * square(x2));
  const Tensor alike = target.to(DType::f64).reshape(cosine.shape());
  const auto is = [&](double value) {
    std::vector<std::uint8_t> flags;
    for (const double t : alike.to_vector<double>()) flags.push_back(t == value ? 1 : 0);
    return Tensor::from(flags, cosine.shape()).to(DType::boolean);
  };
  const Variable zeros(Tensor::zeros(cosine.shape(), x1.data().dtype(), x1.data().device()));
  return reduced_by(
      where(is(1.0), 1.0 - cosine, zeros) + where(is(-1.0), clamp_min(cosine - margin, 0.0), zeros),
      reduction);
}

}  // namespace lockstep
