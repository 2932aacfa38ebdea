// Images with channels last on a GPU, or its stand-in on a simulated device: the same numbers as of
// plain ones, in another order.
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm.hpp>
#include <lockstep/tensor/kernels/norm/sync_batch_norm.hpp>
#include <lockstep/tensor/sum_dtype.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/gpu_stand_in.hpp>

#include "math_on.hpp"

namespace lockstep {
namespace {

using test::eighths;
using test::GpuStandIn;
using test::MathOn;
using test::MathPlace;
using test::on;
using test::read;

constexpr DType dtypes_in_blocks[] = {DType::f32, DType::bf16, DType::f16};

Tensor image_of_eighths(const Shape& shape, int seed, DType dtype, Device device) {
  return on(device, eighths(shape.numel(), seed), dtype).reshape(shape);
}
/// x with channels last if `last`.
Tensor arranged(bool last, const Tensor& x) { return last ? in_channel_blocks(x) : x; }
std::vector<double> read_plain(const Tensor& x) { return read(in_plain_layout(x)); }

/// A library may round more often than the stand-in.
void expect_alike(const Tensor& found, const Tensor& expected, double bound) {
  EXPECT_EQ(found.dtype(), expected.dtype());
  const auto x = read_plain(found), y = read_plain(expected);
  ASSERT_EQ(x.size(), y.size());
  double largest = 1;
  for (const double number : y) largest = std::max(largest, std::abs(number));
  for (std::size_t i = 0; i < x.size(); ++i) ASSERT_NEAR(x[i], y[i], bound * largest) << i;
}

TEST_P(MathOn, ImagesAreStoredWithChannelsLastWhereAGpusLibraryComputes) {
  const Shape shape{2, 24, 3, 5};
  for (const DType dtype : dtypes_in_blocks) {
    EXPECT_EQ(fits_channel_blocks(shape, dtype, device()),
              is_gpu() || (GetParam() == MathPlace::host && dtype == DType::f32 &&
                           channel_block() > 0 && 24 % channel_block() == 0));
    if (!is_gpu()) continue;
    const Tensor x = image_of_eighths(shape, 1, dtype, device());
    const Tensor last = in_channel_blocks(x);
    EXPECT_EQ(last.shape(), (Shape{2, 1, 3, 5, 24}));
    EXPECT_EQ(plain_shape(last), shape);
    const auto plain = read(x), values = read(last.with_layout(Layout::plain));
    for (std::int64_t n = 0; n < 2; ++n) {
      for (std::int64_t c = 0; c < 24; ++c) {
        for (std::int64_t p = 0; p < 15; ++p) {
          ASSERT_EQ(values[static_cast<std::size_t>((n * 15 + p) * 24 + c)],
                    plain[static_cast<std::size_t>((n * 24 + c) * 15 + p)]);
        }
      }
    }
    EXPECT_EQ(read_plain(last), plain);
    EXPECT_EQ(last.to(DType::f64).layout(), Layout::channel_blocks);
    EXPECT_THROW(static_cast<void>(last.to(Device{})), ShapeError) << "a host has other blocks";
  }
  if (!is_gpu()) return;
  EXPECT_FALSE(fits_channel_blocks({2, 12, 3, 5}, DType::bf16, device()));
  EXPECT_FALSE(fits_channel_blocks(shape, DType::f64, device()));
  EXPECT_THROW(static_cast<void>(empty_channel_blocked({2, 12, 3, 5}, DType::bf16, device())),
               ShapeError);
}

TEST_P(MathOn, RearrangementsToAndFromChannelsLastAdd) {
  if (!is_gpu()) return;
  for (const DType dtype : dtypes_in_blocks) {
    for (const std::int64_t skipped : {0, 1}) {  // an address that fits no vector
      const Shape shape{2, 8, 3, 5};
      const Tensor memory = on(device(), eighths(skipped + shape.numel(), 3), dtype);
      const Tensor last = memory.slice(skipped, skipped + shape.numel())
                              .reshape({2, 1, 3, 5, 8})
                              .with_layout(Layout::channel_blocks);
      const Tensor x = image_of_eighths(shape, 1, dtype, device());
      const auto old = read_plain(last), added = read(x);
      to_channel_blocks(x, true, last);
      auto sums = read_plain(last);
      for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], old[i] + added[i]);
      from_channel_blocks(last, true, x);
      const auto back = read(x);
      for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(back[i], sums[i] + added[i]);
    }
  }
}

TEST_P(MathOn, ImagesOfOnePixelShareStorageInBothLayouts) {
  if (!is_gpu()) return;
  const Tensor x = image_of_eighths({3, 16, 1, 1}, 1, DType::bf16, device());
  const Tensor last = in_channel_blocks(x);
  EXPECT_EQ(last.storage().get(), x.storage().get());
  EXPECT_EQ(last.layout(), Layout::channel_blocks);
  EXPECT_EQ(in_plain_layout(last).storage().get(), x.storage().get());
}

