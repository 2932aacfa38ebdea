// Products and convolutions on every device that there is: the host, a simulated one, a
// simulated one that computes as a GPU does, and a GPU where CUDA finds one.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/linalg/matmul.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/sum_dtype.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/tensor/tf32.hpp>
#include <support/gpu_stand_in.hpp>
#include <support/message_of.hpp>

#include "math_on.hpp"

namespace lockstep {
namespace {

using test::eighths;
using test::MathOn;
using test::MathPlace;
using test::on;
using test::read;

std::string name_of_place(const testing::TestParamInfo<MathPlace>& info) {
  static constexpr const char* names[] = {"Host", "Simulated", "StandIn", "Gpu"};
  return names[static_cast<std::size_t>(info.param)];
}

std::vector<MathPlace> gpus() {
  if (!has_cuda_runtime() || runtime_of(DeviceType::cuda).device_count() == 0) return {};
  return {MathPlace::gpu};
}

INSTANTIATE_TEST_SUITE_P(Here, MathOn,
                         testing::Values(MathPlace::host, MathPlace::simulated,
                                         MathPlace::stand_in),
                         name_of_place);
INSTANTIATE_TEST_SUITE_P(OnGpu, MathOn, testing::ValuesIn(gpus()), name_of_place);

struct ProductCase {
  math::ProductSize size;
  bool a_transposed = false, b_transposed = false, bias = false;
  std::int64_t gap = 0;     ///< between stored rows, and between matrices
  std::int64_t offset = 0;  ///< of the first
  bool same_c = false;      ///< all products go into one
  bool narrow_c = false;    ///< the result and the bias are of the operands' 16 bits
};

/// Stored rows and columns, where matrix i begins, and the distance between rows.
struct Stored {
  std::int64_t rows, columns, stride, batch, offset;
  bool transposed;

  Stored(std::int64_t m, std::int64_t n, bool is_transposed, const ProductCase& c, bool one = false)
      : rows(is_transposed ? n : m),
        columns(is_transposed ? m : n),
        stride(std::max<std::int64_t>(columns, 1) + c.gap),
        batch(one ? 0 : rows * stride + c.gap),
        offset(c.offset),
        transposed(is_transposed) {}

