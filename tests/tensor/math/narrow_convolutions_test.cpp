// Convolutions of 16 bits by a GPU's library, or its stand-in on a simulated device.
#include <algorithm>
#include <cmath>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>
#include <lockstep/tensor/kernels/conv/conv_device.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/message_of.hpp>

#include "math_on.hpp"

namespace lockstep {
namespace {

using test::eighths;
using test::GpuStandIn;
using test::MathOn;
using test::MathPlace;
using test::on;
using test::read;

constexpr DType narrow_types[] = {DType::bf16, DType::f16};

/// The stand-in's sums are exact, and so its results the nearest numbers. A library may use
/// Winograd's way, which rounds more often.
void expect_found(const Tensor& found, const Tensor& expected, bool is_exact) {
  const auto x = read(found), y = read(expected);
  ASSERT_EQ(x.size(), y.size());
  double largest = 1;
  for (const double number : y) largest = std::max(largest, std::abs(number));
  const double bound = is_exact ? 0.0 : 2e-2 * largest;
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], bound) << i;
}

struct NarrowCase {
  Shape x, weight;
  Conv2dOptions options{};
  bool has_algorithm = true;  ///< of the stand-in, in 16 bits
};

const NarrowCase narrow_cases[] = {
    {{2, 3, 9, 7}, {4, 3, 3, 3}},
    {{2, 3, 9, 8}, {4, 3, 3, 3}, {.stride = {2, 3}, .padding = 1}},
    {{2, 4, 6, 6}, {6, 2, 3, 3}, {.padding = 1, .groups = 2}},
    {{3, 8, 5, 5}, {8, 8, 1, 1}},
    {{2, 16, 6, 6}, {16, 16, 1, 1}, {.stride = 2}},
    {{0, 3, 5, 5}, {4, 3, 3, 3}},
    {{1, 2, 11, 9}, {3, 2, 3, 3}, {.padding = 2, .dilation = 2}, false},
};

/// Of eighths, on the host in f32, where their sums are exact.
struct ExactConvolution {
  Tensor x, weight, bias, grad, y, y_with_bias;

  ExactConvolution(const NarrowCase& c, DType dtype)
      : x(on({}, eighths(c.x.numel(), 1), DType::f32).reshape(c.x)),
        weight(on({}, eighths(c.weight.numel(), 2), DType::f32).reshape(c.weight)),
        bias(on({}, eighths(c.weight[0], 3), DType::f32)) {
    const Shape shape = conv2d_shape(x, weight, {}, c.options);
    grad = on({}, eighths(shape.numel(), 4), DType::f32).reshape(shape);
    y = Tensor::empty(shape);
    conv2d_forward(x, weight, {}, c.options, y);
    // The bias is added to a result of 16 bits.
    y_with_bias = y.to(dtype).to(DType::f32).clone();
    add_channel_bias(bias, y_with_bias);
  }
};

TEST_P(MathOn, ConvolutionsOf16BitsAreExactSumsRoundedOnce) {
  if (!is_gpu()) return;
  const bool is_exact = GetParam() == MathPlace::stand_in;
  for (const DType dtype : narrow_types) {
    for (const NarrowCase& c : narrow_cases) {
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " case " << (&c - narrow_cases));
      const ExactConvolution exact(c, dtype);
      const auto there = [&](const Tensor& t) { return t.to(dtype).to(device()); };
      const Tensor y = Tensor::empty(exact.y.shape(), dtype, device());
      const int before = GpuStandIn::narrow_convolutions();
      conv2d_forward(there(exact.x), there(exact.weight), {}, c.options, y);
      if (is_exact) {
        EXPECT_EQ(GpuStandIn::narrow_convolutions() - before,
                  c.has_algorithm && y.numel() > 0 ? 1 : 0);
      }
      expect_found(y, exact.y.to(dtype), is_exact);
      conv2d_forward(there(exact.x), there(exact.weight), there(exact.bias), c.options, y);
      expect_found(y, exact.y_with_bias.to(dtype), is_exact);
    }
  }
}