struct LastCase {
  Shape x, weight;
  Conv2dOptions options{};
  bool has_algorithm = true;  ///< of the stand-in, with channels last
};

const LastCase last_cases[] = {
    {{2, 8, 6, 5}, {16, 8, 3, 3}, {.padding = 1}},
    {{2, 16, 6, 6}, {8, 16, 1, 1}, {.stride = 2}},
    {{2, 16, 5, 7}, {16, 8, 3, 2}, {.stride = {2, 1}, .padding = {1, 0}, .groups = 2}},
    {{1, 16, 4, 4}, {16, 1, 3, 3}, {.padding = 1, .groups = 16}, false},
    {{1, 8, 9, 9}, {8, 8, 3, 3}, {.padding = 2, .dilation = 2}, false},
    {{0, 8, 5, 5}, {8, 8, 3, 3}, {}, false},
};

TEST_P(MathOn, ConvolutionsWithChannelsLastAreThoseOfPlainImages) {
  if (!is_gpu()) return;
  const double bound = GetParam() == MathPlace::stand_in ? 0.0 : 2e-2;
  for (const DType dtype : dtypes_in_blocks) {
    for (const LastCase& c : last_cases) {
      for (const auto& [x_last, y_last] :
           {std::pair{true, true}, std::pair{true, false}, std::pair{false, true}}) {
        for (const bool accumulate : {false, true}) {
          SCOPED_TRACE(testing::Message()
                       << name_of(dtype) << " case " << (&c - last_cases) << (x_last ? " x" : "")
                       << (y_last ? " y" : "") << (accumulate ? " accumulate" : ""));
          const Tensor x = image_of_eighths(c.x, 1, dtype, device());
          const Tensor weight = image_of_eighths(c.weight, 2, dtype, device());
          const Tensor bias = on(device(), eighths(c.weight[0], 3), dtype);
          const Shape shape = conv2d_shape(x, weight, bias, c.options);
          const Tensor grad = image_of_eighths(shape, 4, dtype, device());
          const Tensor x_given = arranged(x_last, x), grad_given = arranged(y_last, grad);
          // A weight that is kept for several passes is arranged already.
          const bool weight_fits = fits_channel_blocks(c.weight, dtype, device());
          const Tensor weight_given = arranged(accumulate && weight_fits, weight);
          const int before = GpuStandIn::channels_last();

          const Tensor y = Tensor::empty(shape, dtype, device());
          const Tensor found = arranged(y_last, Tensor::empty(shape, dtype, device()));
          conv2d_forward(x, weight, bias, c.options, y);
          conv2d_forward(x_given, weight_given, bias, c.options, found);
          expect_alike(found, y, bound);

          const auto old = [&](const Shape& s) { return image_of_eighths(s, 5, dtype, device()); };
          const Tensor gx = old(c.x), gx_found = arranged(x_last, old(c.x));
          conv2d_backward_input(grad, weight, c.options, accumulate, gx);
          conv2d_backward_input(grad_given, weight_given, c.options, accumulate, gx_found);
          // A gradient that is computed in one layout and added to one in the other is rounded
          // twice.
          const bool is_rounded_twice =
              accumulate && is_half(dtype) && (x_last != y_last || !c.has_algorithm);
          expect_alike(gx_found, gx, is_rounded_twice ? 2e-2 : bound);

          const Tensor gw = old(c.weight), gw_found = old(c.weight);
          conv2d_backward_weight(grad, x, c.options, accumulate, gw);
          conv2d_backward_weight(grad_given, x_given, c.options, accumulate, gw_found);
          expect_alike(gw_found, gw, accumulate && is_half(dtype) ? 2e-2 : bound);
          const Tensor wide = old(c.weight).to(DType::f32);
          if (is_half(dtype)) {
            conv2d_backward_weight(grad_given, x_given, c.options, accumulate, wide);
            expect_alike(wide.to(dtype), gw, 2e-2);
          }

          const Tensor gb = on(device(), eighths(shape[1], 6), dtype), gb_found = gb.clone();
          conv2d_backward_bias(grad, accumulate, gb);
          conv2d_backward_bias(grad_given, accumulate, gb_found);
          expect_alike(gb_found, gb, bound);
          if (GetParam() == MathPlace::stand_in) {
            EXPECT_EQ(GpuStandIn::channels_last() - before,
                      is_half(dtype) && c.has_algorithm ? 4 : 0);
          }
        }
      }
    }
  }
}

/// BatchNorm of x, all tensors in one layout, and its gradients for `grad`.
struct NormResults {
  Tensor y, grad_x, grad_residual, grad_weight, grad_bias, running_mean, running_var;