  [[nodiscard]] std::int64_t elements(std::int64_t count) const {
    return offset + count * (rows * stride + 8) + 8;
  }
  [[nodiscard]] std::size_t at(std::int64_t i, std::int64_t row, std::int64_t column) const {
    if (transposed) std::swap(row, column);
    return static_cast<std::size_t>(offset + i * batch + row * stride + column);
  }
  [[nodiscard]] math::Matrices in(const Tensor& t) const {
    return {t, stride, transposed, offset, batch};
  }
};

void expect_product(const ProductCase& c, DType dtype, Device device) {
  const auto& [m, n, k, count, accumulate, full_f32] = c.size;
  const Stored a(m, k, c.a_transposed, c), b(k, n, c.b_transposed, c), to(m, n, false, c, c.same_c);
  const auto left = eighths(a.elements(count), 1), right = eighths(b.elements(count), 2);
  const auto bias = eighths(n, 3);
  auto expected = eighths(to.elements(count), 4);
  const DType results = c.narrow_c ? dtype : sum_dtype(dtype);
  const Tensor result = on(device, expected, results);
  math::product("test", c.size, a.in(on(device, left, dtype)), b.in(on(device, right, dtype)),
                to.in(result), c.bias ? on(device, bias, results) : Tensor());
  for (std::int64_t i = 0; i < count; ++i) {
    for (std::int64_t row = 0; row < m; ++row) {
      for (std::int64_t column = 0; column < n; ++column) {
        double& sum = expected[to.at(i, row, column)];
        if (!accumulate && (i == 0 || !c.same_c)) sum = 0;
        if (c.bias) sum += bias[static_cast<std::size_t>(column)];
        for (std::int64_t t = 0; t < k; ++t)
          sum += left[a.at(i, row, t)] * right[b.at(i, t, column)];
      }
    }
  }
  // Sums are exact, so a result of 16 bits is their nearest number. The memory between and beside
  // the matrices must not change.
  EXPECT_EQ(read(result), read(on({}, expected, results)));
}

TEST_P(MathOn, ProductsOfEveryShapeAreExact) {
  std::vector<ProductCase> cases;
  for (const std::int64_t m : {0, 1, 3, 40}) {
    for (const std::int64_t n : {0, 1, 5, 33}) {
      for (const std::int64_t k : {0, 1, 7, 64}) cases.push_back({.size = {m, n, k}});
    }
  }
  for (const bool a_transposed : {false, true}) {
    for (const bool b_transposed : {false, true}) {
      for (const bool accumulate : {false, true}) {
        const auto add = [&](ProductCase c) {
          c.a_transposed = a_transposed;
          c.b_transposed = b_transposed;
          c.size.accumulate = accumulate;
          cases.push_back(c);
        };
        add({.size = {5, 9, 13}});
        add({.size = {1, 6, 300}});
        add({.size = {5, 4, 0}, .gap = 3});
        add({.size = {5, 9, 13}, .gap = 3, .offset = 5});
        add({.size = {3, 4, 8, 3}, .gap = 1, .offset = 2});
        add({.size = {3, 4, 8, 3}, .same_c = true});
        if (accumulate) continue;
        add({.size = {5, 9, 13}, .bias = true});
        add({.size = {5, 9, 0}, .bias = true});
        add({.size = {8, 16, 16}, .bias = true, .gap = 8});
      }
    }
  }
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    for (const ProductCase& c : cases) {
      SCOPED_TRACE(testing::Message()
                   << name_of(dtype) << " m " << c.size.m << " n " << c.size.n << " k " << c.size.k
                   << " count " << c.size.count << (c.size.accumulate ? " accumulate" : "")
                   << (c.a_transposed ? " a^T" : "") << (c.b_transposed ? " b^T" : "")
                   << (c.bias ? " bias" : "") << " gap " << c.gap);
      expect_product(c, dtype, device());
      if (!is_half(dtype) || c.same_c) continue;
      ProductCase narrow = c;
      narrow.narrow_c = true;
      SCOPED_TRACE("into 16 bits");
      expect_product(narrow, dtype, device());
    }
  }
}

TEST_P(MathOn, ALargeResultOf16BitsIsThatInF32RoundedOnce) {
  // More rows than one block of f32 sums holds, on processors without units for the type.
  for (const DType dtype : {DType::bf16, DType::f16}) {
    expect_product({.size = {130, 700, 9}, .bias = true, .narrow_c = true}, dtype, device());
    expect_product({.size = {.m = 130, .n = 700, .k = 9, .accumulate = true},
                    .a_transposed = true,
                    .narrow_c = true},
                   dtype, device());
  }
}

TEST_P(MathOn, ProductsAndConvolutionsKeepF32) {
  // Ten bits of a fraction, as TF32 keeps them, would make 1 of it.
  const double x = 1 + std::ldexp(1, -12);
  const Tensor a = Tensor::full({16, 32}, x, DType::f32, device());
  const Tensor b = Tensor::full({24, 32}, 1, DType::f32, device());
  const Tensor y = Tensor::empty({16, 24}, DType::f32, device());
  linear_forward(a, b, {}, y);
  EXPECT_EQ(read(y), std::vector<double>(std::size_t{16} * 24, 32 * x));
  const Tensor image = Tensor::empty({1, 24, 4, 4}, DType::f32, device());
  conv2d_forward(a.reshape({1, 32, 4, 4}), b.reshape({24, 32, 1, 1}), {}, {}, image);
  EXPECT_EQ(read(image), std::vector<double>(std::size_t{16} * 24, 32 * x));
}

TEST(GpuMath, AllowedTf32IsAPartOfEveryDescriptionInF32ButOfSums) {
  const Tensor x = Tensor::zeros({64}), half = Tensor::zeros({64}, DType::bf16),
               wide = Tensor::zeros({64}, DType::f64);
  const auto in_tf32 = [](const Tensor& t, bool full_f32 = false) {
    const math::Matrices m{t, 8};
    return math::column_major("test", {.m = 4, .n = 4, .k = 4, .full_f32 = full_f32}, m, m, m).tf32;
  };
  EXPECT_FALSE(in_tf32(x));
  allow_tf32(true);
  EXPECT_TRUE(in_tf32(x));
  EXPECT_FALSE(in_tf32(x, true));
  EXPECT_FALSE(in_tf32(half));
  EXPECT_FALSE(in_tf32(wide));
  allow_tf32(false);
  EXPECT_FALSE(in_tf32(x));
}

TEST_P(MathOn, OperandsAreRoundedToThePrecision) {
  const double x = 1 + std::ldexp(1, -7), tail = std::ldexp(1, -12);
  const Tensor a = Tensor::full({16, 32}, x + tail, DType::f32, device());
  const Tensor image = Tensor::full({1, 16, 4, 4}, x + tail, DType::f32, device());
  const Tensor kernel = Tensor::full({1, 16, 1, 1}, 1, DType::f32, device());
  const Tensor y = Tensor::empty({16, 16}, DType::f32, device());
  const Tensor z = Tensor::empty({1, 1, 4, 4}, DType::f32, device());
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    const PrecisionGuard guard(precision);
    matmul_forward(a, a.reshape({32, 16}), y);
    EXPECT_EQ(read(y), std::vector<double>(256, 32 * x * x));
    conv2d_forward(image, kernel, {}, {}, z);
    EXPECT_EQ(read(z), std::vector<double>(16, 16 * x));
  }
}

