#include <cstring>
#include <functional>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/kernels/elementwise/streaming.hpp>
#include <lockstep/tensor/kernels/norm/norm.hpp>
#include <lockstep/tensor/kernels/reduce/softmax.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t rows = 2051, width = 4100, part = 293;  // rows in 7 parts

Tensor numbers(std::uint64_t seed) {
  PhiloxSequence random(seed, 0);
  std::vector<float> values(rows * width);
  for (float& value : values) value = random.uniform() - 0.5F;
  return Tensor::from(values, {rows, width});
}

/// f(first row, rows) is called for all rows at once and for each part; both must write the same
/// bits to what `result` gives.
void expect_the_bits_of_parts(
    const Tensor& whole, const Tensor& in_parts,
    const std::function<void(const Tensor&, std::int64_t, std::int64_t)>& f) {
  ASSERT_TRUE(streaming::worth_it(whole)) << "these rows are to be written around the cache";
  ASSERT_FALSE(streaming::worth_it(in_parts.slice(0, part)));
  f(whole, 0, rows);
  for (std::int64_t r = 0; r < rows; r += part) f(in_parts.slice(r, r + part), r, part);
  EXPECT_EQ(std::memcmp(whole.data(), in_parts.data(), whole.bytes()), 0);
}

TEST(LargeResults, HaveTheBitsOfSmallOnes) {
  const Tensor x = numbers(1), g = numbers(2);
  const Tensor whole = Tensor::zeros(x.shape()), parts = Tensor::zeros(x.shape());
  const Tensor weight = Tensor::full({width}, 1.5), bias = Tensor::full({width}, 0.25);
  const Tensor mean = Tensor::zeros({rows}), inverse = Tensor::zeros({rows});
  const auto compare = [&](const auto& f) { expect_the_bits_of_parts(whole, parts, f); };

  compare([&](const Tensor& y, std::int64_t r, std::int64_t n) {
    layer_norm_forward(x.slice(r, r + n), weight, bias, 1e-5, y, mean.slice(r, r + n),
                       inverse.slice(r, r + n));
  });
  const Tensor of_weight = Tensor::zeros({width}), of_bias = Tensor::zeros({width});
  for (const bool parameters : {false, true}) {
    compare([&](const Tensor& grad_x, std::int64_t r, std::int64_t n) {
      NormGradients gradients{grad_x, {}, {}};
      if (parameters) gradients.weight = of_weight, gradients.bias = of_bias;
      layer_norm_backward(g.slice(r, r + n), x.slice(r, r + n), weight, mean.slice(r, r + n),
                          inverse.slice(r, r + n), gradients);
    });
  }
  compare([&](const Tensor& y, std::int64_t r, std::int64_t n) {
    log_softmax_forward(x.slice(r, r + n), -1, y);
  });
  compare([&](const Tensor& grad_x, std::int64_t r, std::int64_t n) {
    softmax_backward(g.slice(r, r + n), x.slice(r, r + n), -1, false, grad_x);
  });
}

}  // namespace
}  // namespace lockstep