  NormResults(const Tensor& x, const Tensor& residual, const Tensor& grad, bool training,
              bool accumulate) {
    const Shape channels{plain_shape(x)[1]};
    const DType wide = sum_dtype(x.dtype());
    const auto of_channels = [&](int seed, double from) {
      Tensor t = on(x.device(), eighths(channels.numel(), seed), wide);
      t += Tensor::full(channels, from, wide, x.device());
      return t;
    };
    const auto like_x = [&](int seed) {
      return arranged(is_channel_blocked(x),
                      image_of_eighths(plain_shape(x), seed, x.dtype(), x.device()));
    };
    running_mean = of_channels(1, 0);
    running_var = of_channels(2, 2);
    grad_x = like_x(5);
    grad_residual = like_x(6);
    grad_weight = of_channels(3, 0);
    grad_bias = of_channels(4, 0);
    y = Tensor::empty_like(x);
    const BatchNormInputs inputs{.x = x,
                                 .weight = of_channels(5, 1.5),
                                 .bias = of_channels(6, 0),
                                 .running_mean = running_mean,
                                 .running_var = running_var,
                                 .residual = residual,
                                 .relu = true};
    const BatchNormSaved saved{Tensor::empty_like(inputs.weight), Tensor::empty_like(inputs.bias)};
    check_batch_norm(inputs, training);
    batch_norm_forward(inputs, training, 0.1, 1e-5, y, saved);
    batch_norm_backward(inputs, training, saved, y, grad,
                        {.x = grad_x,
                         .weight = grad_weight,
                         .bias = grad_bias,
                         .residual = grad_residual,
                         .accumulate_x = accumulate,
                         .accumulate_weight = accumulate,
                         .accumulate_bias = accumulate,
                         .accumulate_residual = accumulate});
  }
};

TEST_P(MathOn, BatchNormWithChannelsLastIsThatOfPlainImages) {
  if (!is_gpu()) return;
  // The last: more samples and pixels than one thread sums.
  for (const Shape& shape : {Shape{3, 8, 4, 5}, Shape{2, 24, 1, 1}, Shape{40, 8, 12, 9}}) {
    for (const DType dtype : dtypes_in_blocks) {
      for (const bool training : {true, false}) {
        for (const bool accumulate : {true, false}) {
          SCOPED_TRACE(testing::Message() << to_string(shape) << name_of(dtype) << training);
          const auto results = [&](bool last) {
            const auto make = [&](int seed) {
              return arranged(last, image_of_eighths(shape, seed, dtype, device()));
            };
            return NormResults(make(1), make(2), make(3), training, accumulate);
          };
          const NormResults found = results(true), expected = results(false);
          EXPECT_TRUE(is_channel_blocked(found.y));
          const double bound = dtype == DType::f32 ? 1e-5 : 1e-2;
          expect_alike(found.y, expected.y, bound);
          expect_alike(found.grad_x, expected.grad_x, bound);
          expect_alike(found.grad_residual, expected.grad_residual, bound);
          expect_alike(found.grad_weight, expected.grad_weight, 1e-4);
          expect_alike(found.grad_bias, expected.grad_bias, 1e-4);
          expect_alike(found.running_mean, expected.running_mean, 1e-6);
          expect_alike(found.running_var, expected.running_var, 1e-6);
        }
      }
    }
  }
}

TEST_P(MathOn, StatisticsWithChannelsLastAreThoseOfPlainImages) {
  if (!is_gpu()) return;
  const Tensor x = image_of_eighths({3, 16, 5, 4}, 1, DType::bf16, device());
  const Tensor found = Tensor::empty({33}, DType::f64, device()), expected = found.clone();
  batch_norm_statistics(in_channel_blocks(x), found);
  batch_norm_statistics(x, expected);
  expect_alike(found, expected, 1e-7);
}

TEST_P(MathOn, GradientsOfABatchOverRanksWithChannelsLastAreThoseOfPlainImages) {
  if (!is_gpu()) return;
  const Shape shape{3, 16, 5, 4};
  const auto image = [&](int seed, bool last) {
    return arranged(last, image_of_eighths(shape, seed, DType::bf16, device()));
  };
  const auto of_channels = [&](int seed) { return on(device(), eighths(16, seed), DType::f32); };
  const auto gradient = [&](bool last) {
    const BatchNormInputs inputs{.x = image(1, last),
                                 .weight = of_channels(2),
                                 .bias = of_channels(3),
                                 .running_mean = of_channels(4),
                                 .running_var = of_channels(5),
                                 .residual = {},
                                 .relu = true};
    const BatchNormSaved saved{of_channels(6), of_channels(7)};
    Tensor grad_x = image(8, last);
    sync_batch_norm_backward(inputs, saved, image(9, last), image(10, last),
                             on(device(), eighths(32, 11), DType::f32).reshape({2, 16}),
                             Tensor::full({1}, 120, DType::f64, device()), grad_x, true);
    return grad_x;
  };
  expect_alike(gradient(true), gradient(false), 1e-2);
}

}  // namespace
}  // namespace lockstep