TEST_P(MathOn, TheGradientOfABiasIsTheSumOfItsRows) {
  const PrecisionGuard bf16(Precision::bf16);  // does not round it
  const auto g = eighths(std::int64_t{70} * 300, 1);
  const auto expect = [&](DType dtype, DType sums) {
    for (const bool accumulate : {false, true}) {
      auto expected = eighths(300, 2);
      const Tensor bias = on(device(), expected, sums);
      if (!is_half(sums)) bias += std::ldexp(1, -12);
      linear_backward_bias(on(device(), g, dtype).reshape({7, 10, 300}), accumulate, bias);
      for (std::size_t i = 0; i < 300; ++i) {
        expected[i] = accumulate ? expected[i] + (is_half(sums) ? 0 : std::ldexp(1, -12)) : 0;
        for (std::size_t row = 0; row < 70; ++row) expected[i] += g[row * 300 + i];
      }
      EXPECT_EQ(read(bias), read(on({}, expected, sums)));
    }
  };
  expect(DType::f32, DType::f32);
  expect(DType::f64, DType::f64);
  for (const DType half : {DType::bf16, DType::f16}) {
    expect(half, DType::f32);
    expect(half, half);
  }
}

struct ParametersCase {
  DType dtype, gradients;
  std::int64_t out;
  bool accumulate;
};

/// Gradients of a linear layer by one product; returns whether there is one. Without it the
/// gradients must stay as they are.
bool expect_gradients_in_one_product(const ParametersCase& c, Device device) {
  constexpr std::int64_t rows = 70, in = 24;
  const auto g = eighths(rows * c.out, 1), x = eighths(rows * in, 2);
  auto weight = eighths(c.out * in, 3), bias = eighths(c.out + 2, 4);
  const Tensor grad_weight = on(device, weight, c.gradients).reshape({c.out, in});
  const Tensor grad_bias = on(device, bias, c.gradients);
  const bool is_one = linear_backward_weight_and_bias(
      on(device, g, c.dtype).reshape({7, 10, c.out}), on(device, x, c.dtype).reshape({7, 10, in}),
      c.accumulate, grad_weight, grad_bias.slice(1, c.out + 1));
  for (std::int64_t o = 0; is_one && o < c.out; ++o) {
    const auto of_g = [&](std::int64_t row) {
      return g[static_cast<std::size_t>(row * c.out + o)];
    };
    double& sum = bias[static_cast<std::size_t>(o + 1)];
    sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += of_g(row);
    for (std::int64_t i = 0; i < in; ++i) {
      double& to = weight[static_cast<std::size_t>(o * in + i)];
      if (!c.accumulate) to = 0;
      for (std::int64_t row = 0; row < rows; ++row) {
        to += of_g(row) * x[static_cast<std::size_t>(row * in + i)];
      }
    }
  }
  // Sums are exact, and rounded once; what lies beside the gradient of the bias must not change.
  EXPECT_EQ(read(grad_weight), read(on({}, weight, c.gradients)));
  EXPECT_EQ(read(grad_bias), read(on({}, bias, c.gradients)));
  return is_one;
}

