#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/kernels/conv/conv2d_max_pool2d.hpp>

namespace lockstep {
namespace {

struct Case {
  const char* name;
  std::int64_t n, c, h, w, o, kh, kw, pool, pad_h = 0, pad_w = 0;
  bool bias = true, scale = false;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

using Values = std::vector<double>;

/// Elements by Philox: uniform in [-1, 1), or small whole numbers whose sums are exact and tie
/// often.
Tensor random_tensor(const Shape& shape, std::uint64_t stream, bool whole_numbers) {
  PhiloxSequence sequence(7, stream);
  std::vector<float> elements(static_cast<std::size_t>(shape.numel()));
  for (float& e : elements) {
    e = whole_numbers ? static_cast<float>(sequence.below(5)) - 2.0F
                      : 2.0F * sequence.uniform() - 1.0F;
  }
  return Tensor::from(elements, shape);
}

Values to_double(const Tensor& t) {
  if (!t.defined()) return {};
  const auto f = t.to_vector<float>();
  return {f.begin(), f.end()};
}

Conv2dMaxPool2dInputs make_inputs(const Case& c, bool whole_numbers = false) {
  Conv2dMaxPool2dInputs in;
  in.x = random_tensor({c.n, c.c, c.h, c.w}, 1, whole_numbers);
  in.weight = random_tensor({c.o, c.c, c.kh, c.kw}, 2, whole_numbers);
  if (c.bias) in.bias = random_tensor({c.o}, 3, whole_numbers);
  if (c.scale) {
    PhiloxSequence sequence(7, 4);
    std::vector<float> scale(static_cast<std::size_t>(c.n * c.o));
    for (float& s : scale) s = 2.0F * static_cast<float>(sequence.below(2));
    in.channel_scale = Tensor::from(scale, {c.n, c.o});
  }
  in.conv.padding = {c.pad_h, c.pad_w};
  in.pool = {c.pool, c.pool, 0};
  return in;
}

/// The definition, in double, without any sharing of code or layout with the kernel.
struct Reference {
  Case c;
  std::int64_t ph, pw;
  Values x, weight, bias, scale;

  explicit Reference(const Case& test, const Conv2dMaxPool2dInputs& in)
      : c(test),
        ph((c.h + 2 * c.pad_h - c.kh + 1) / c.pool),
        pw((c.w + 2 * c.pad_w - c.kw + 1) / c.pool),
        x(to_double(in.x)),
        weight(to_double(in.weight)),
        bias(to_double(in.bias)),
        scale(to_double(in.channel_scale)) {}

  template <class F>
  void for_taps(std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow,
                const F& f) const {
    for (std::int64_t k = 0; k < c.c; ++k) {
      for (std::int64_t i = 0; i < c.kh; ++i) {
        for (std::int64_t j = 0; j < c.kw; ++j) {
          const std::int64_t h = oh + i - c.pad_h, w = ow + j - c.pad_w;
          if (h < 0 || h >= c.h || w < 0 || w >= c.w) continue;
          f(static_cast<std::size_t>(((n * c.c + k) * c.h + h) * c.w + w),
            static_cast<std::size_t>(((o * c.c + k) * c.kh + i) * c.kw + j));
        }
      }
    }
  }

  double factor(std::int64_t n, std::int64_t o) const {
    return scale.empty() ? 1.0 : scale[static_cast<std::size_t>(n * c.o + o)];
  }

  double convolved(std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) const {
    double sum = bias.empty() ? 0.0 : bias[static_cast<std::size_t>(o)];
    for_taps(n, o, oh, ow, [&](std::size_t at, std::size_t tap) { sum += x[at] * weight[tap]; });
    return factor(n, o) * sum;
  }

