// Pools of images with channels last on a GPU, or its stand-in on a simulated device: the same
// numbers as of plain images, in another order.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/pool/channels_last_pool.hpp>
#include <lockstep/tensor/tensor.hpp>

#include "math_on.hpp"

namespace lockstep {
namespace {

using test::eighths;
using test::MathOn;
using test::on;
using test::read;

constexpr DType dtypes_of_images[] = {DType::f32, DType::bf16, DType::f16};

struct PoolCase {
  Shape x, y;
  ImageWindows windows;
};

PoolWindow pool_window(const Extents<3>& kernel, const Extents<3>& stride,
                       const Extents<3>& padding) {
  return {.kernel = kernel, .stride = stride, .padding = padding};
}

const PoolCase pool_cases[] = {
    {{2, 64, 7, 9}, {2, 64, 4, 5}, pool_window({1, 3, 3}, {1, 2, 2}, {0, 1, 1})},
    {{3, 8, 5, 7},
     {3, 8, 2, 3},
     pool_window({1, 2, 2}, {1, 2, 2}, 0)},  // pixels outside all windows
    {{1, 24, 9, 8},
     {1, 24, 3, 2},
     pool_window({1, 2, 3}, {1, 4, 5}, 0)},  // strides above the kernel
    {{2, 16, 6, 5}, {2, 16, 6, 5}, pool_window({1, 3, 3}, 1, {0, 1, 1})},
    {{2, 8, 6, 7},
     {2, 8, 3, 4},
     pool_window({1, 3, 2}, {1, 2, 2}, 0)},  // the last windows hang over
    {{1, 8, 20, 19}, {1, 8, 1, 1}, pool_window({1, 16, 16}, {1, 5, 4}, 0)},  // places up to 255
    {{0, 8, 6, 6}, {0, 8, 3, 3}, pool_window({1, 2, 2}, {1, 2, 2}, 0)},
    {{2, 8, 7, 5}, {2, 8, 3, 2}, {}},
    {{2, 16, 3, 2}, {2, 16, 5, 3}, {}},
    {{3, 8, 7, 7}, {3, 8, 1, 1}, {}},
};

/// Numbers of which many are equal, among them -inf and `other`.
std::vector<double> many_ties(std::int64_t count, double other) {
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto number = i * 7 % 29;
    values[i] = number == 0   ? other
                : number < 15 ? -std::numeric_limits<double>::infinity()
                              : static_cast<double>(number % 5);
  }
  return values;
}

/// [N,C,H,W] as the planes that pools of any windows take.
Tensor planes_of_image(const Tensor& x) {
  return x.reshape({x.size(0) * x.size(1), 1, x.size(2), x.size(3)});
}

/// The values of a pool and of its gradients, added to other numbers or not.
struct PoolResults {
  std::vector<double> y, gradient;
};

class ChannelsLastPools {
 public:
  ChannelsLastPools(const PoolCase& c, DType dtype, Device device, bool accumulate)
      : c_(c), dtype_(dtype), device_(device), accumulate_(accumulate) {}

  [[nodiscard]] Tensor image(const Shape& shape, const std::vector<double>& values) const {
    return on(device_, values, dtype_).reshape(shape);
  }
  [[nodiscard]] Tensor eighths_of(const Shape& shape, int seed) const {
    return image(shape, eighths(shape.numel(), seed));
  }
  [[nodiscard]] Tensor last(const Shape& shape, int seed) const {
    return in_channel_blocks(eighths_of(shape, seed));
  }

