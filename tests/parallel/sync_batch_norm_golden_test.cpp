#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

#include "asked_for_device.hpp"
#include "ranks.hpp"

// ddp.h5, sync_batch_norm: ranks with different numbers of samples.

namespace lockstep {
namespace {

/// A reference of the file, and its tolerance.
struct Reference {
  Tensor value;
  double tolerance;
};

/// Numbers for each rank of the file's world, one after the other where a rank here takes several.
struct Shares {
  std::vector<Tensor> x, grad_out;
  std::vector<Reference> out, grad_x, grad_weight, grad_bias;
};

/// The case, read once: HDF5 must not be called from several threads.
struct SyncBatchNormCase {
  SyncBatchNormCase() {
    const test::GoldenFile file("ddp.h5");
    const std::string at = "sync_batch_norm/";
    const auto reference = [&](const std::string& name) {
      const std::string path = at + name + "_f64";
      return Reference{file.tensor(path), file.tolerance(path)};
    };
    world = static_cast<int>(file.number("sync_batch_norm", "world"));
    eps = file.number("sync_batch_norm", "eps");
    momentum = file.number("sync_batch_norm", "momentum");
    count = file.number("sync_batch_norm", "count");
    for (int r = 0; r < world; ++r) {
      const std::string rank = "_rank" + std::to_string(r);
      shares.x.push_back(file.tensor(at + "x" + rank).to(test::asked_for_device()));
      shares.grad_out.push_back(file.tensor(at + "grad_out" + rank).to(test::asked_for_device()));
      shares.out.push_back(reference("out" + rank));
      shares.grad_x.push_back(reference("grad_x" + rank));
      shares.grad_weight.push_back(reference("grad_weight" + rank));
      shares.grad_bias.push_back(reference("grad_bias" + rank));
    }
    for (const char* name : {"weight", "bias", "running_mean", "running_var"}) {
      start.insert(name, file.tensor(at + name).to(test::asked_for_device()));
    }
    start.insert("num_batches_tracked", Tensor::zeros({}, DType::i64));
    mean = reference("mean");
    var_biased = reference("var_biased");
    running_mean_after = reference("running_mean_after");
    running_var_after = reference("running_var_after");
    grad_weight_sum = reference("grad_weight_sum");
    grad_bias_sum = reference("grad_bias_sum");
    unread = file.unread("sync_batch_norm");
  }

