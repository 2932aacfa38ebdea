// What a GPU's libraries are told: computed without one.
#include <cstdint>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/conv_device.hpp>
#include <lockstep/tensor/kernels/sequence/attention_fused.hpp>
#include <lockstep/tensor/kernels/sequence/attention_products.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/tf32.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using math::column_major;
using math::ColumnMajorProduct;
using math::Convolution;
using math::ConvolutionPass;
using test::message_of;

TEST(ColumnMajor, OperandsAreSwapped) {
  const Tensor a = Tensor::zeros({4, 5}), b = Tensor::zeros({5, 6}), c = Tensor::zeros({4, 6});
  const ColumnMajorProduct p = column_major("linear", {4, 6, 5}, {a, 5}, {b, 6}, {c, 6});
  EXPECT_EQ(p.rows, 6);
  EXPECT_EQ(p.columns, 4);
  EXPECT_EQ(p.terms, 5);
  EXPECT_EQ(p.count, 1);
  EXPECT_EQ(p.left.stride, 6);
  EXPECT_EQ(p.right.stride, 5);
  EXPECT_EQ(p.result.stride, 6);
  EXPECT_FALSE(p.left.transposed || p.right.transposed || p.accumulate);
  EXPECT_EQ(p.epilogue, math::Epilogue::none);
  EXPECT_EQ(describe(p), "c[4, 6] = a[4, 5] b[5, 6] of f32");
}

TEST(ColumnMajor, ATransposedOperandStaysTransposed) {
  const Tensor a = Tensor::zeros({5, 4}, DType::bf16), b = Tensor::zeros({6, 5}, DType::bf16);
  const Tensor c = Tensor::zeros({3, 4, 6}), bias = Tensor::zeros({6});
  const ColumnMajorProduct p = column_major("linear", {4, 6, 5, 3}, {a, 4, true}, {b, 5, true},
                                            {c, 6, false, 0, 24}, math::Epilogue::add_bias, bias);
  EXPECT_TRUE(p.left.transposed);
  EXPECT_TRUE(p.right.transposed);
  EXPECT_EQ(p.left.stride, 5);
  EXPECT_EQ(p.right.stride, 4);
  EXPECT_EQ(p.result.batch, 24);
  EXPECT_EQ(p.operands, DType::bf16);
  EXPECT_EQ(p.sums, DType::f32);
  EXPECT_EQ(p.results, DType::f32);
  EXPECT_EQ(describe(p), "c[4, 6] = a[5, 4]^T b[6, 5]^T + bias of bf16, sums in f32, 3 times");
}

TEST(ColumnMajor, SumsOfRowsOfTheFirstOperandAreOfTheRightMatrix) {
  const Tensor g = Tensor::zeros({5, 4}, DType::bf16), x = Tensor::zeros({5, 6}, DType::bf16);
  const Tensor weight = Tensor::zeros({4, 6}), bias = Tensor::zeros({4});
  const ColumnMajorProduct p = column_major("linear", {4, 6, 5}, {g, 4, true}, {x, 6}, {weight, 6},
                                            math::Epilogue::sum_right, bias.slice(1, 4));
  EXPECT_EQ(p.epilogue, math::Epilogue::sum_right);
  EXPECT_EQ(p.columns, 4);  // as many as the right matrix has
  EXPECT_EQ(p.vector_alignment, 4);
  EXPECT_EQ(describe(p), "c[4, 6] = a[5, 4]^T b[5, 6] of bf16, sums in f32, with sums of a's rows");
}

TEST(ColumnMajor, AResultOf16BitsHasSumsInF32) {
  const Tensor x = Tensor::zeros({64}, DType::f16);
  const math::Matrices m{x, 8};
  const ColumnMajorProduct p = column_major("test", {4, 4, 4}, m, m, m);
  EXPECT_EQ(p.sums, DType::f32);
  EXPECT_EQ(p.results, DType::f16);
  EXPECT_EQ(describe(p), "c[4, 4] = a[4, 4] b[4, 4] of f16, sums in f32, rounded to f16");
}

TEST(ColumnMajor, AlignmentHoldsForEveryMatrix) {
  const Tensor memory = Tensor::zeros({4096});
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const auto up = static_cast<std::int64_t>((256 - begin % 256) % 256 / sizeof(float));
  const auto alignment = [&](std::int64_t offset, std::int64_t batch) {
    const math::Matrices m{memory, 8, false, up + offset, batch};
    return column_major("test", {8, 8, 8, 2}, m, m, m).left.alignment;
  };
  EXPECT_EQ(alignment(0, 0), 256);
  EXPECT_EQ(alignment(0, 64), 256);
  EXPECT_EQ(alignment(4, 64), 16);
  EXPECT_EQ(alignment(64, 65), 4);
  EXPECT_EQ(alignment(1, 0), 4);
}

