// Operations whose kernels store bf16 and f16: neither they nor the graph hold f32 copies. Their
// accuracy is narrow_test's.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string_view>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/tensor/storage.hpp>

#include "operations/operations.hpp"

namespace lockstep::test {
namespace {

/// Their names in operations/.
const std::set<std::string_view> native_operations = {
    // elementwise
    "relu", "gelu_exact", "gelu_tanh", "silu", "sigmoid", "tanh", "leaky_relu", "elu", "softplus",
    "mish", "exp", "erfc", "sin_cos", "log_sqrt", "pow", "clamp",
    // arithmetic, copies and sums
    "add_same", "add_row", "sub_channel", "mul_column", "mul_both", "div_row", "numbers",
    "div_number", "number_div", "where", "masked_fill", "glu", "dropout", "dropout2d", "flatten",
    "transpose_last", "transpose_heads", "permute", "narrow", "concat", "sum_all", "sum_leading",
    "mean_last", "mean_outer_and_inner",
    // rows
    "layer_norm", "layer_norm_odd", "rms_norm", "softmax_rows", "softmax_columns",
    "log_softmax_rows", "log_softmax", "nll_loss", "cross_entropy", "embedding",
    // images
    "batch_norm", "batch_norm_without_affine_or_running_statistics", "batch_norm_rows",
    "batch_norm_residual_relu", "group_norm", "instance_norm", "max_pool2d_2x2", "max_pool2d_3x3",
    "avg_pool2d", "adaptive_avg_pool2d"};

/// The most bytes that f() has in use at a time.
template <class F>
std::int64_t peak_bytes(const F& f) {
  const MemoryStats before = memory_stats();
  const auto below_the_peak = static_cast<std::size_t>(before.peak_in_use - before.in_use);
  const IntrusivePtr<Storage> filling = Storage::allocate_uncached(below_the_peak + 64);
  const std::int64_t in_use = memory_stats().in_use;
  f();
  return memory_stats().peak_in_use - in_use;
}

struct Pass {
  DType result;
  std::int64_t peak;
};

/// Forward and backward. Inputs are results, as activations are: gradients of leaves may have f32
/// memory, so that operations see f32 copies of them.
Pass pass(const Operation& operation, DType dtype) {
  const Inputs leaves = make_inputs(operation, dtype == DType::f32 ? DType::f64 : DType::f32);
  Pass found{};
  for (int round = 0; round < 2; ++round) {  // the first makes the leaves' gradients
    Inputs inputs;
    for (const Variable& leaf : leaves) {
      leaf.zero_grad();
      inputs.push_back(to(leaf, dtype));
    }
    const Tensor y = operation.apply(inputs).data();
    const Tensor upstream = Tensor::full(y.shape(), 1.0, y.dtype());
    found.result = y.dtype();
    found.peak = peak_bytes([&] {
      const Variable result = operation.apply(inputs);
      backward(std::span(&result, 1), std::span(&upstream, 1));
    });
  }
  return found;
}

TEST(Native, OperationsKeepTheTypeAndTakeLittleMoreThanHalfTheMemoryOfF32) {
  std::size_t found = 0;
  for (const Operation& operation : all_operations()) {
    if (!native_operations.contains(operation.name)) continue;
    ++found;
    const std::int64_t of_f32 = pass(operation, DType::f32).peak;
    for (const DType dtype : {DType::bf16, DType::f16}) {
      SCOPED_TRACE(std::string(operation.name) + " of " + std::string(name_of(dtype)));
      const Pass of_16_bits = pass(operation, dtype);
      EXPECT_EQ(of_16_bits.result, dtype);
      // Parameters and statistics remain in f32. A copy of an input or a gradient is above this.
      EXPECT_LT(of_16_bits.peak, of_f32 * 3 / 4);
    }
  }
  EXPECT_EQ(found, native_operations.size());
}

TEST(Native, AnEmbeddingReadsATableInItsTypeAndItsGradientIsRoundedOnce) {
  const std::int64_t uses = 300;  // a sum of ones in bf16 would end at 256
  const Tensor index = Tensor::full({uses}, 7, DType::i64);
  for (const DType gradient : {DType::bf16, DType::f32}) {
    const Variable table(Tensor::full({5000, 8}, 1.0, DType::bf16), true);
    table.set_grad_buffer(Tensor::empty(table.shape(), gradient));
    const std::int64_t peak =
        peak_bytes([&] { EXPECT_EQ(embedding(index, table).data().dtype(), DType::bf16); });
    EXPECT_LT(peak, static_cast<std::int64_t>(table.data().bytes()));
    const Variable y = embedding(index, table);
    const Tensor upstream = Tensor::full(y.shape(), 1.0, DType::bf16);
    backward(std::span(&y, 1), std::span(&upstream, 1));
    EXPECT_EQ(table.grad().dtype(), gradient);
    EXPECT_EQ(table.grad()[7].to(DType::f32).to_vector<float>(), std::vector<float>(8, 300.0F));
    EXPECT_EQ(table.grad()[6].to(DType::f32).to_vector<float>(), std::vector<float>(8, 0.0F));
  }
}

}  // namespace
}  // namespace lockstep::test