TEST_P(MathOn, TheGradientsOfAWeightAndOfItsBiasAreExactInOneProduct) {
  for (const std::int64_t out : {1, 2, 33, 40}) {
    for (const bool accumulate : {false, true}) {
      const auto expect = [&](DType dtype, DType gradients) {
        SCOPED_TRACE(testing::Message() << name_of(dtype) << " into " << name_of(gradients) << " "
                                        << out << (accumulate ? " accumulate" : ""));
        const bool is_one =
            expect_gradients_in_one_product({dtype, gradients, out, accumulate}, device());
        if (GetParam() == MathPlace::gpu) return;  // its library's choice
        // The stand-in lacks vectors of odd extents, and vendors epilogues of f64.
        EXPECT_EQ(is_one, is_gpu() && out % 2 == 0 && dtype != DType::f64);
      };
      expect(DType::f32, DType::f32);
      expect(DType::f64, DType::f64);
      for (const DType half : {DType::bf16, DType::f16}) {
        expect(half, DType::f32);
        expect(half, half);
      }
    }
  }
}

TEST_P(MathOn, TheGradientOfABiasHasAProductOfItsOwnWhereOneWouldRoundIt) {
  const auto is_one = [&](DType dtype) {
    return expect_gradients_in_one_product({dtype, sum_dtype(dtype), 8, false}, device());
  };
  {
    const PrecisionGuard bf16(Precision::bf16);
    EXPECT_FALSE(is_one(DType::f32));
  }
  allow_tf32(true);
  EXPECT_FALSE(is_one(DType::f32));
  if (GetParam() != MathPlace::gpu) {
    EXPECT_EQ(is_one(DType::bf16), is_gpu());
  }
  allow_tf32(false);
}

TEST_P(MathOn, TheGradientOfABiasHasAProductOfItsOwnForAnotherDTypeAndWithoutRows) {
  const auto one = [&](std::int64_t rows, DType of_bias) {
    const Tensor x = Tensor::full({rows, 8}, 1, DType::bf16, device());
    const Tensor weight = Tensor::full({8, 8}, 5, DType::f32, device());
    const Tensor bias = Tensor::full({8}, 5, of_bias, device());
    EXPECT_FALSE(linear_backward_weight_and_bias(x, x, false, weight, bias));
    EXPECT_EQ(read(weight), std::vector<double>(64, 5));
    EXPECT_EQ(read(bias), std::vector<double>(8, 5));
  };
  one(4, DType::bf16);
  one(0, DType::f32);
}

TEST_P(MathOn, MatmulBroadcastsAndSums) {
  const Tensor a = on(device(), eighths(2 * 3 * 4 * 5, 1), DType::f32).reshape({2, 3, 4, 5});
  const Tensor b = on(device(), eighths(3 * 5 * 6, 2), DType::f32).reshape({3, 5, 6});
  const Tensor column = on(device(), eighths(2 * 5 * 6, 3), DType::f32).reshape({2, 1, 5, 6});
  for (const Tensor& right : {b, column}) {
    const auto run = [&](Device where) {
      const Tensor x = a.to(where), w = right.to(where);
      const Tensor y = Tensor::empty({2, 3, 4, 6}, DType::f32, where);
      const Tensor grad_x = Tensor::full({2, 3, 4, 5}, 1, DType::f32, where), grad_w = w.clone();
      matmul_forward(x, w, y);
      matmul_backward_a(y, w, true, grad_x);
      matmul_backward_b(y, x, false, grad_w);
      std::vector<double> all = read(y);
      for (const Tensor& t : {grad_x, grad_w}) {
        const auto elements = read(t);
        all.insert(all.end(), elements.begin(), elements.end());
      }
      return all;
    };
    EXPECT_EQ(run(device()), run({}));
  }
}

TEST_P(MathOn, GradientsOfRepeatedMatricesOf16BitsAreRoundedOnce) {
  // A product of 3 x 2^-10 beside 1 is lost in bf16; two or three of them are not.
  const Tensor a = Tensor::full({3, 1, 2, 2}, 0x1p-5, DType::bf16, device());
  const Tensor b = Tensor::full({2, 2, 1}, 0x1p-4, DType::bf16, device());
  const Tensor g = Tensor::full({3, 2, 2, 1}, 0x1.8p-5, DType::bf16, device());
  const Tensor grad_a = Tensor::full(a.shape(), 1, DType::bf16, device());
  const Tensor grad_b = Tensor::full(b.shape(), 1, DType::bf16, device());
  matmul_backward_a(g, b, true, grad_a);
  matmul_backward_b(g, a, true, grad_b);
  EXPECT_EQ(read(grad_a), std::vector<double>(12, 1 + 0x1p-7));
  EXPECT_EQ(read(grad_b), std::vector<double>(4, 1 + 0x1p-7));
}