TEST(ColumnMajor, TheStrideOfOneRowHoldsIt) {
  const Tensor x = Tensor::zeros({64});
  const ColumnMajorProduct p = column_major("test", {1, 4, 8}, {x, 1}, {x, 4}, {x, 1});
  EXPECT_EQ(p.right.stride, 8);
  EXPECT_EQ(p.result.stride, 4);
}

TEST(ColumnMajor, ProblemsWithOtherOptionsDiffer) {
  const Tensor x = Tensor::zeros({64});
  const math::Matrices m{x, 8};
  const ColumnMajorProduct p = column_major("test", {4, 4, 4}, m, m, m);
  EXPECT_EQ(p, column_major("other", {4, 4, 4}, m, m, m));
  EXPECT_NE(p, column_major("test", {.m = 4, .n = 4, .k = 4, .accumulate = true}, m, m, m));
  EXPECT_NE(p, column_major("test", {4, 4, 4}, {x, 8, true}, m, m));
  EXPECT_NE(p, column_major("test", {4, 4, 4}, {x, 8, false, 1}, m, m));  // another alignment
  const auto with = [&](math::Epilogue epilogue) {
    return column_major("test", {4, 4, 4}, m, m, m, epilogue, x.slice(0, 4));
  };
  EXPECT_NE(p, with(math::Epilogue::add_bias));
  EXPECT_NE(with(math::Epilogue::add_bias), with(math::Epilogue::sum_right));
  allow_tf32(true);
  const ColumnMajorProduct in_tf32 = column_major("test", {4, 4, 4}, m, m, m);
  allow_tf32(false);
  EXPECT_NE(p, in_tf32);
  EXPECT_EQ(describe(in_tf32), "c[4, 4] = a[4, 4] b[4, 4] of f32, in TF32");
}

TEST(ColumnMajor, ExtentsFrom2To31OnAreRefused) {
  const std::int64_t large = std::int64_t{1} << 31U;
  const Tensor x = Tensor::zeros({1});
  EXPECT_EQ(column_major("test", {large - 1, 1, 1}, {x, 1}, {x, 1}, {x, 1}).columns, large - 1);
  EXPECT_EQ(message_of<ShapeError>([&] {
              static_cast<void>(column_major("matmul", {large, 1, 2}, {x, 2}, {x, 1}, {x, 1}));
            }),
            "matmul: c[2147483648, 1] = a[2147483648, 2] b[2, 1] of f32: a GPU's libraries take "
            "extents and row strides below 2^31; compute it in parts");
  EXPECT_THROW(static_cast<void>(column_major("test", {2, 1, 1}, {x, large}, {x, 1}, {x, 1})),
               ShapeError);
  EXPECT_THROW(static_cast<void>(column_major("test", {1, 1, 1, large}, {x, 1}, {x, 1}, {x, 1})),
               ShapeError);
}

detail::Conv2dProblem image_problem() {
  return {.n = 8,
          .c = 4,
          .h = 32,
          .w = 30,
          .o = 6,
          .kh = 3,
          .kw = 5,
          .oh = 16,
          .ow = 26,
          .options = {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2}};
}

TEST(ConvolutionDescription, DescribesImages) {
  const Convolution c =
      convolution_of(image_problem(), ConvolutionPass::backward_weight, DType::f32, 7);
  EXPECT_EQ(c.dims, 2);
  EXPECT_EQ(c.x, (std::array<int, 5>{7, 4, 32, 30, 0}));
  EXPECT_EQ(c.x_strides, (std::array<int, 5>{4 * 32 * 30, 32 * 30, 30, 1, 0}));
  EXPECT_EQ(c.y, (std::array<int, 5>{7, 6, 16, 26, 0}));
  EXPECT_EQ(c.weight, (std::array<int, 5>{6, 2, 3, 5, 0}));
  EXPECT_EQ(describe(c),
            "backward_weight of x[7, 4, 32, 30], weight[6, 2, 3, 5] and y[7, 6, 16, 26] of f32, "
            "stride 2 x 1, padding 1 x 2, dilation 1 x 2, 2 groups");
}

TEST(ConvolutionDescription, DescribesVolumes) {
  detail::Conv2dProblem p{
      .n = 1, .c = 2, .h = 5, .w = 6, .o = 3, .kh = 3, .kw = 3, .oh = 3, .ow = 4};
  p.is_3d = true;
  p.depth = {.d = 7, .kd = 2, .od = 4, .stride = 2, .padding = 1, .dilation = 1};
  const Convolution c = convolution_of(p, ConvolutionPass::forward, DType::f64, 1);
  EXPECT_EQ(c.x_strides, (std::array<int, 5>{420, 210, 30, 6, 1}));
  EXPECT_EQ(describe(c),
            "forward of x[1, 2, 7, 5, 6], weight[3, 2, 2, 3, 3] and y[1, 3, 4, 3, 4] of f64, "
            "stride 2 x 1 x 1, padding 1 x 0 x 0, dilation 1 x 1 x 1, 1 group");
}

