#include <bit>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/tensor/kernels/optim/clip.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using test::parameter;
using test::set_grad;
using test::waves;

constexpr double infinity = std::numeric_limits<double>::infinity();

std::vector<float> gradient(const nn::NamedParameter& p) {
  return p.variable.grad().to_vector<float>();
}

TEST(ClipGradNorm, ReturnsTheNormOfAllGradientsTogetherAndScalesThemToTheLimit) {
  const auto a = parameter("a", {0.0F}), b = parameter("b", {0.0F});
  set_grad(a.variable, 3.0);
  set_grad(b.variable, 4.0);
  EXPECT_EQ(optim::clip_grad_norm({a, b}, 1.0), 5.0);
  EXPECT_FLOAT_EQ(gradient(a)[0], 3.0F / 5.000001F);
  EXPECT_FLOAT_EQ(gradient(b)[0], 4.0F / 5.000001F);
}

TEST(ClipGradNorm, TakesGradientsOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto a = parameter("a", {0.0F}), b = parameter("b", {0.0F});
    for (const auto* p : {&a, &b}) p->variable.set_dtype(dtype);
    set_grad(a.variable, 3.0);
    set_grad(b.variable, 4.0);
    EXPECT_EQ(optim::clip_grad_norm({a, b}, 2.5), 5.0);
    EXPECT_EQ(a.variable.grad().dtype(), dtype);
    EXPECT_EQ(a.variable.grad().to(DType::f32).to_vector<float>()[0], 1.5F);
    EXPECT_EQ(b.variable.grad().to(DType::f32).to_vector<float>()[0], 2.0F);
    optim::clip_grad_value({a, b}, 1.75);
    EXPECT_EQ(a.variable.grad().to(DType::f32).to_vector<float>()[0], 1.5F);
    EXPECT_EQ(b.variable.grad().to(DType::f32).to_vector<float>()[0], 1.75F);
  }
}

TEST(ClipGradNorm, LeavesSmallGradientsAndMissingOnesAsTheyAre) {
  const auto a = parameter("a", {0.0F}), none = parameter("none", {0.0F});
  set_grad(a.variable, 3.0);
  EXPECT_EQ(optim::clip_grad_norm({a, none}, 3.5), 3.0);
  EXPECT_EQ(gradient(a)[0], 3.0F);
  EXPECT_FALSE(none.variable.grad().defined());
  EXPECT_EQ(optim::clip_grad_norm({none}, 1.0), 0.0);
}

TEST(ClipGradNorm, OfNonfiniteGradientsIsNonfiniteAndSoAreTheGradients) {
  const auto a = parameter("a", {0.0F, 0.0F});
  set_grad(a.variable, std::vector<double>{1.0, infinity});
  EXPECT_EQ(optim::clip_grad_norm({a}, 1.0), infinity);
  EXPECT_TRUE(std::isnan(gradient(a)[1]));
  set_grad(a.variable, std::vector<double>{1.0, std::nan("")});
  EXPECT_TRUE(std::isnan(optim::clip_grad_norm({a}, 1.0)));
  EXPECT_TRUE(std::isnan(gradient(a)[0]));
}

TEST(ClipGradNorm, DoesNotOverflowWhereFloatsWould) {
  const auto a = parameter("a", {0.0F, 0.0F});
  set_grad(a.variable, 1e30);
  EXPECT_FLOAT_EQ(static_cast<float>(optim::clip_grad_norm({a}, 1.0)), std::sqrt(2.0F) * 1e30F);
  EXPECT_FLOAT_EQ(gradient(a)[0], std::sqrt(0.5F));
}

TEST(ClipGradNorm, OfVeryLargeAndSmallDoublesIsTheirNorm) {
  for (const double scale : {1e200, 1e-200}) {
    const Tensor zeros = Tensor::zeros({1}, DType::f64);
    const nn::NamedParameter a{"a", Variable(zeros, true)}, b{"b", Variable(zeros.clone(), true)};
    set_grad(a.variable, 3.0 * scale);
    set_grad(b.variable, 4.0 * scale);
    EXPECT_NEAR(optim::grad_norm({a, b}) / (5.0 * scale), 1.0, 1e-14);
    EXPECT_NEAR(euclidean_norm(a.variable.grad()) / (3.0 * scale), 1.0, 1e-14);
  }
}