TEST_P(MathOn, GradientsOfConvolutionsOf16BitsAreOfTheirTypeOrF32) {
  if (!is_gpu()) return;
  const bool is_exact = GetParam() == MathPlace::stand_in;
  for (const DType dtype : narrow_types) {
    for (const NarrowCase& c : narrow_cases) {
      for (const DType memory : {dtype, DType::f32}) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << name_of(dtype) << " case " << (&c - narrow_cases) << " into "
                       << name_of(memory) << (accumulate ? " accumulate" : ""));
          const ExactConvolution exact(c, dtype);
          const auto there = [&](const Tensor& t) { return t.to(dtype).to(device()); };
          // What libraries compute is of 16 bits; it is added to f32.
          const bool is_rounded_apart = memory == DType::f32 && c.has_algorithm;
          const auto expect = [&](const Shape& shape, const auto& compute, const auto& run) {
            const auto old = eighths(shape.numel(), 5);
            const Tensor expected = on({}, old, DType::f32).reshape(shape);
            const Tensor found = on(device(), old, memory).reshape(shape);
            if (is_rounded_apart) {
              const Tensor alone = Tensor::empty(shape);
              compute(false, alone);
              if (!accumulate) expected.zero();
              expected += alone.to(dtype).to(DType::f32);
            } else {
              compute(accumulate, expected);
            }
            run(found);
            expect_found(found, expected.to(memory), is_exact);
          };
          expect(
              c.x,
              [&](bool adds, const Tensor& to) {
                conv2d_backward_input(exact.grad, exact.weight, c.options, adds, to);
              },
              [&](const Tensor& to) {
                conv2d_backward_input(there(exact.grad), there(exact.weight), c.options, accumulate,
                                      to);
              });
          expect(
              c.weight,
              [&](bool adds, const Tensor& to) {
                conv2d_backward_weight(exact.grad, exact.x, c.options, adds, to);
              },
              [&](const Tensor& to) {
                conv2d_backward_weight(there(exact.grad), there(exact.x), c.options, accumulate,
                                       to);
              });
        }
      }
    }
  }
}

TEST_P(MathOn, GradientsOfBiasesOf16BitsAreSummedInF32) {
  if (!is_gpu()) return;
  for (const DType dtype : narrow_types) {
    // Added one by one in bf16, 2,048 of them end at 256.
    const Tensor g = Tensor::full({2, 3, 32, 32}, 1, dtype, device());
    for (const DType memory : {dtype, DType::f32}) {
      const Tensor bias = Tensor::full({3}, 512, memory, device());
      conv2d_backward_bias(g, true, bias);
      EXPECT_EQ(read(bias), std::vector<double>(3, 2560));
      conv2d_backward_bias(g, false, bias);
      EXPECT_EQ(read(bias), std::vector<double>(3, 2048));
    }
  }
}

TEST_P(MathOn, PartsOfABatchOf16BitsAddToTheGradientOfTheWeightInF32) {
  if (!is_gpu()) return;
  // Each of the last two is lost beside 1 in bf16; together they are not.
  const Tensor x = on(device(), {1, 0x1.8p-9, 0x1.8p-9}, DType::bf16).reshape({3, 1, 1, 1});
  const Tensor g = Tensor::full({3, 1, 1, 1}, 1, DType::bf16, device());
  const detail::Conv2dProblem problem{
      .n = 3, .c = 1, .h = 1, .w = 1, .o = 1, .kh = 1, .kw = 1, .oh = 1, .ow = 1};
  const auto gradient = [&](DType memory, bool accumulate) {
    const Tensor to = Tensor::full({1, 1, 1, 1}, 1, memory, device());
    detail::backward_weight_on_device(*math::device_math(device()), problem, g, x, accumulate, to,
                                      1);
    return read(to).front();
  };
  EXPECT_EQ(gradient(DType::f32, false), 1 + 0x1.8p-8);
  EXPECT_EQ(gradient(DType::f32, true), 2 + 0x1.8p-8);
  EXPECT_EQ(gradient(DType::bf16, false), 1 + 0x1p-7);
}

TEST_P(MathOn, VolumesOf16BitsAreConvolved) {
  if (!is_gpu()) return;
  const bool is_exact = GetParam() == MathPlace::stand_in;
  const Conv3dOptions options{.stride = {2, 1, 2}, .padding = 1, .groups = 2};
  const Tensor x = on({}, eighths(1 * 4 * 5 * 5 * 5, 1), DType::f32).reshape({1, 4, 5, 5, 5});
  const Tensor w = on({}, eighths(4 * 2 * 2 * 3 * 3, 2), DType::f32).reshape({4, 2, 2, 3, 3});
  const Tensor expected = Tensor::empty(conv3d_shape(x, w, {}, options));
  conv3d_forward(x, w, {}, options, expected);
  for (const DType dtype : narrow_types) {
    const Tensor y = Tensor::empty(expected.shape(), dtype, device());
    conv3d_forward(x.to(dtype).to(device()), w.to(dtype).to(device()), {}, options, y);
    expect_found(y, expected.to(dtype), is_exact);
  }
}

TEST_P(MathOn, ConvolutionsOf16BitsAreRefusedWhereNoLibraryOfAGpuComputes) {
  if (is_gpu()) return;
  const Tensor x = Tensor::zeros({1, 1, 3, 3}, DType::bf16, device());
  EXPECT_EQ(test::message_of<ShapeError>([&] { conv2d_forward(x, x, {}, {}, x); }),
            "conv2d takes f32 or f64 tensors, not bf16");
}

}  // namespace
}  // namespace lockstep
