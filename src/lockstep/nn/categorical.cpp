#include <lockstep/nn/categorical.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>

#include <fmt/format.h>

#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/rounded_once.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/data/categorical.hpp>

namespace lockstep::nn {
namespace {

// Separates these draws from those of layers, which are numbered from 0: "CATE".
constexpr std::uint32_t categorical_stream = 0x43415445U;

void expect_categories(const Variable& x) {
  if (x.shape().dims() < 1 || x.shape()[-1] < 1 || !is_floating(x.data().dtype())) {
    throw ShapeError("Categorical takes floating [..., C] with at least one category, not " +
                     describe(x.data()));
  }
}

/// Checks that each row's weights, or logarithms of weights, are numbers with a positive and finite
/// sum. Waits for a device.
void expect_distributions(const Tensor& x, bool are_weights) {
  const Tensor on_host = x.to(Device{}).to(DType::f64);
  const std::int64_t categories = x.size(x.dims() - 1);
  const std::span<const double> all(static_cast<const double*>(on_host.data()),
                                    static_cast<std::size_t>(on_host.numel()));
  for (std::size_t i = 0; i < all.size(); i += static_cast<std::size_t>(categories)) {
    const auto row = all.subspan(i, static_cast<std::size_t>(categories));
    const double largest = *std::ranges::max_element(row);
    const bool numbers = std::ranges::all_of(row, [&](double value) {
      return are_weights ? value >= 0.0 && std::isfinite(value)
                         : value < std::numeric_limits<double>::infinity();
    });
    const double none = are_weights ? 0.0 : -std::numeric_limits<double>::infinity();
    if (numbers && largest > none) continue;
    throw InputError(fmt::format(
        "Categorical: row {} is not a distribution: {}", i / row.size(),
        are_weights ? "weights must be finite and at least 0, with at least one above 0 per row"
                    : "logits must be below infinity and not NaN, with at least one above "
                      "-infinity per row"));
  }
}

/// [..., C] without its last dimension.
Shape rows_of(const Shape& shape) {
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::ranges::copy(shape, extents.begin());
  return Shape(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.dims() - 1)));
}

/// log(max(p, the smallest normal number)), without a gradient below it. Waits for a device.
Variable bounded_log(const Variable& p) {
  const Tensor values = p.data().to(Device{});
  const Tensor below = Tensor::empty(values.shape(), DType::boolean);
  double least = 0;
  dispatch_floating(values.dtype(), "Categorical", [&]<class T>() {
    constexpr T bound = std::numeric_limits<T>::min();
    least = static_cast<double>(bound);
    const std::span<const T> all(static_cast<const T*>(values.data()),
                                 static_cast<std::size_t>(values.numel()));
    std::ranges::transform(all, static_cast<bool*>(below.data()), [](T x) { return x < bound; });
  });
  return log(masked_fill(p, below.to(p.data().device()), least));
}

}  // namespace

Categorical Categorical::from_logits(const Variable& logits) {
  expect_categories(logits);
  expect_distributions(logits.data(), false);
  return Categorical(log_softmax(logits, -1));
}

Categorical Categorical::from_probs(const Variable& probs) {
  expect_categories(probs);
  expect_distributions(probs.data(), true);
  return Categorical(lockstep::detail::rounded_once(
      probs, [](const Variable& p) { return bounded_log(p / sum(p, {-1}, true)); }));
}

Tensor Categorical::sample() const {
  thread_local RandomStream stream(categorical_stream);
  return sample(stream.next());
}

Tensor Categorical::sample(const RandomKey& key) const {
  const NoGradGuard no_grad;
  Tensor drawn = Tensor::empty(rows_of(log_probs_.shape()), DType::i64, log_probs_.data().device());
  const Tensor probs = exp(log_probs_).data();
  sample_categories(is_half(probs.dtype()) ? probs.to(DType::f32) : probs, key, drawn);
  return drawn;
}

Variable Categorical::log_prob(const Tensor& value) const {
  const Shape rows = rows_of(log_probs_.shape());
  if (value.dtype() != DType::i64 || value.shape() != rows) {
    throw ShapeError("log_prob of " + describe(log_probs_.data()) + " takes i64" + to_string(rows) +
                     ", not " + describe(value));
  }
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::ranges::copy(rows, extents.begin());
  extents[static_cast<std::size_t>(rows.dims())] = 1;
  const Shape column(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(rows.dims() + 1)));
  return reshape(gather(log_probs_, -1, value.reshape(column)), rows);
}

Variable Categorical::entropy() const {
  // 0 times the bound is 0, but 0 times -inf would be NaN. Every log_prob with a probability above
  // 0 is above the bound.
  return mul(sum(exp(log_probs_) * clamp_min(log_probs_, -1e4), {-1}), -1.0);
}

}  // namespace lockstep::nn