struct ConvCase {
  std::int64_t n, c, d, h, w, o, kd, kh, kw;
  Conv3dOptions options{};
};

/// f(x, weight, y) for the flat places of each product that the convolution sums.
template <class F>
void for_each_term(const ConvCase& c, const Shape& y, const F& f) {
  const Conv3dOptions& options = c.options;
  const std::int64_t inputs = c.c / options.groups, outputs = c.o / options.groups;
  const std::int64_t od = y[2], oh = y[3], ow = y[4];
  for (std::int64_t n = 0; n < c.n; ++n)
    for (std::int64_t o = 0; o < c.o; ++o)
      for (std::int64_t i = 0; i < inputs; ++i)
        for (std::int64_t window = 0; window < od * oh * ow; ++window)
          for (std::int64_t tap = 0; tap < c.kd * c.kh * c.kw; ++tap) {
            const auto place = [&](std::size_t dim, std::int64_t at, std::int64_t of_kernel) {
              return at * options.stride[dim] - options.padding[dim] +
                     of_kernel * options.dilation[dim];
            };
            const std::int64_t z = place(0, window / (oh * ow), tap / (c.kh * c.kw));
            const std::int64_t row = place(1, window / ow % oh, tap / c.kw % c.kh);
            const std::int64_t column = place(2, window % ow, tap % c.kw);
            if (z < 0 || z >= c.d || row < 0 || row >= c.h || column < 0 || column >= c.w) continue;
            f(static_cast<std::size_t>(
                  (((n * c.c + o / outputs * inputs + i) * c.d + z) * c.h + row) * c.w + column),
              static_cast<std::size_t>((o * inputs + i) * c.kd * c.kh * c.kw + tap),
              static_cast<std::size_t>((n * c.o + o) * od * oh * ow + window));
          }
}

/// Some ways to convolve, Winograd's for one, divide: they are not exact.
void expect_near(const Tensor& t, const std::vector<double>& expected) {
  const auto found = read(t);
  ASSERT_EQ(found.size(), expected.size());
  double largest = 1;
  for (const double e : expected) largest = std::max(largest, std::abs(e));
  const double tolerance = largest * (t.dtype() == DType::f64 ? 1e-13 : 2e-5);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], tolerance) << i;
}

struct ConvShapes {
  Shape x, weight, y;
};

/// All three passes, each with and without what is there, against their definition.
template <class Forward, class BackwardInput, class BackwardWeight>
void expect_convolution(const ConvCase& c, const ConvShapes& shapes, const Shape& volumes,
                        DType dtype, Device device, const Forward& forward,
                        const BackwardInput& backward_input,
                        const BackwardWeight& backward_weight) {
  const auto make = [&](const Shape& shape, int seed) {
    return on(device, eighths(shape.numel(), seed), dtype).reshape(shape);
  };
  const auto x = eighths(shapes.x.numel(), 1), w = eighths(shapes.weight.numel(), 2),
             g = eighths(shapes.y.numel(), 3), bias = eighths(c.o, 4);
  const Tensor in = make(shapes.x, 1), weight = make(shapes.weight, 2), grad = make(shapes.y, 3);
  const std::int64_t positions = volumes[2] * volumes[3] * volumes[4];
  for (const bool with_bias : {false, true}) {
    std::vector<double> expected(g.size());
    for_each_term(c, volumes, [&](std::size_t at_x, std::size_t at_w, std::size_t at_y) {
      expected[at_y] += x[at_x] * w[at_w];
    });
    for (std::size_t i = 0; with_bias && i < expected.size(); ++i) {
      expected[i] += bias[i / static_cast<std::size_t>(positions) % bias.size()];
    }
    const Tensor y = make(shapes.y, 5);
    forward(in, weight, with_bias ? make({c.o}, 4) : Tensor(), y);
    expect_near(y, expected);
  }
  for (const bool accumulate : {false, true}) {
    auto of_x = eighths(shapes.x.numel(), 6), of_w = eighths(shapes.weight.numel(), 7);
    const Tensor grad_x = make(shapes.x, 6), grad_w = make(shapes.weight, 7);
    if (!accumulate) {
      std::ranges::fill(of_x, 0.0);
      std::ranges::fill(of_w, 0.0);
    }
    for_each_term(c, volumes, [&](std::size_t at_x, std::size_t at_w, std::size_t at_y) {
      of_x[at_x] += g[at_y] * w[at_w];
      of_w[at_w] += g[at_y] * x[at_x];
    });
    backward_input(grad, weight, accumulate, grad_x);
    backward_weight(grad, in, accumulate, grad_w);
    expect_near(grad_x, of_x);
    expect_near(grad_w, of_w);
  }
}