  template <class F>
  void for_outputs(const F& f) const {
    std::size_t at = 0;
    for (std::int64_t n = 0; n < c.n; ++n) {
      for (std::int64_t o = 0; o < c.o; ++o) {
        for (std::int64_t p = 0; p < ph; ++p) {
          for (std::int64_t q = 0; q < pw; ++q) f(at++, n, o, p * c.pool, q * c.pool);
        }
      }
    }
  }
};

struct Gradients {
  Values x, weight, bias;
};

/// Gradients for given winners: which element of nearly equal ones wins may depend on rounding, and
/// is checked on its own.
Gradients reference_gradients(const Reference& ref, const Values& y,
                              const std::vector<std::uint8_t>& code, const Values& grad_y) {
  Gradients g{Values(ref.x.size()), Values(ref.weight.size()),
              Values(static_cast<std::size_t>(ref.c.o))};
  ref.for_outputs(
      [&](std::size_t at, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
        if (y[at] <= 0.0) return;
        const double grad = grad_y[at] * ref.factor(n, o);
        g.bias[static_cast<std::size_t>(o)] += grad;
        ref.for_taps(n, o, oh + code[at] / ref.c.pool, ow + code[at] % ref.c.pool,
                     [&](std::size_t pixel, std::size_t tap) {
                       g.x[pixel] += grad * ref.weight[tap];
                       g.weight[tap] += grad * ref.x[pixel];
                     });
      });
  return g;
}

/// 16 float32 roundings of the largest reference value: the rule of the reference data.
void expect_close(const Tensor& t, const Values& reference, const char* what) {
  const Values got = to_double(t);
  ASSERT_EQ(got.size(), reference.size()) << what;
  double largest = 0.0, difference = 0.0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(reference[i]));
    const double d = std::abs(got[i] - reference[i]);
    difference = d <= difference ? difference : d;  // NaN stays
  }
  EXPECT_LE(difference, 16.0 * 0x1p-23 * largest) << what;
}

struct Outputs {
  Tensor y, code;
};

Outputs run_forward(const Conv2dMaxPool2dInputs& in) {
  const Shape shape = conv2d_max_pool2d_shape(in.x.shape(), in.weight.shape(), in.conv, in.pool);
  Outputs out{Tensor::full(shape, -7.0), Tensor::full(shape, 255, DType::u8)};
  conv2d_max_pool2d_relu_forward(in, out.y, out.code);
  return out;
}

Conv2dMaxPool2dGradients run_backward(const Conv2dMaxPool2dInputs& in, const Outputs& out,
                                      const Tensor& grad_y) {
  Conv2dMaxPool2dGradients g;
  g.x = Tensor::full(in.x.shape(), -7.0);
  g.weight = Tensor::full(in.weight.shape(), -7.0);
  g.bias = Tensor::full({in.weight.size(0)}, -7.0);
  conv2d_max_pool2d_relu_backward(in, out.y, out.code, grad_y, g);
  return g;
}

class Conv2dMaxPool2d : public testing::TestWithParam<Case> {};

TEST_P(Conv2dMaxPool2d, EqualsItsDefinitionInDouble) {
  const Case c = GetParam();
  const auto in = make_inputs(c);
  const Reference ref(c, in);
  const Outputs out = run_forward(in);
  ASSERT_EQ(out.y.shape(), (Shape{c.n, c.o, ref.ph, ref.pw}));
  const auto code = out.code.to_vector<std::uint8_t>();
  const Values y = to_double(out.y);

  Values expected(y.size());
  ref.for_outputs(
      [&](std::size_t at, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
        double best = -std::numeric_limits<double>::infinity();
        for (std::int64_t e = 0; e < c.pool * c.pool; ++e)
          best = std::max(best, ref.convolved(n, o, oh + e / c.pool, ow + e % c.pool));
        expected[at] = std::max(best, 0.0);
        ASSERT_LT(code[at], c.pool * c.pool);
        const double chosen = ref.convolved(n, o, oh + code[at] / c.pool, ow + code[at] % c.pool);
        ASSERT_NEAR(chosen, best, 1e-4) << "code " << int{code[at]} << " at " << at;
      });
  expect_close(out.y, expected, "y");

  const Tensor grad_y = random_tensor(out.y.shape(), 5, false);
  const auto grad = run_backward(in, out, grad_y);
  const auto expected_grad = reference_gradients(ref, y, code, to_double(grad_y));
  expect_close(grad.x, expected_grad.x, "gradient of x");
  expect_close(grad.weight, expected_grad.weight, "gradient of weight");
  expect_close(grad.bias, expected_grad.bias, "gradient of bias");
}

// Small whole numbers: every sum is exact in any order, and most windows hold equal elements.
TEST_P(Conv2dMaxPool2d, FirstOfEqualElementsWinsAndWholeNumbersAreExact) {
  const Case c = GetParam();
  const auto in = make_inputs(c, true);
  const Reference ref(c, in);
  const Outputs out = run_forward(in);
  const auto code = out.code.to_vector<std::uint8_t>();
  const Values y = to_double(out.y);
  ref.for_outputs(
      [&](std::size_t at, std::int64_t n, std::int64_t o, std::int64_t oh, std::int64_t ow) {
        double best = -std::numeric_limits<double>::infinity();
        int first = 0;
        for (int e = 0; e < c.pool * c.pool; ++e) {
          const double v = ref.convolved(n, o, oh + e / c.pool, ow + e % c.pool);
          if (v > best) first = e;
          best = std::max(best, v);
        }
        ASSERT_EQ(y[at], std::max(best, 0.0)) << at;
        ASSERT_EQ(code[at], first) << at;
      });
  const Tensor grad_y = random_tensor(out.y.shape(), 5, true);
  const auto grad = run_backward(in, out, grad_y);
  const auto expected = reference_gradients(ref, y, code, to_double(grad_y));
  EXPECT_EQ(to_double(grad.x), expected.x);
  EXPECT_EQ(to_double(grad.weight), expected.weight);
  EXPECT_EQ(to_double(grad.bias), expected.bias);
}

INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv2dMaxPool2d,
    testing::Values(Case{"convnet_conv1", 3, 1, 28, 28, 10, 5, 5, 2},
                    Case{"convnet_conv2", 3, 10, 12, 12, 20, 5, 5, 2, 0, 0, true, true},
                    Case{"one_sample", 1, 3, 9, 11, 5, 3, 3, 2},
                    Case{"no_bias", 2, 2, 8, 8, 3, 3, 3, 2, 0, 0, false},
                    Case{"odd_sizes", 2, 3, 11, 14, 7, 3, 5, 2},
                    Case{"pool3", 2, 2, 13, 17, 5, 3, 3, 3, 0, 0, true, true},
                    Case{"pool3_padded", 2, 4, 10, 10, 9, 5, 3, 3, 2, 1},
                    Case{"pool15", 1, 1, 32, 31, 2, 2, 2, 15},
                    Case{"no_pooling", 2, 3, 7, 9, 4, 3, 3, 1, 1, 1},
                    Case{"kernel1", 2, 5, 6, 10, 17, 1, 1, 2},
                    Case{"kernel1_one_channel", 2, 1, 5, 5, 1, 1, 1, 2},
                    Case{"same_padding", 2, 3, 16, 16, 16, 3, 3, 2, 1, 1},
                    Case{"wide_padding", 2, 2, 4, 4, 3, 5, 5, 2, 4, 4},
                    Case{"kernel_covers_image", 4, 2, 6, 6, 3, 5, 5, 2},
                    Case{"tall_kernel", 2, 3, 20, 5, 6, 7, 1, 2},
                    Case{"wide_kernel", 2, 2, 6, 60, 3, 2, 19, 2, 0, 0, true, true},
                    Case{"many_channels", 2, 33, 8, 10, 21, 3, 3, 2, 1, 1, true, true},
                    Case{"many_samples", 70, 1, 8, 8, 3, 3, 3, 2, 0, 0, true, true}),
    [](const auto& test) { return std::string(test.param.name); });

