// docs/reference/numerics.md promises the same bits for any number of threads: convolutions in
// every direction, by every method that oneDNN or we have for them.
#include <gtest/gtest.h>

#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/precision.hpp>
#include <ostream>
#include <string>
#include <thread>
#include <vector>

namespace lockstep {
namespace {

/// x[n, c, h, w] with weight[o, c / groups, k, k].
struct Problem {
  const char* name;
  std::int64_t n, c, h, w, o, k;
  std::int64_t stride = 1, padding = 0, dilation = 1, groups = 1;
};

void PrintTo(const Problem& problem, std::ostream* os) { *os << problem.name; }

Tensor randomised(Tensor t, std::uint64_t seed) {
  auto* const values = static_cast<float*>(t.data());
  std::uint64_t state = seed;
  for (std::int64_t i = 0; i < t.numel(); ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
    values[i] = static_cast<float>(static_cast<std::int32_t>(state >> 32)) * 0x1p-31F;
  }
  return t;
}

Tensor random_tensor(const Shape& shape, std::uint64_t seed) {
  return randomised(Tensor::empty(shape, DType::f32), seed);
}

/// In channel blocks, if it fits and is to be held so.
Tensor random_image(const Shape& shape, bool in_blocks, std::uint64_t seed) {
  if (!in_blocks || !fits_channel_blocks(shape, DType::f32, {})) return random_tensor(shape, seed);
  return randomised(empty_channel_blocked(shape, DType::f32, {}), seed);
}

struct Results {
  std::vector<float> y, y_with_bias, grad_x, grad_weight, added_grad_weight, grad_bias;
};

/// In a thread of its own, which keeps nothing that was made for another number of math threads.
Results convolve(const Problem& p, bool in_blocks, Precision precision, int threads) {
  Results results;
  std::thread([&] {
    set_math_threads(threads);
    const PrecisionGuard guard(precision);
    const Conv2dOptions options{.stride = {p.stride, p.stride},
                                .padding = {p.padding, p.padding},
                                .dilation = {p.dilation, p.dilation},
                                .groups = p.groups};
    const auto out = [&](std::int64_t in) {
      return (in + 2 * p.padding - p.dilation * (p.k - 1) - 1) / p.stride + 1;
    };
    const Tensor x = random_image({p.n, p.c, p.h, p.w}, in_blocks, 1);
    const Tensor grad_y = random_image({p.n, p.o, out(p.h), out(p.w)}, in_blocks, 2);
    const Tensor weight = random_tensor({p.o, p.c / p.groups, p.k, p.k}, 3);
    const Tensor bias = random_tensor({p.o}, 4);
    Tensor y = Tensor::empty_like(grad_y);
    conv2d_forward(x, weight, {}, options, y);
    results.y = y.to_vector<float>();
    conv2d_forward(x, weight, bias, options, y);
    results.y_with_bias = y.to_vector<float>();
    Tensor grad_x = Tensor::empty_like(x);
    conv2d_backward_input(grad_y, weight, options, false, grad_x);
    results.grad_x = grad_x.to_vector<float>();
    Tensor grad_weight = Tensor::empty(weight.shape(), DType::f32);
    conv2d_backward_weight(grad_y, x, options, false, grad_weight);
    results.grad_weight = grad_weight.to_vector<float>();
    conv2d_backward_weight(grad_y, x, options, true, grad_weight);
    results.added_grad_weight = grad_weight.to_vector<float>();
    Tensor grad_bias = Tensor::empty(bias.shape(), DType::f32);
    conv2d_backward_bias(grad_y, false, grad_bias);
    results.grad_bias = grad_bias.to_vector<float>();
  }).join();
  return results;
}

class Conv2dThreads : public testing::TestWithParam<Problem> {};

TEST_P(Conv2dThreads, GiveTheSameBitsWhateverTheirNumber) {
  for (const int way : {0, 1, 2, 3}) {
    const bool in_blocks = way % 2 == 1;
    const Precision precision = way < 2 ? Precision::f32 : Precision::bf16;
    const Results one = convolve(GetParam(), in_blocks, precision, 1);
    for (const int threads : {2, 3, 5}) {
      SCOPED_TRACE(std::to_string(threads) + " threads" + (in_blocks ? ", in channel blocks" : "") +
                   (precision == Precision::bf16 ? ", bf16" : ""));
      const Results several = convolve(GetParam(), in_blocks, precision, threads);
      // Not EXPECT_EQ, which would print them.
      EXPECT_TRUE(several.y == one.y);
      EXPECT_TRUE(several.y_with_bias == one.y_with_bias);
      EXPECT_TRUE(several.grad_x == one.grad_x);
      EXPECT_TRUE(several.grad_weight == one.grad_weight);
      EXPECT_TRUE(several.added_grad_weight == one.added_grad_weight);
      EXPECT_TRUE(several.grad_bias == one.grad_bias);
    }
  }
}

// Where oneDNN divides the work as it likes, most of them differ in one direction or more: outputs
// of Winograd's and of the convolutions by matrix products, weight gradients of all.
INSTANTIATE_TEST_SUITE_P(
    Shapes, Conv2dThreads,
    testing::Values(
        // name, n, c, h, w, o, k, stride, padding, dilation, groups
        Problem{"winograd_outputs_of_256_channels", 2, 64, 16, 16, 256, 3, 1, 1},
        Problem{"winograd_from_256_channels", 8, 256, 16, 7, 128, 3, 1, 1},
        Problem{"winograd_weights", 64, 65, 16, 2, 64, 3, 1, 1},
        Problem{"winograd_weights_of_one_tile", 64, 128, 4, 4, 128, 3, 1, 1},
        Problem{"direct", 7, 32, 13, 13, 48, 3, 1, 1},
        Problem{"direct_stride_2", 7, 64, 9, 9, 16, 3, 2, 1},
        Problem{"direct_dilated", 5, 16, 11, 12, 32, 3, 1, 2, 2},
        Problem{"direct_of_one_sample", 1, 17, 32, 32, 3, 3, 1, 1},
        Problem{"direct_5_x_5", 3, 16, 12, 12, 16, 5, 1, 2},
        Problem{"direct_of_3_channels", 16, 3, 16, 16, 64, 7, 2, 3},
        Problem{"of_one_channel", 7, 1, 14, 14, 8, 3, 1, 1},
        Problem{"of_a_row", 3, 8, 1, 64, 10, 3, 1, 1}, Problem{"pointwise", 5, 64, 7, 7, 128, 1},
        Problem{"pointwise_stride_2", 16, 64, 14, 14, 64, 1, 2},
        Problem{"pointwise_of_few_channels", 5, 17, 9, 9, 4, 1},
        Problem{"depthwise", 5, 32, 9, 9, 32, 3, 1, 1, 1, 32},
        Problem{"depthwise_stride_2", 8, 16, 8, 8, 16, 3, 2, 1, 1, 16},
        Problem{"groups_of_few_channels", 8, 8, 3, 3, 20, 3, 2, 2, 1, 4},
        Problem{"groups_of_many_channels", 4, 64, 8, 8, 64, 3, 1, 1, 1, 4},
        Problem{"matrix_product_of_long_sums", 3, 512, 2, 2, 10, 7, 1, 3},
        Problem{"matrix_product_of_one_position", 2, 64, 1, 1, 2, 7, 2, 3},
        Problem{"matrix_product_with_padding", 7, 10, 13, 28, 256, 1, 1, 1},
        Problem{"matrix_product_of_many_outputs", 5, 48, 4, 4, 512, 3, 2}),
    [](const auto& test) { return std::string(test.param.name); });

}  // namespace
}  // namespace lockstep
