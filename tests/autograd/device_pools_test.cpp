// Pools of images with channels last on a GPU: values, gradients and layouts are those of plain
// images, without a copy in between. On a simulated device a stand-in computes like a GPU.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"
#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

struct PoolCase {
  const char* name;
  Shape x;
  std::function<Variable(const Variable&)> apply;
};

const std::vector<PoolCase>& pools() {
  static const std::vector<PoolCase> cases{
      {"max_pool2d of a ResNet",
       {2, 64, 7, 9},
       [](const auto& x) { return max_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); }},
      {"max_pool2d with pixels outside all windows",
       {3, 8, 5, 7},
       [](const auto& x) { return max_pool2d(x, {.kernel = 2, .stride = 3}); }},
      {"max_pool2d of no samples", {0, 8, 4, 4}, [](const auto& x) { return max_pool2d(x, 2); }},
      {"max_pool2d with ceil_mode",
       {1, 16, 6, 5},
       [](const auto& x) {
         return max_pool2d(x, {.kernel = {3, 2}, .stride = 2, .ceil_mode = true});
       }},
      {"max_pool2d to one pixel", {2, 8, 4, 4}, [](const auto& x) { return max_pool2d(x, 4); }},
      {"avg_pool2d",
       {2, 24, 6, 7},
       [](const auto& x) { return avg_pool2d(x, {.kernel = 3, .stride = 2, .padding = 1}); }},
      {"avg_pool2d of elements within the image, with ceil_mode",
       {1, 8, 5, 7},
       [](const auto& x) {
         return avg_pool2d(
             x, {.kernel = {2, 3}, .stride = {2, 2}, .padding = {1, 0}, .ceil_mode = true}, false);
       }},
      {"avg_pool2d by another divisor",
       {1, 8, 4, 6},
       [](const auto& x) { return avg_pool2d(x, {.kernel = 2}, true, 3); }},
      {"adaptive_avg_pool2d to one pixel",
       {3, 16, 7, 5},
       [](const auto& x) { return adaptive_avg_pool2d(x, 1); }},
      {"adaptive_avg_pool2d",
       {2, 8, 5, 7},
       [](const auto& x) {
         return adaptive_avg_pool2d(x, {{2, 3}});
       }},
      {"adaptive_max_pool2d", {2, 8, 5, 7}, [](const auto& x) {
         return adaptive_max_pool2d(x, 3);
       }}};
  return cases;
}

Variable image_leaf(const Shape& shape, std::uint64_t seed, DType dtype, Device device) {
  return Variable(random_tensor(shape, seed).to(dtype).to(device), true);
}
Variable in_layout(bool last, const Variable& x) { return last ? to_channel_blocks(x) : x; }

class DevicePools : public testing::TestWithParam<Device> {
 protected:
  DevicePools() {
    if (GetParam().type == DeviceType::sim) stand_in_.emplace();
  }

  /// The output, and twice the gradient, of x with channels last or plain.
  [[nodiscard]] static std::vector<Tensor> results_of(const PoolCase& c, DType dtype, bool last) {
    const Variable x = image_leaf(c.x, 1, dtype, GetParam());
    const Variable y = from_channel_blocks(c.apply(in_layout(last, x)));
    const Tensor upstream = random_tensor(y.shape(), 2).to(y.data().dtype()).to(GetParam());
    for (int pass = 0; pass < 2; ++pass) {
      backward(std::span(&y, 1), std::span(&upstream, 1), {.retain_graph = true});
    }
    return {y.data(), x.grad()};
  }