TEST(Conv2dMaxPool2d, EmptyBatchGivesZeroParameterGradients) {
  const auto in = make_inputs({"", 0, 2, 8, 8, 3, 3, 3, 2, 0, 0, true, true});
  const Outputs out = run_forward(in);
  EXPECT_EQ(out.y.shape(), (Shape{0, 3, 3, 3}));
  const auto grad = run_backward(in, out, out.y);
  EXPECT_EQ(to_double(grad.weight), Values(54, 0.0));
  EXPECT_EQ(to_double(grad.bias), Values(3, 0.0));
}

TEST(Conv2dMaxPool2d, AccumulatesOnRequestAndOverwritesOtherwise) {
  const auto in = make_inputs({"", 3, 2, 9, 9, 4, 3, 3, 2}, true);
  const Outputs out = run_forward(in);
  const Tensor grad_y = random_tensor(out.y.shape(), 5, true);
  const auto once = run_backward(in, out, grad_y);
  auto again = run_backward(in, out, grad_y);
  again.accumulate_x = again.accumulate_weight = again.accumulate_bias = true;
  conv2d_max_pool2d_relu_backward(in, out.y, out.code, grad_y, again);
  const auto twice = [](const Tensor& t) {
    Values v = to_double(t);
    for (double& e : v) e *= 2.0;
    return v;
  };
  EXPECT_EQ(to_double(again.x), twice(once.x));
  EXPECT_EQ(to_double(again.weight), twice(once.weight));
  EXPECT_EQ(to_double(again.bias), twice(once.bias));
}