TEST(ClipGradNorm, OfADeviceHasTheHostsBitsAndTheHostDoesNotWait) {
  constexpr Device device{DeviceType::sim, 0};
  const auto waits = [] { return SimulatedRuntime::instance().counts(0).host_waits; };
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    for (const double scale : {0.0, 0.01, 1.0, 1e200, 1e-200, infinity, std::nan("")}) {
      std::vector<nn::NamedParameter> here, there;
      for (const char* name : {"a", "b", "c"}) {
        for (auto* const all : {&here, &there}) {
          const Device where = all == &here ? Device{} : device;
          all->push_back({name, Variable(Tensor::zeros({300}, dtype, where), true)});
          auto gradient = waves(300, static_cast<double>(all->size()));
          for (double& g : gradient) g *= scale;
          if (*name != 'c') set_grad(all->back().variable, gradient);
        }
      }
      const Tensor norm = Tensor::empty({1}, DType::f64, device),
                   factor = Tensor::empty({1}, DType::f64, device);
      current_stream(device).synchronize();
      const auto before = waits();
      optim::grad_norm(there, norm);
      optim::clip_factor(norm, 0.5, factor);
      EXPECT_EQ(waits(), before);
      const double expected = optim::grad_norm(here);
      const auto bits = [](double x) { return std::bit_cast<std::uint64_t>(x); };
      EXPECT_EQ(bits(norm.item()), bits(expected)) << name_of(dtype) << " times " << scale;
      EXPECT_EQ(bits(factor.item()), bits(optim::clip_factor(expected, 0.5)));
    }
  }
}

TEST(ClipFactor, IsTheFactorOfClipGradNorm) {
  EXPECT_EQ(optim::clip_factor(5.0, 1.0), 1.0 / 5.000001);
  EXPECT_EQ(optim::clip_factor(3.0, 3.5), 1.0);
  EXPECT_EQ(optim::clip_factor(0.0, 1.0), 1.0);
  EXPECT_EQ(optim::clip_factor(infinity, 1.0), 0.0);
  EXPECT_TRUE(std::isnan(optim::clip_factor(std::nan(""), 1.0)));
  EXPECT_THROW(static_cast<void>(optim::clip_factor(1.0, 0.0)), InputError);
}

TEST(ClipGradValue, ClampsEveryElementAndKeepsNan) {
  const auto a = parameter("a", std::vector<float>(5));
  set_grad(a.variable, std::vector<double>{-7.0, -0.5, 0.25, infinity, std::nan("")});
  optim::clip_grad_value({a}, 0.5);
  const auto clipped = gradient(a);
  EXPECT_EQ(std::vector<float>(clipped.begin(), clipped.end() - 1),
            (std::vector<float>{-0.5F, -0.5F, 0.25F, 0.5F}));
  EXPECT_TRUE(std::isnan(clipped[4]));
}

TEST(Clip, ALimitThatIsNotAboveZeroIsRefused) {
  const auto a = parameter("a", {0.0F});
  for (const double limit : {0.0, -1.0, std::nan("")}) {
    EXPECT_THROW(optim::clip_grad_norm({a}, limit), InputError);
    EXPECT_THROW(optim::clip_grad_value({a}, limit), InputError);
  }
}

TEST(SumOfSquares, IsExactWhereDoublesAre) {
  // Below 2^53 every partial sum is a whole number; sizes around the lanes and the chunks.
  for (const std::int64_t n : {0, 1, 15, 16, 17, 65535, 65536, 65537, 200001}) {
    std::vector<float> x(static_cast<std::size_t>(n));
    double expected = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      x[i] = static_cast<float>(i % 1000) - 300.0F;
      expected += static_cast<double>(x[i]) * static_cast<double>(x[i]);
    }
    const Tensor t = Tensor::from(x, {n});
    EXPECT_EQ(sum_of_squares(t), expected) << n;
    EXPECT_EQ(sum_of_squares(t.to(DType::f64)), expected) << n;
  }
}

TEST(SumOfSquares, DoesNotDependOnTheTensorsAddress) {
  const auto numbers = waves(70000, 0.25);
  const Tensor home = Tensor::from(numbers, {70000});
  const Tensor memory = Tensor::empty({70013}, DType::f64);
  for (const std::int64_t at : {1, 5, 13}) {
    const Tensor moved = memory.slice(at, at + 70000);
    moved.copy_from(home);
    EXPECT_EQ(sum_of_squares(moved), sum_of_squares(home));
  }
}

}  // namespace
}  // namespace lockstep