TEST(ConvolutionDescription, KnowsWhetherOperandsAreRounded) {
  const auto rounded = [](DType dtype) {
    return convolution_of(image_problem(), ConvolutionPass::forward, dtype, 1).rounded;
  };
  EXPECT_FALSE(rounded(DType::f32));
  const PrecisionGuard bf16(Precision::bf16);
  EXPECT_TRUE(rounded(DType::f32));
  EXPECT_FALSE(rounded(DType::f64));
}

TEST(ConvolutionDescription, KnowsWhetherTf32MayRoundOperands) {
  const auto describe_in = [](DType dtype) {
    const Convolution c = convolution_of(image_problem(), ConvolutionPass::forward, dtype, 1);
    EXPECT_EQ(describe(c).find(" in TF32, stride") != std::string::npos, c.tf32);
    return c.tf32;
  };
  EXPECT_FALSE(describe_in(DType::f32));
  allow_tf32(true);
  EXPECT_TRUE(describe_in(DType::f32));
  EXPECT_FALSE(describe_in(DType::f64));
  {
    const PrecisionGuard bf16(Precision::bf16);
    EXPECT_FALSE(describe_in(DType::f32));
  }
  allow_tf32(false);
}

TEST(ConvolutionDescription, ACallTakesAsManySamplesAsAnIntCounts) {
  detail::Conv2dProblem p = image_problem();
  EXPECT_EQ(samples_a_call(p), 8);
  p.n = 3'000'000;
  const std::int64_t together = samples_a_call(p);
  EXPECT_EQ(together, std::numeric_limits<std::int32_t>::max() / (4 * 32 * 30));
  static_cast<void>(convolution_of(p, ConvolutionPass::forward, DType::f32, together));
  EXPECT_EQ(
      message_of<ShapeError>([&] {
        static_cast<void>(convolution_of(p, ConvolutionPass::forward, DType::f32, together + 1));
      }),
      "conv2d: 2147485440 is above a GPU library's largest index (2^31 - 1)");
}

TEST(AttentionDescription, TellsSizesAndType) {
  math::Attention a{.batch = 2, .heads = 12, .queries = 1024, .keys = 1024, .width = 64};
  a.causal = true;
  EXPECT_EQ(describe(a), "forward of q[2, 12, 1024, 64] to 1024 keys of bf16, causal");
  a.key_bias_row = 1024;
  EXPECT_EQ(describe(a),
            "forward of q[2, 12, 1024, 64] to 1024 keys of bf16, causal, with a key bias");
  a.group_heads = 3;
  EXPECT_EQ(
      describe(a),
      "forward of q[2, 12, 1024, 64] to 1024 keys in 4 heads of bf16, causal, with a key bias");
  a.group_heads = 12;
  EXPECT_NE(describe(a).find("1024 keys in 1 head of bf16"), std::string::npos);
  math::Attention other{.pass = math::AttentionPass::backward, .dtype = DType::f16};
  other.batch = other.heads = other.queries = other.keys = other.width = 1;
  EXPECT_EQ(describe(other), "backward of q[1, 1, 1, 1] to 1 key of f16");
}

TEST(AttentionParts, OfAFusedBackwardHoldTwoToThe30Scores) {
  AttentionPlan plan{.batch = 256, .heads = 12, .queries = 1024, .keys = 1024, .width = 64};
  EXPECT_EQ(detail::samples_a_backward(plan), 85);
  plan.batch = 3;
  EXPECT_EQ(detail::samples_a_backward(plan), 3);
  plan.queries = 1'000'000;
  EXPECT_EQ(detail::samples_a_backward(plan), 1);
}

TEST(AttentionParts, HoldTwoToThe26Scores) {
  AttentionPlan plan{.batch = 64, .heads = 12, .queries = 1024, .keys = 1024, .width = 64};
  EXPECT_EQ(detail::samples_at_a_time(plan), 5);
  plan.batch = 3;
  EXPECT_EQ(detail::samples_at_a_time(plan), 3);
  plan.queries = 1'000'000;
  EXPECT_EQ(detail::samples_at_a_time(plan), 1);
  plan.queries = 0;
  EXPECT_EQ(detail::samples_at_a_time(plan), 3);
}

}  // namespace
}  // namespace lockstep