TEST(Conv2dMaxPool2d, EachGradientIsTheSameWhetherOrNotTheOthersAreWanted) {
  const auto in = make_inputs({"", 2, 3, 9, 9, 4, 3, 3, 2});
  const Outputs out = run_forward(in);
  const Tensor grad_y = random_tensor(out.y.shape(), 5, false);
  const auto all = run_backward(in, out, grad_y);
  Conv2dMaxPool2dGradients only_x, only_weight, only_bias;
  only_x.x = Tensor::empty(in.x.shape());
  only_weight.weight = Tensor::empty(in.weight.shape());
  only_bias.bias = Tensor::empty({4});
  for (const auto& g : {only_x, only_weight, only_bias})
    conv2d_max_pool2d_relu_backward(in, out.y, out.code, grad_y, g);
  EXPECT_EQ(to_double(only_x.x), to_double(all.x));
  EXPECT_EQ(to_double(only_weight.weight), to_double(all.weight));
  EXPECT_EQ(to_double(only_bias.bias), to_double(all.bias));
}

TEST(Conv2dMaxPool2d, NanReachesEveryOutputWhoseWindowSeesIt) {
  for (const std::int64_t pool : {2, 3}) {
    const Case c{"", 2, 1, 12, 12, 7, 3, 3, pool, 0, 0, true, true};
    auto in = make_inputs(c);
    auto x = in.x.to_vector<float>();
    x[5 * 12 + 7] = std::numeric_limits<float>::quiet_NaN();  // sample 0, row 5, column 7
    in.x = Tensor::from(x, in.x.shape());
    const Reference ref(c, in);
    const Values y = to_double(run_forward(in).y);
    ref.for_outputs(
        [&](std::size_t at, std::int64_t n, std::int64_t, std::int64_t oh, std::int64_t ow) {
          const bool sees = n == 0 && oh <= 5 && 5 < oh + pool + 2 && ow <= 7 && 7 < ow + pool + 2;
          EXPECT_EQ(std::isnan(y[at]), sees) << "pool " << pool << ", output " << at;
        });
  }
}

TEST(Conv2dMaxPool2d, NanWeightShowsInDroppedChannelsToo) {
  auto in = make_inputs({"", 2, 1, 8, 8, 3, 3, 3, 2});
  in.channel_scale = Tensor::zeros({2, 3});
  auto weight = in.weight.to_vector<float>();
  weight[9] = std::numeric_limits<float>::quiet_NaN();  // output channel 1
  in.weight = Tensor::from(weight, in.weight.shape());
  const Values y = to_double(run_forward(in).y);
  for (std::size_t i = 0; i < y.size(); ++i) EXPECT_EQ(std::isnan(y[i]), i / 9 % 3 == 1) << i;
}

TEST(Conv2dMaxPool2d, InfinityIsAValueLikeAnyOther) {
  auto in = make_inputs({"", 1, 1, 6, 6, 1, 1, 1, 2, 0, 0, false});
  auto x = in.x.to_vector<float>();
  x[0] = std::numeric_limits<float>::infinity();
  x[2] = -std::numeric_limits<float>::infinity();
  in.x = Tensor::from(x, in.x.shape());
  in.weight = Tensor::full({1, 1, 1, 1}, 1.0);
  const Outputs out = run_forward(in);
  const Values y = to_double(out.y);
  EXPECT_EQ(y[0], std::numeric_limits<double>::infinity());
  EXPECT_EQ(y[1], std::max({0.0F, x[3], x[8], x[9]}));
  EXPECT_EQ(out.code.to_vector<std::uint8_t>()[0], 0);
}

