#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/linalg/packed_mlp.hpp>

namespace lockstep {
namespace {

/// Numbers of both signs that differ everywhere.
std::vector<float> numbers(std::int64_t count, int seed) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i)
    values.push_back(static_cast<float>(std::sin(0.7 * static_cast<double>(i) + seed)));
  return values;
}

PackedMlp::Layer layer(std::int64_t in, std::int64_t out, bool bias, bool relu) {
  return {Tensor::from(numbers(out * in, 1), {out, in}),
          bias ? Tensor::from(numbers(out, 2), {out}) : Tensor(), relu};
}

/// The same in double, one number after another.
std::vector<double> reference(const std::vector<PackedMlp::Layer>& layers,
                              std::span<const float> sample) {
  std::vector<double> x(sample.begin(), sample.end());
  for (const auto& [weight, bias, relu] : layers) {
    const auto w = weight.to_vector<float>();
    std::vector<double> y(static_cast<std::size_t>(weight.size(0)));
    for (std::size_t o = 0; o < y.size(); ++o) {
      if (bias.defined()) y[o] = bias.to_vector<float>()[o];
      for (std::size_t i = 0; i < x.size(); ++i)
        y[o] += static_cast<double>(w[o * x.size() + i]) * x[i];
      if (relu) y[o] = std::max(0.0, y[o]);
    }
    x = y;
  }
  return x;
}

std::vector<float> run(const PackedMlp& network, std::span<const float> input) {
  const std::int64_t n = std::ssize(input) / network.inputs();
  std::vector<float> output(static_cast<std::size_t>(n * network.outputs() + 1), 7.0F);
  network.run(input.data(), n, output.data());
  EXPECT_EQ(output.back(), 7.0F) << "what is behind the outputs is the caller's";
  output.pop_back();
  return output;
}

TEST(PackedMlp, EqualsItsFormulaForEveryWidthAndNumberOfSamples) {
  for (const std::int64_t width : {1, 7, 8, 16, 17, 33, 48, 64, 65, 130}) {
    const std::vector<PackedMlp::Layer> layers{layer(5, width, true, true),
                                               layer(width, width, false, true),
                                               layer(width, 3, true, false)};
    const PackedMlp network(layers);
    for (const std::int64_t samples : {0, 1, 2, 6, 7, 23, 24, 47, 48, 49, 100}) {
      const auto input = numbers(samples * 5, 3);
      const auto output = run(network, input);
      for (std::int64_t s = 0; s < samples; ++s) {
        const auto want =
            reference(layers, std::span(input).subspan(static_cast<std::size_t>(s * 5), 5));
        for (std::size_t o = 0; o < 3; ++o) {
          ASSERT_LE(std::abs(output[static_cast<std::size_t>(s) * 3 + o] - want[o]),
                    2e-5 * static_cast<double>(width))
              << "width " << width << ", sample " << s << " of " << samples << ", output " << o;
        }
      }
    }
  }
}

TEST(PackedMlp, BitsOfASampleDoNotDependOnOtherSamples) {
  const PackedMlp network({layer(9, 70, true, true), layer(70, 20, true, false)});
  const auto input = numbers(std::int64_t{9} * 101, 3);
  const auto together = run(network, input);
  for (std::size_t s = 0; s < 101; ++s) {
    const auto alone = run(network, std::span(input).subspan(s * 9, 9));
    EXPECT_TRUE(std::equal(alone.begin(), alone.end(),
                           together.begin() + std::ssize(alone) * static_cast<std::ptrdiff_t>(s)))
        << s;
  }
}

TEST(PackedMlp, KeepsNan) {
  const PackedMlp network({layer(2, 3, true, true)});
  const auto output = run(network, std::vector{std::numeric_limits<float>::quiet_NaN(), 1.0F});
  for (const float y : output) EXPECT_TRUE(std::isnan(y));
}

TEST(PackedMlp, RefusesLayersThatDoNotFit) {
  EXPECT_THROW(PackedMlp({}), ShapeError);
  EXPECT_THROW(PackedMlp({layer(2, 3, true, true), layer(4, 1, true, false)}), ShapeError);
  EXPECT_THROW(PackedMlp({{Tensor::zeros({3, 2}), Tensor::zeros({2}), false}}), ShapeError);
}

}  // namespace
}  // namespace lockstep