  int world = 0;
  double eps = 0, momentum = 0, count = 0;
  Shares shares;
  StateDict start;
  Reference mean, var_biased, running_mean_after, running_var_after;
  Reference grad_weight_sum, grad_bias_sum;
  std::vector<std::string> unread;
};

/// Rank r of a group takes share r of the file's world; the last rank takes all that remain, and
/// ranks beyond the file's world get nothing.
std::pair<std::size_t, std::size_t> shares_of(int world, int rank, int size) {
  const int begin = std::min(rank, world);
  return {static_cast<std::size_t>(begin),
          static_cast<std::size_t>(rank == size - 1 ? world : std::min(rank + 1, world))};
}

Tensor join_rows(const std::vector<Tensor>& parts) {
  std::vector<Variable> rows;
  rows.reserve(parts.size());
  for (const Tensor& part : parts) rows.emplace_back(part);
  return concat(rows, 0).data();
}

/// Tensors and references have one shape, or `actual` holds the rows of all.
void expect_rows(const Tensor& actual, const std::vector<Reference>& all, std::size_t begin,
                 std::size_t end, const char* what) {
  std::int64_t row = 0;
  for (std::size_t s = begin; s < end; ++s) {
    const std::int64_t rows = all[s].value.size(0);
    EXPECT_LE(test::max_difference(actual.slice(row, row + rows).to(DType::f64), all[s].value),
              all[s].tolerance)
        << what << " of share " << s;
    row += rows;
  }
  EXPECT_EQ(actual.size(0), row);
}

/// This rank's part of a sum over samples is that of its shares.
void expect_part(const Tensor& actual, const std::vector<Reference>& all, std::size_t begin,
                 std::size_t end, const char* what) {
  std::vector<double> sum(static_cast<std::size_t>(actual.numel()));
  double tolerance = 0;
  for (std::size_t s = begin; s < end; ++s) {
    const auto part = all[s].value.to_vector<double>();
    for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += part[c];
    tolerance += all[s].tolerance;
  }
  EXPECT_LE(test::max_difference(actual.to(DType::f64), Tensor::from(sum, actual.shape())),
            tolerance)
      << what;
}

void expect_near_reference(const Tensor& actual, const Reference& reference, const char* what) {
  EXPECT_LE(test::max_difference(actual.to(DType::f64), reference.value), reference.tolerance)
      << what;
}

class SyncBatchNormGolden : public testing::TestWithParam<int> {};

TEST_P(SyncBatchNormGolden, EveryNumberOfTheFileIsMet) {
  const SyncBatchNormCase golden;
  ASSERT_GE(golden.world, 1);
  EXPECT_EQ(golden.unread, std::vector<std::string>{});
  test::on_ranks(GetParam(), [&](const auto& group) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      const nn::DTypeGuard guard(dtype);
      const auto [begin, end] = shares_of(golden.world, group->rank(), group->size());
      const auto rows = [&](const std::vector<Tensor>& parts) {
        if (begin == end) return parts[0].slice(0, 0).to(dtype);
        return join_rows({parts.begin() + static_cast<std::ptrdiff_t>(begin),
                          parts.begin() + static_cast<std::ptrdiff_t>(end)})
            .to(dtype);
      };
      const std::int64_t features = golden.start.at("weight").size(0);
      StateDict start;
      for (const auto& entry : golden.start) {
        const bool floating = entry.tensor.dtype() == DType::f32;
        start.insert(entry.name, floating ? entry.tensor.to(dtype) : entry.tensor);
      }
      SyncBatchNorm layer(features, *group, {.eps = golden.eps, .momentum = golden.momentum});
      layer.load_state_dict(start);

      const Variable x(rows(golden.shares.x), true);
      const Variable y = layer(x);
      sum(y * Variable(rows(golden.shares.grad_out))).backward();
      expect_rows(y.data(), golden.shares.out, begin, end, "out");
      expect_rows(x.grad(), golden.shares.grad_x, begin, end, "grad_x");
      const Tensor weight = layer.parameters()[0].grad(), bias = layer.parameters()[1].grad();
      expect_part(weight, golden.shares.grad_weight, begin, end, "grad_weight");
      expect_part(bias, golden.shares.grad_bias, begin, end, "grad_bias");
      for (const Tensor& part : {weight, bias}) group->all_reduce(part, ReduceOp::sum).wait();
      expect_near_reference(weight, golden.grad_weight_sum, "grad_weight_sum");
      expect_near_reference(bias, golden.grad_bias_sum, "grad_bias_sum");
      const StateDict state = layer.state_dict();
      expect_near_reference(state.at("running_mean"), golden.running_mean_after, "running_mean");
      expect_near_reference(state.at("running_var"), golden.running_var_after, "running_var");

      // With a momentum of 1 the running statistics are the batch's, the variance unbiased.
      SyncBatchNorm forgetful(features, *group, {.eps = golden.eps, .momentum = 1.0});
      static_cast<void>(forgetful(x));
      const StateDict batch = forgetful.state_dict();
      expect_near_reference(batch.at("running_mean"), golden.mean, "mean");
      auto variance = batch.at("running_var").to(DType::f64).template to_vector<double>();
      for (double& value : variance) value *= (golden.count - 1) / golden.count;
      expect_near_reference(Tensor::from(variance, {std::ssize(variance)}), golden.var_biased,
                            "var_biased");
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SyncBatchNormGolden, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