  [[nodiscard]] PoolResults max_of_last(const Tensor& x) const {
    const Tensor in = in_channel_blocks(x), y = last(c_.y, 2), gradient = last(c_.x, 3);
    const Tensor places = Tensor::empty(y.shape(), DType::u8, device_), taken = y.clone();
    channels_last_max_pool_forward(in, c_.windows, y, places);
    channels_last_max_pool_take(in, places, c_.windows, taken);
    expect_same(read(in_plain_layout(taken)), read(in_plain_layout(y)));
    channels_last_max_pool_backward(last(c_.y, 4), places, c_.windows, accumulate_, gradient);
    return {read(in_plain_layout(y)), read(in_plain_layout(gradient))};
  }
  /// In f32, rounded at the end.
  [[nodiscard]] PoolResults max_of_planes(const Tensor& x) const {
    const Tensor y = wide(c_.y, 2), gradient = wide(c_.x, 3), grad_y = wide(c_.y, 4);
    const Tensor indices = Tensor::empty(planes_of_image(y).shape(), DType::i32, device_);
    const Tensor in = planes_of_image(x.to(DType::f32));
    if (c_.windows) {
      max_pool_forward(in, *c_.windows, planes_of_image(y), indices);
      max_pool_backward(planes_of_image(grad_y), indices, *c_.windows, accumulate_,
                        planes_of_image(gradient));
    } else {
      adaptive_max_pool_forward(in, planes_of_image(y), indices);
      adaptive_max_pool_backward(planes_of_image(grad_y), indices, accumulate_,
                                 planes_of_image(gradient));
    }
    return {read(y.to(dtype_)), read(gradient.to(dtype_))};
  }

  [[nodiscard]] PoolResults mean_of_last(const std::optional<AveragePool>& pool) const {
    const Tensor y = last(c_.y, 2), gradient = last(c_.x, 3);
    channels_last_avg_pool_forward(last(c_.x, 1), pool, y);
    channels_last_avg_pool_backward(last(c_.y, 4), pool, accumulate_, gradient);
    return {read(in_plain_layout(y)), read(in_plain_layout(gradient))};
  }
  [[nodiscard]] PoolResults mean_of_planes(const std::optional<AveragePool>& pool) const {
    const Tensor x = wide(c_.x, 1), y = wide(c_.y, 2), gradient = wide(c_.x, 3);
    const Tensor grad_y = wide(c_.y, 4);
    if (pool) {
      avg_pool_forward(planes_of_image(x), *pool, planes_of_image(y));
      avg_pool_backward(planes_of_image(grad_y), *pool, accumulate_, planes_of_image(gradient));
    } else {
      adaptive_avg_pool_forward(planes_of_image(x), planes_of_image(y));
      adaptive_avg_pool_backward(planes_of_image(grad_y), accumulate_, planes_of_image(gradient));
    }
    return {read(y.to(dtype_)), read(gradient.to(dtype_))};
  }

  static void expect_same(const std::vector<double>& found, const std::vector<double>& expected) {
    ASSERT_EQ(found.size(), expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      ASSERT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])))
          << "element " << i << ": " << found[i] << ", not " << expected[i];
    }
  }
  /// But for the order of sums of f32, and what it rounds.
  void expect_near(const std::vector<double>& found, const std::vector<double>& expected) const {
    ASSERT_EQ(found.size(), expected.size());
    const double rounding = dtype_ == DType::f32   ? 0x1p-22
                            : dtype_ == DType::f16 ? 0x1p-10
                                                   : 0x1p-7;
    for (std::size_t i = 0; i < found.size(); ++i) {
      const double bound = rounding * std::abs(expected[i]) + 0x1p-22;
      ASSERT_LE(std::abs(found[i] - expected[i]), bound)
          << "element " << i << ": " << found[i] << ", not " << expected[i];
    }
  }

 private:
  [[nodiscard]] Tensor wide(const Shape& shape, int seed) const {
    return eighths_of(shape, seed).to(DType::f32);
  }

  const PoolCase& c_;
  DType dtype_;
  Device device_;
  bool accumulate_;
};

/// Calls f(pools, case) for all cases, dtypes and both ways of giving a gradient.
template <class F>
void for_each_pool(Device device, const F& f) {
  for (const DType dtype : dtypes_of_images) {
    for (const PoolCase& c : pool_cases) {
      for (const bool accumulate : {false, true}) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << " case " << (&c - pool_cases)
                                        << (accumulate ? " accumulate" : ""));
        f(ChannelsLastPools(c, dtype, device, accumulate), c);
      }
    }
  }
}