  /// Within roundings of the plain results' dtype.
  static void expect_near(const std::vector<Tensor>& found, const std::vector<Tensor>& expected) {
    for (std::size_t t = 0; t < expected.size(); ++t) {
      ASSERT_EQ(found[t].dtype(), expected[t].dtype());
      const double rounding = gpu_tolerance(found[t].dtype());
      const auto x = numbers(found[t]), y = numbers(expected[t]);
      ASSERT_EQ(x.size(), y.size());
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_LE(std::abs(x[i] - y[i]), rounding) << "tensor " << t << ", element " << i;
      }
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

INSTANTIATE_TEST_SUITE_P(Devices, DevicePools, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

TEST_P(DevicePools, WithChannelsLastGiveTheResultsOfPlainImages) {
  for (const PoolCase& c : pools()) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      SCOPED_TRACE(testing::Message() << c.name << " of " << name_of(dtype));
      expect_near(results_of(c, dtype, true), results_of(c, dtype, false));
    }
  }
}

TEST_P(DevicePools, WithChannelsLastKeepThemAndThe16BitsUnlessOnePixelIsLeft) {
  for (const PoolCase& c : pools()) {
    SCOPED_TRACE(c.name);
    for (const bool records : {true, false}) {
      const Variable x = image_leaf(c.x, 1, DType::bf16, GetParam());
      std::optional<NoGradGuard> no_grad;
      if (!records) no_grad.emplace();
      const Variable in = in_layout(true, x), y = c.apply(in);
      EXPECT_EQ(y.data().dtype(), DType::bf16);
      const Shape pooled = plain_shape(y.data());
      EXPECT_EQ(is_channel_blocked(y.data()), pooled[2] * pooled[3] > 1);
      EXPECT_EQ(y.requires_grad(), records);
      const Autocast autocast(Precision::bf16);
      EXPECT_EQ(c.apply(in).data().dtype(), DType::bf16);
    }
  }
}

TEST_P(DevicePools, WithChannelsLastHaveSecondDerivatives) {
  const auto second = [&](const PoolCase& c, bool last) {
    const Variable x = image_leaf(c.x, 1, DType::f32, GetParam());
    const Variable y = from_channel_blocks(c.apply(in_layout(last, x)));
    const Variable slope = grad(sum(y * y * y), x, {.create_graph = true});
    const Variable other = grad(sum(slope * slope), x, {.create_graph = true});
    return std::vector<Tensor>{slope.data(), other.data(), grad(sum(other * x), x).data()};
  };
  for (const PoolCase& c : pools()) {
    SCOPED_TRACE(c.name);
    const auto found = second(c, true), expected = second(c, false);
    for (std::size_t t = 0; t < found.size(); ++t) {
      const auto x = numbers(found[t]), y = numbers(expected[t]);
      for (std::size_t i = 0; i < x.size(); ++i) {
        ASSERT_NEAR(x[i], y[i], 1e-4 * std::max(1.0, std::abs(y[i]))) << t << ", " << i;
      }
    }
  }
}

TEST_P(DevicePools, AMaxPoolOfTooLargeWindowsTakesAPlainCopy) {
  const Variable x = image_leaf({1, 8, 18, 18}, 1, DType::bf16, GetParam());
  for (const auto& apply : std::vector<std::function<Variable(const Variable&)>>{
           [](const Variable& v) { return max_pool2d(v, {.kernel = 17, .stride = 1}); },
           [](const Variable& v) { return adaptive_max_pool2d(v, 1); }}) {
    const Variable y = apply(in_layout(true, x));
    EXPECT_EQ(y.data().layout(), Layout::plain);
    EXPECT_EQ(numbers(y.data()), numbers(apply(x).data()));
  }
}

TEST_P(DevicePools, WithChannelsLastRefuseWindowsThatDoNotFit) {
  const Variable x = in_layout(true, image_leaf({1, 8, 3, 4}, 1, DType::bf16, GetParam()));
  EXPECT_THROW(static_cast<void>(max_pool2d(x, 4)), ShapeError);
  EXPECT_THROW(static_cast<void>(avg_pool2d(x, {.kernel = 2, .padding = 2})), ShapeError);
  EXPECT_THROW(static_cast<void>(adaptive_avg_pool2d(x, 0)), ShapeError);
  EXPECT_THROW(static_cast<void>(max_pool3d(x, 2)), ShapeError);
}

TEST_P(DevicePools, WithChannelsLastAreOneKernelEachWay) {
  if (GetParam().type != DeviceType::sim) return;
  const auto launches = [&](const auto& f) {
    const auto now = [&] { return SimulatedRuntime::instance().counts(GetParam().index).launches; };
    const auto before = now();
    f();
    return now() - before;
  };
  for (const PoolCase& c : pools()) {
    if (c.x.numel() == 0) continue;
    SCOPED_TRACE(c.name);
    const Variable x = to_channel_blocks(image_leaf(c.x, 1, DType::bf16, GetParam()));
    Variable y;
    EXPECT_EQ(launches([&] { y = c.apply(x); }), 1);
    const Tensor upstream = Tensor::full(plain_shape(y.data()), 1, DType::bf16, GetParam());
    const Tensor given = is_channel_blocked(y.data()) ? in_channel_blocks(upstream) : upstream;
    const Tensor grad_x = Tensor::empty_like(x.data());
    const auto of_backward = [&](const Variable& root, const Tensor& gradient) {
      return launches(
          [&] { backward(std::span(&root, 1), std::span(&gradient, 1), {.retain_graph = true}); });
    };
    static_cast<void>(of_backward(x, grad_x));  // the leaf's first gradient is not added
    EXPECT_EQ(of_backward(y, given) - of_backward(x, grad_x), 1);
  }
}

}  // namespace
}  // namespace lockstep::test