TEST(Conv2dMaxPool2d, FourThreadsAtOnceGetTheSameBits) {
  const auto in = make_inputs({"", 5, 3, 13, 12, 9, 5, 5, 2, 0, 0, true, true});
  const Outputs out = run_forward(in);
  const Tensor grad_y = random_tensor(out.y.shape(), 5, false);
  const auto grad = run_backward(in, out, grad_y);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int repeat = 0; repeat < 5; ++repeat) {
        const Outputs again = run_forward(in);
        EXPECT_EQ(to_double(again.y), to_double(out.y));
        const auto grad_again = run_backward(in, again, grad_y);
        EXPECT_EQ(to_double(grad_again.x), to_double(grad.x));
        EXPECT_EQ(to_double(grad_again.weight), to_double(grad.weight));
        EXPECT_EQ(to_double(grad_again.bias), to_double(grad.bias));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Conv2dMaxPool2d, SteadyLoopReachesNoSystemAllocator) {
  const auto in = make_inputs({"", 4, 2, 12, 12, 6, 3, 3, 2});
  const Outputs out = run_forward(in);
  const Tensor grad_y = random_tensor(out.y.shape(), 5, false);
  const auto grad = run_backward(in, out, grad_y);
  const auto before = memory_stats().system_allocations;
  for (int step = 0; step < 3; ++step) {
    conv2d_max_pool2d_relu_forward(in, out.y, out.code);
    conv2d_max_pool2d_relu_backward(in, out.y, out.code, grad_y, grad);
  }
  EXPECT_EQ(memory_stats().system_allocations, before);
}

TEST(Conv2dMaxPool2d, KnowsTheLayersThatItSupports) {
  const Shape x{2, 3, 8, 8}, weight{4, 3, 3, 3};
  const Conv2dOptions conv;
  const SquareWindow pool{2, 2};
  const auto supported = [&](const Conv2dOptions& c, const SquareWindow& p) {
    return conv2d_max_pool2d_supported(x, weight, c, p, DType::f32);
  };
  EXPECT_TRUE(supported(conv, pool));
  EXPECT_FALSE(conv2d_max_pool2d_supported(x, weight, conv, pool, DType::f64));
  EXPECT_FALSE(conv2d_max_pool2d_supported(x, {4, 2, 3, 3}, conv, pool, DType::f32));
  EXPECT_FALSE(conv2d_max_pool2d_supported({2, 3, 2, 8}, weight, conv, pool, DType::f32));
  EXPECT_FALSE(conv2d_max_pool2d_supported({2, 3, 3, 8}, weight, conv, pool, DType::f32));
  EXPECT_FALSE(
      conv2d_max_pool2d_supported({2, 64, 224, 224}, {64, 64, 3, 3}, conv, pool, DType::f32));
  EXPECT_FALSE(supported({.stride = {2, 1}}, pool));
  EXPECT_FALSE(supported({.dilation = {1, 2}}, pool));
  EXPECT_FALSE(supported({.groups = 3}, pool));
  EXPECT_TRUE(supported({.padding = {1, 2}}, pool));
  EXPECT_FALSE(supported(conv, {2, 1, 0}));
  EXPECT_FALSE(supported(conv, {2, 2, 1}));
  EXPECT_FALSE(supported(conv, {16, 16, 0}));
  const auto in = make_inputs({"", 1, 1, 8, 8, 3, 3, 3, 2});
  EXPECT_THROW(conv2d_max_pool2d_relu_forward(in, Tensor::empty({1, 3, 4, 3}), {}), ShapeError);
  auto strided = in;
  strided.conv.stride = {2, 2};
  EXPECT_THROW(conv2d_max_pool2d_relu_forward(strided, Tensor::empty({1, 3, 1, 1}), {}),
               ShapeError);
}

}  // namespace
}  // namespace lockstep