TEST_P(MathOn, MaxPoolsWithChannelsLastHaveTheBitsOfPlainOnesAndChooseTheFirstOfEquals) {
  if (!is_gpu()) return;
  for_each_pool(device(), [](const ChannelsLastPools& pools, const PoolCase& c) {
    // Plain kernels choose another of several NaN in a part of an adaptive pool.
    const double other = c.windows ? std::numeric_limits<double>::quiet_NaN() : 9;
    for (const Tensor& x :
         {pools.eighths_of(c.x, 1), pools.image(c.x, many_ties(c.x.numel(), other))}) {
      const PoolResults found = pools.max_of_last(x), expected = pools.max_of_planes(x);
      pools.expect_same(found.y, expected.y);
      pools.expect_same(found.gradient, expected.gradient);
    }
  });
}

TEST_P(MathOn, MeansOfWindowsWithChannelsLastAreThoseOfPlainImages) {
  if (!is_gpu()) return;
  for_each_pool(device(), [](const ChannelsLastPools& pools, const PoolCase& c) {
    std::vector<std::optional<AveragePool>> means;
    if (c.windows) {
      means = {AveragePool{*c.windows, true}, AveragePool{*c.windows, false},
               AveragePool{*c.windows, true, 7}};
    } else {
      means = {std::nullopt};
    }
    for (const auto& mean : means) {
      const PoolResults found = pools.mean_of_last(mean), expected = pools.mean_of_planes(mean);
      pools.expect_near(found.y, expected.y);
      pools.expect_near(found.gradient, expected.gradient);
    }
  });
}

TEST_P(MathOn, PoolsTakeImagesAtAnAddressThatFitsNoVector) {
  if (!is_gpu()) return;
  const auto at_odd_address = [&](const Tensor& x) {
    const Tensor memory = Tensor::empty({x.numel() + 1}, x.dtype(), x.device());
    Tensor there = memory.slice(1, x.numel() + 1).reshape(x.shape());
    there.copy_from(x.with_layout(Layout::plain));
    return there.with_layout(Layout::channel_blocks);
  };
  const PoolCase& c = pool_cases[0];
  const ChannelsLastPools pools(c, DType::bf16, device(), false);
  const auto results = [&](const Tensor& x) {
    const Tensor y = pools.last(c.y, 2), gradient = pools.last(c.x, 3), mean = y.clone();
    const Tensor places = Tensor::empty(y.shape(), DType::u8, device());
    channels_last_max_pool_forward(x, c.windows, y, places);
    channels_last_max_pool_backward(y, places, c.windows, false, gradient);
    channels_last_avg_pool_forward(x, AveragePool{*c.windows}, mean);
    return std::vector{read(in_plain_layout(y)), read(in_plain_layout(gradient)),
                       read(in_plain_layout(mean))};
  };
  const Tensor x = pools.last(c.x, 1);
  EXPECT_EQ(results(at_odd_address(x)), results(x));
}

TEST_P(MathOn, AMaxPoolWithChannelsLastKeepsPlacesInWindowsOfUpTo256Elements) {
  if (!is_gpu()) return;
  const Tensor x =
      in_channel_blocks(on(device(), eighths(8 * 34 * 34, 1), DType::bf16).reshape({1, 8, 34, 34}));
  const auto fits = [&](const ImageWindows& windows, const Shape& y) {
    return fits_channels_last_max_pool(windows, x, y);
  };
  EXPECT_TRUE(fits(pool_window({1, 16, 16}, 1, 0), {1, 8, 19, 19}));
  EXPECT_FALSE(fits(pool_window({1, 16, 17}, 1, 0), {1, 8, 19, 18}));
  EXPECT_TRUE(fits({}, {1, 8, 3, 3}));
  EXPECT_FALSE(fits({}, {1, 8, 2, 2}));
  EXPECT_FALSE(fits({}, {1, 8, 1, 1}));
}

}  // namespace
}  // namespace lockstep
