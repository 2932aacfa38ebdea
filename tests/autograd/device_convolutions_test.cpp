// Convolutions of variables in 16 bits on a GPU: types, values and gradients under Autocast and of
// 16-bit variables. On a simulated device a stand-in computes like a GPU and counts.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/functional/conv_nd.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/test_devices.hpp>

#include "gradient_check.hpp"
#include "sixteen_bits.hpp"

namespace lockstep::test {
namespace {

/// Of x, weight and bias.
using Convolve = std::function<Variable(const std::vector<Variable>&)>;

struct ConvolutionCase {
  const char* name;
  std::vector<Shape> inputs;
  Convolve apply;
};

const std::vector<ConvolutionCase>& convolutions() {
  static const std::vector<ConvolutionCase> cases{
      {"conv1d",
       {{2, 4, 9}, {6, 2, 3}, {6}},
       [](const auto& v) {
         return conv1d(v[0], v[1], v[2], {.stride = 2, .padding = 1, .groups = 2});
       }},
      {"conv2d",
       {{2, 3, 6, 5}, {4, 3, 3, 3}, {4}},
       [](const auto& v) { return conv2d(v[0], v[1], v[2], {.padding = 1}); }},
      {"conv2d with channels last",
       {{2, 8, 6, 5}, {16, 8, 3, 3}, {16}},
       [](const auto& v) {
         return from_channel_blocks(
             conv2d(v[0], v[1], v[2], {.padding = 1}, Layout::channel_blocks));
       }},
      {"conv3d",
       {{1, 2, 4, 4, 4}, {3, 2, 2, 2, 2}, {3}},
       [](const auto& v) { return conv3d(v[0], v[1], v[2]); }},
      {"conv_transpose1d",
       {{2, 4, 5}, {4, 3, 3}, {3}},
       [](const auto& v) { return conv_transpose1d(v[0], v[1], v[2], {.stride = 2}); }},
      {"conv_transpose2d",
       {{2, 4, 4, 5}, {4, 3, 3, 2}, {6}},
       [](const auto& v) {
         return conv_transpose2d(v[0], v[1], v[2],
                                 {.stride = 2, .padding = 1, .output_padding = 1, .groups = 2});
       }},
      {"conv_transpose2d with windows that the result leaves out",
       {{2, 2, 4, 5}, {2, 3, 3, 2}, {3}},
       [](const auto& v) {
         return conv_transpose2d(v[0], v[1], v[2], {.output_padding = {0, 1}, .dilation = {1, 2}});
       }},
      {"conv_transpose3d", {{1, 2, 3, 3, 3}, {2, 3, 2, 2, 2}, {3}}, [](const auto& v) {
         return conv_transpose3d(v[0], v[1], v[2]);
       }}};
  return cases;
}

/// Output and gradients.
std::vector<Tensor> results_of(const ConvolutionCase& c, DType dtype, Device device,
                               Precision precision = Precision::f32) {
  std::vector<Variable> inputs;
  for (const Shape& shape : c.inputs) {
    inputs.emplace_back(random_tensor(shape, inputs.size()).to(dtype).to(device), true);
  }
  Variable y;
  {
    const Autocast autocast(precision);
    y = c.apply(inputs);
  }
  const Tensor upstream = random_tensor(y.shape(), 9).to(DType::bf16).to(y.data().dtype());
  const Tensor there = upstream.to(device);
  for (int pass = 0; pass < 2; ++pass) {
    backward(std::span(&y, 1), std::span(&there, 1), {.retain_graph = true});
  }
  std::vector<Tensor> results{y.data()};
  for (const Variable& input : inputs) results.push_back(input.grad());
  return results;
}

class DeviceConvolutions : public testing::TestWithParam<Device> {
 protected:
  DeviceConvolutions() {
    if (GetParam().type == DeviceType::sim) stand_in_.emplace();
  }

  static void expect_near_host(const std::vector<Tensor>& found,
                               const std::vector<Tensor>& expected) {
    for (std::size_t i = 0; i < expected.size(); ++i) {
      SCOPED_TRACE("tensor " + std::to_string(i));
      expect_like_host(GetParam(), numbers(found[i]), numbers(expected[i]), 2e-2, 2e-2);
    }
  }

