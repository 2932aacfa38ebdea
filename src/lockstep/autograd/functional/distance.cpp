#include <cmath>
#include <string>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/expand.hpp>
#include <lockstep/autograd/functional/reduced_by.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/vector_norm.hpp>
#include <lockstep/autograd/functional/where.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>

namespace lockstep {
namespace {

/// Of two equal elements each gets half of the gradient.
Variable smaller(const Variable& a, const Variable& b) {
  const Shape &shape = a.shape(), one_row{1, shape.numel()};
  return reshape(-amax(concat({reshape(-a, one_row), reshape(-b, one_row)}, 0), {0}), shape);
}

/// A length below `least` counts as `least` and has no gradient.
Variable at_least(const Variable& length, double least) {
  const Variable value(length.data());
  return length + clamp_min(least - value, 0.0);
}

/// pairwise_distance of f32 or f64.
Variable distance(const Variable& x1, const Variable& x2, double p, double eps, bool keepdim) {
  if (!(p > 0.0)) {
    throw InputError("pairwise_distance: p must be above 0, and is " + std::to_string(p));
  }
  return norm(x1 - x2 + eps, p, {-1}, keepdim);
}

/// The cosines of the rows of x1 and x2, as in cosine_embedding_loss.
Variable embedding_cosines(const Variable& x1, const Variable& x2) {
  // sqrt(|x|^2 + eps) with PyTorch's eps. It matters for short rows only, and squares of long ones
  // might overflow. An infinite length gives NaN, as in PyTorch.
  const auto length = [](const Variable& x, bool keepdim) {
    constexpr double eps = 1e-12, longest = 1e4;
    const Variable plain = norm(x, 2.0, {-1}, keepdim), part = clamp_max(plain, longest);
    return plain + (sqrt(pow(part, 2.0) + eps) - part) + 0.0 * plain;
  };
  return sum(x1 / length(x1, true) * x2, {-1}) / length(x2, false);
}

}  // namespace

Variable pairwise_distance(const Operand& x1, const Operand& x2, double p, double eps,
                           bool keepdim) {
  return detail::rounded_once(x1, x2, [&](const Variable& a, const Variable& b) {
    return distance(a, b, p, eps, keepdim);
  });
}

Variable normalize(const Operand& x, double p, int dim, double eps) {
  return detail::rounded_once(
      x, [&](const Variable& v) { return v / clamp_min(norm(v, p, {dim}, true), eps); });
}

// Rows are scaled to length 1 before they are multiplied: products of long ones might overflow.
Variable cosine_similarity(const Operand& x1, const Operand& x2, int dim, double eps) {
  const Shape shape = broadcast_shape("cosine_similarity", x1.data(), x2.data());
  const auto unit = [&](const Variable& x) {
    const Variable part = expand(x, shape);
    return part / at_least(norm(part, 2.0, {dim}, true), eps);
  };
  return detail::rounded_once(
      x1, x2, [&](const Variable& a, const Variable& b) { return sum(unit(a) * unit(b), {dim}); });
}

Variable triplet_margin_loss(const Operand& anchor, const Operand& positive,
                             const Operand& negative, const TripletMarginOptions& options) {
  const auto between = [&](const Variable& a, const Variable& b) {
    return distance(a, b, options.p, options.eps, false);
  };
  return detail::rounded_once(
      anchor, positive, negative, [&](const Variable& a, const Variable& p, const Variable& n) {
        Variable far = between(a, n);
        if (options.swap) far = smaller(far, between(p, n));
        return detail::reduced_by(clamp_min(between(a, p) - far + options.margin, 0.0),
                                  options.reduction);
      });
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
  return detail::rounded_once(x1, x2, [&](const Variable& a, const Variable& b) {
    const Variable cosine = embedding_cosines(a, b);
    // Waits for a target on a device.
    const Tensor alike = target.to(Device{}).to(DType::f64).reshape(cosine.shape());
    const auto is = [&](double value) {
      std::vector<std::uint8_t> flags;
      for (const double t : alike.to_vector<double>()) flags.push_back(t == value ? 1 : 0);
      return Tensor::from(flags, cosine.shape()).to(DType::boolean).to(cosine.data().device());
    };
    const Variable zeros(Tensor::zeros(cosine.shape(), cosine.data().dtype(), x1.data().device()));
    return detail::reduced_by(where(is(1.0), 1.0 - cosine, zeros) +
                                  where(is(-1.0), clamp_min(cosine - margin, 0.0), zeros),
                              reduction);
  });
}

}  // namespace lockstep