std::int64_t outputs(std::int64_t in, std::int64_t kernel, const Conv3dOptions& o, std::size_t d) {
  return (in + 2 * o.padding[d] - o.dilation[d] * (kernel - 1) - 1) / o.stride[d] + 1;
}

TEST_P(MathOn, ConvolutionsOfImagesEqualTheirDefinition) {
  const ConvCase cases[] = {
      {2, 3, 1, 9, 7, 4, 1, 3, 3, {}},
      {2, 3, 1, 9, 7, 4, 1, 3, 2, {.padding = {0, 1, 2}}},
      {2, 3, 1, 9, 8, 4, 1, 3, 3, {.stride = {1, 2, 3}, .padding = {0, 1, 1}}},
      {1, 2, 1, 11, 9, 3, 1, 3, 3, {.padding = {0, 2, 2}, .dilation = {1, 2, 2}}},
      {2, 4, 1, 6, 6, 6, 1, 3, 3, {.padding = {0, 1, 1}, .groups = 2}},
      {1, 6, 1, 5, 5, 6, 1, 3, 3, {.padding = {0, 1, 1}, .groups = 6}},
      {3, 16, 1, 5, 5, 8, 1, 1, 1, {}},
      {2, 16, 1, 6, 6, 16, 1, 1, 1, {.stride = {1, 2, 2}}},
      {2, 1, 1, 28, 28, 2, 1, 5, 5, {}},
      {0, 3, 1, 5, 5, 4, 1, 3, 3, {}},
      {1, 16, 1, 8, 8, 16, 1, 3, 3, {.padding = {0, 1, 1}}},
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const ConvCase& c : cases) {
      const auto& o = c.options;
      const Conv2dOptions options{.stride = {o.stride[1], o.stride[2]},
                                  .padding = {o.padding[1], o.padding[2]},
                                  .dilation = {o.dilation[1], o.dilation[2]},
                                  .groups = o.groups};
      const std::int64_t oh = outputs(c.h, c.kh, o, 1), ow = outputs(c.w, c.kw, o, 2);
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " case " << (&c - cases));
      expect_convolution(
          c, {{c.n, c.c, c.h, c.w}, {c.o, c.c / o.groups, c.kh, c.kw}, {c.n, c.o, oh, ow}},
          {c.n, c.o, 1, oh, ow}, dtype, device(),
          [&](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& y) {
            conv2d_forward(x, w, b, options, y);
          },
          [&](const Tensor& g, const Tensor& w, bool accumulate, const Tensor& to) {
            conv2d_backward_input(g, w, options, accumulate, to);
          },
          [&](const Tensor& g, const Tensor& x, bool accumulate, const Tensor& to) {
            conv2d_backward_weight(g, x, options, accumulate, to);
          });
    }
  }
}

TEST_P(MathOn, ConvolutionsOfVolumesEqualTheirDefinition) {
  const ConvCase cases[] = {
      {2, 2, 4, 5, 6, 3, 3, 3, 2, {.padding = {1, 0, 1}}},
      {1, 4, 5, 5, 5, 4, 2, 3, 3, {.stride = {2, 1, 2}, .padding = 1, .groups = 2}},
  };
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const ConvCase& c : cases) {
      const auto& o = c.options;
      const Shape y{c.n, c.o, outputs(c.d, c.kd, o, 0), outputs(c.h, c.kh, o, 1),
                    outputs(c.w, c.kw, o, 2)};
      SCOPED_TRACE(testing::Message() << name_of(dtype) << " case " << (&c - cases));
      expect_convolution(
          c, {{c.n, c.c, c.d, c.h, c.w}, {c.o, c.c / o.groups, c.kd, c.kh, c.kw}, y}, y, dtype,
          device(),
          [&](const Tensor& x, const Tensor& w, const Tensor& b, const Tensor& to) {
            conv3d_forward(x, w, b, o, to);
          },
          [&](const Tensor& g, const Tensor& w, bool accumulate, const Tensor& to) {
            conv3d_backward_input(g, w, o, accumulate, to);
          },
          [&](const Tensor& g, const Tensor& x, bool accumulate, const Tensor& to) {
            conv3d_backward_weight(g, x, o, accumulate, to);
          });
    }
  }
}