 private:
  std::optional<GpuStandIn> stand_in_;
};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceConvolutions, testing::ValuesIn(devices_to_test()),
                         name_of_device_case);

TEST_P(DeviceConvolutions, UnderAutocastResultsHave16BitsAndGradientsTheTypesOfVariables) {
  for (const ConvolutionCase& c : convolutions()) {
    for (const auto& [precision, dtype] :
         {std::pair{Precision::bf16, DType::bf16}, std::pair{Precision::fp16, DType::f16}}) {
      SCOPED_TRACE(testing::Message() << c.name << " in " << name_of(dtype));
      const auto found = results_of(c, DType::f32, GetParam(), precision);
      EXPECT_EQ(found[0].dtype(), dtype);
      for (std::size_t i = 1; i < found.size(); ++i) EXPECT_EQ(found[i].dtype(), DType::f32);
      expect_near_host(found, results_of(c, DType::f32, {}, precision));
      // A variable of Autocast's type is taken as it is.
      const auto narrow = results_of(c, dtype, GetParam(), precision);
      for (const Tensor& t : narrow) EXPECT_EQ(t.dtype(), dtype);
    }
  }
}

TEST_P(DeviceConvolutions, VariablesOf16BitsAreConvolvedAsSuch) {
  for (const ConvolutionCase& c : convolutions()) {
    for (const DType dtype : narrow_types) {
      SCOPED_TRACE(testing::Message() << c.name << " of " << name_of(dtype));
      const int before = GpuStandIn::narrow_convolutions();
      const auto found = results_of(c, dtype, GetParam());
      for (const Tensor& t : found) EXPECT_EQ(t.dtype(), dtype);
      if (GetParam().type == DeviceType::sim) {
        EXPECT_EQ(GpuStandIn::narrow_convolutions() - before, 5);  // forward, and twice two
      }
      expect_near_host(found, results_of(c, dtype, {}));
    }
  }
}

TEST_P(DeviceConvolutions, AParameterMayTakeItsGradientInF32) {
  const Variable x(Tensor::full({2, 1, 4, 4}, 1, DType::bf16, GetParam()));
  const Variable w(Tensor::full({1, 1, 1, 1}, 1, DType::bf16, GetParam()), true),
      b(Tensor::full({1}, 1, DType::bf16, GetParam()), true);
  for (const Variable& leaf : {w, b}) {
    leaf.set_grad_buffer(Tensor::empty(leaf.shape(), DType::f32, GetParam()));
  }
  const Variable y = conv2d(x, w, b);
  const Tensor tenths = Tensor::full(y.shape(), 0.1, DType::bf16, GetParam());
  for (int pass = 0; pass < 3; ++pass) {
    backward(std::span(&y, 1), std::span(&tenths, 1), {.retain_graph = true});
  }
  const double sum = 32 * rounded(0.1, DType::bf16);  // a bf16 number; three of them are none
  EXPECT_EQ(w.grad().dtype(), DType::f32);
  EXPECT_EQ(numbers(w.grad()), std::vector<double>{3 * sum});
  EXPECT_EQ(numbers(b.grad()), std::vector<double>{3 * sum});
}

TEST_P(DeviceConvolutions, APrecisionGuardAloneKeepsResultsF32) {
  const PrecisionGuard guard(Precision::bf16);
  const ConvolutionCase& c = convolutions()[1];
  std::vector<Variable> inputs;
  for (const Shape& shape : c.inputs) {
    inputs.emplace_back(random_tensor(shape, 1).to(DType::f32).to(GetParam()), true);
  }
  EXPECT_EQ(c.apply(inputs).data().dtype(), DType::f32);
}

TEST_P(DeviceConvolutions, SecondDerivativesAreThoseOfTheHostWithinRoundings) {
  const auto second = [](const ConvolutionCase& c, DType dtype, Device device) {
    std::vector<Variable> v;
    for (const Shape& shape : c.inputs) {
      v.emplace_back(random_tensor(shape, v.size()).to(DType::bf16).to(dtype).to(device), true);
    }
    const Variable y = c.apply(v);
    const Variable slope = grad(sum(y * y * 0.125), v[0], {.create_graph = true});
    EXPECT_EQ(slope.data().dtype(), dtype);
    return std::vector<Tensor>{slope.data(), grad(sum(slope), v[1]).data()};
  };
  for (const ConvolutionCase& c : convolutions()) {
    SCOPED_TRACE(c.name);
    expect_near_host(second(c, DType::bf16, GetParam()), second(c, DType::f32, {}));
  }
}

TEST_P(DeviceConvolutions, BatchNormOf16BitsWithChannelsLastTakesPlainOnesAndHasSecondDerivatives) {
  const auto second = [](DType dtype, bool last, Device device) {
    const auto leaf = [&](const Shape& shape, std::uint64_t seed) {
      return Variable(random_tensor(shape, seed).to(DType::bf16).to(dtype).to(device), true);
    };
    const Variable x = leaf({3, 8, 4, 4}, 1), w = leaf({8}, 2), b = leaf({8}, 3),
                   shortcut = leaf({3, 8, 4, 4}, 4);
    const Variable in = last ? to_channel_blocks(x) : x;
    const Variable y =
        from_channel_blocks(batch_norm(in, w, b, {}, true, 0.1, 1e-5, shortcut, true));
    EXPECT_EQ(y.data().dtype(), dtype);
    const Variable slope = grad(sum(y * y * 0.125), x, {.create_graph = true});
    return std::vector<Tensor>{y.data(), slope.data(), grad(sum(slope * x), w).data()};
  };
  expect_near_host(second(DType::bf16, true, GetParam()), second(DType::f32, false, {}));
}

TEST_P(DeviceConvolutions, WithChannelsLastRearrangeARoundedWeightOnceForBothPasses) {
  if (GetParam().type != DeviceType::sim) return;
  const auto launches = [&] {
    return SimulatedRuntime::instance().counts(GetParam().index).launches;
  };
  const auto of_backward = [&](DType dtype) {
    const Variable x(Tensor::full({2, 8, 4, 4}, 1, DType::bf16, GetParam()), true);
    const Variable weight(Tensor::full({8, 8, 3, 3}, 1, dtype, GetParam()));
    const Variable in = to_channel_blocks(x);
    const Autocast autocast(Precision::bf16);
    const Variable y = conv2d(in, weight, {}, {.padding = 1}, Layout::channel_blocks);
    const Tensor upstream = Tensor::empty_like(y.data());
    const auto before = launches();
    backward(std::span(&y, 1), std::span(&upstream, 1));
    return launches() - before;
  };
  EXPECT_EQ(of_backward(DType::bf16) - of_backward(DType::f32), 1);
}

TEST_P(DeviceConvolutions, BackwardReadsTheNewestValuesOfAWeightOf16Bits) {
  for (const DType dtype : {DType::bf16, DType::f32}) {
    const Variable x(Tensor::full({1, 8, 2, 2}, 1, DType::bf16, GetParam()), true);
    const Variable weight(Tensor::full({8, 8, 1, 1}, 1, dtype, GetParam()));
    const Variable in = to_channel_blocks(x);
    Variable y;
    {
      const Autocast autocast(Precision::bf16);
      y = conv2d(in, weight, {}, {}, Layout::channel_blocks);
    }
    weight.data().fill(2.0);
    const Tensor ones = in_channel_blocks(Tensor::full({1, 8, 2, 2}, 1, DType::bf16, GetParam()));
    backward(std::span(&y, 1), std::span(&ones, 1));
    // Autocast's rounded weight is that of forward.
    const double expected = dtype == DType::bf16 ? 16 : 8;
    EXPECT_EQ(numbers(x.grad()), std::vector<double>(32, expected));
  }
}

TEST_P(DeviceConvolutions, OtherConvolutionsOf16BitsRefuseChannelsLast) {
  const Variable x = conv2d(Variable(Tensor::full({1, 8, 4, 4}, 1, DType::bf16, GetParam())),
                            Variable(Tensor::full({8, 8, 1, 1}, 1, DType::bf16, GetParam())), {},
                            {}, Layout::channel_blocks);
  ASSERT_EQ(x.data().layout(), Layout::channel_blocks);
  const Variable w(Tensor::full({2, 1, 2, 2, 2}, 1, DType::bf16, GetParam()), true);
  EXPECT_THROW(static_cast<void>(conv3d(x, w, {})), ShapeError);
}

TEST_P(DeviceConvolutions, BatchNormUnderAutocastKeepsTheir16Bits) {
  const auto normalised = [](DType dtype) {
    const Variable x(random_tensor({4, 3, 5, 5}, 1).to(DType::f32).to(GetParam()), true);
    const Variable w(Tensor::full({3}, 1.5, DType::f32, GetParam()), true),
        b(Tensor::full({3}, 0.5, DType::f32, GetParam()), true);
    Variable y;
    {
      const Autocast autocast(Precision::bf16);
      const Variable h = to(x, dtype);
      y = batch_norm(h, w, b, {}, true, 0.1, 1e-5, h, true);
    }
    EXPECT_EQ(y.data().dtype(), dtype);
    sum(to(y, DType::f32) * Variable(random_tensor(y.shape(), 2).to(DType::f32).to(GetParam())))
        .backward();
    for (const Variable& v : {x, w, b}) EXPECT_EQ(v.grad().dtype(), DType::f32);
    return std::vector<Tensor>{y.data(), x.grad(), w.grad(), b.grad()};
  };
  const auto wide = normalised(DType::f32), narrow = normalised(DType::bf16);
  for (std::size_t i = 0; i < wide.size(); ++i) {
    const auto x = numbers(narrow[i]), y = numbers(wide[i]);
    double largest = 1;
    for (const double number : y) largest = std::max(largest, std::abs(number));
    for (std::size_t k = 0; k < x.size(); ++k) ASSERT_NEAR(x[k], y[k], 2e-2 * largest) << i;
  }
}

TEST(DeviceConvolution, WithoutALibraryOfAGpuIsTheHosts) {
  const LayoutGuard as_on_a_device(ImageLayout::plain);
  for (const ConvolutionCase& c : convolutions()) {
    SCOPED_TRACE(c.name);
    const auto expected = results_of(c, DType::f32, {}, Precision::bf16),
               found = results_of(c, DType::f32, {DeviceType::sim, 0}, Precision::bf16);
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(found[i].dtype(), DType::f32);
      EXPECT_EQ(numbers(found[i]), numbers(expected[i]));
    }
  }
}

}  // namespace
}  // namespace lockstep::test