TEST_P(MathOn, OperandsThatDoNotFitAreRefused) {
  const Tensor half = Tensor::zeros({2, 2}, DType::bf16, device());
  const Tensor x = Tensor::zeros({2, 2}, DType::f32, device());
  const auto multiply = [&](const Tensor& a, const Tensor& b, const Tensor& bias, const Tensor& c) {
    EXPECT_EQ(test::message_of<ShapeError>([&] { linear_forward(a, b, bias, c); }),
              "linear multiplies " + describe(a) + " by " + describe(b) + " into " + describe(c) +
                  ": both operands have one dtype; the result and a bias have it too, or are both "
                  "f32 for operands of 16 bits");
  };
  multiply(half, x, {}, x);
  multiply(half, half, {}, half.to(DType::f16));
  multiply(x, x, {}, half);
  multiply(half, half, Tensor::zeros({2}, DType::f32, device()), half);
  EXPECT_EQ(
      test::message_of<ShapeError>([&] {
        math::product("test", {1, 1, 1, 4}, {half, 1, false, 0, 1}, {half, 1, false, 0, 1},
                      {half, 1});
      }),
      "test sums 4 products into " + describe(half) + ", which would round each: sum them in f32");
  if (device().type == DeviceType::host) return;
  EXPECT_EQ(test::message_of<ShapeError>([&] {
              matmul_forward(x, Tensor::zeros({2, 2}), x);
            }),
            "matmul on " + to_string(device()) +
                " meets f32[2, 2] on host: its tensors must be on one device; move this one there "
                "with to()");
  const Tensor image = Tensor::zeros({1, 1, 3, 3}, DType::f32, device());
  EXPECT_THROW(conv2d_forward(image, Tensor::zeros({1, 1, 1, 1}), {}, {}, image), ShapeError);
}

TEST_P(MathOn, AGpuRefusesTasksOfTheHost) {
  const Tensor x = Tensor::zeros({2, 4}, DType::f32, device());
  const auto task = [&] {
    host_task(
        "test", [](const HostArray&) {}, x);
  };
  if (!is_gpu()) return task();
  EXPECT_EQ(test::message_of<ShapeError>(task), "test has no kernel for a GPU, and got " +
                                                    describe(x) +
                                                    ": move its tensors to the host with to()");
}

TEST(GpuMath, ASteadyLoopMakesNoPlanAndAllocatesNothing) {
  const test::GpuStandIn gpu;
  const Device device{DeviceType::sim, 0};
  const Tensor x = Tensor::zeros({6, 10}, DType::f32, device);
  const Tensor w = Tensor::zeros({7, 10}, DType::f32, device), y = x.reshape({60}).clone();
  const Tensor image = Tensor::zeros({2, 1, 6, 5}, DType::f32, device);
  const Tensor kernel = Tensor::zeros({1, 1, 1, 1}, DType::f32, device);
  const auto step = [&] {
    linear_forward(x, w, {}, y.slice(0, 42).reshape({6, 7}));
    conv2d_forward(image, kernel, {}, {}, image.clone());
    current_stream(device).synchronize();
  };
  for (int i = 0; i < 3; ++i) step();
  const int plans = test::GpuStandIn::plans(), runs = test::GpuStandIn::runs();
  const auto before = memory_stats(device);
  for (int i = 0; i < 3; ++i) step();
  EXPECT_EQ(test::GpuStandIn::plans(), plans);
  EXPECT_EQ(test::GpuStandIn::runs(), runs + 6);
  EXPECT_EQ(memory_stats(device).system_allocations, before.system_allocations);
}

}  // namespace
}  // namespace lockstep
