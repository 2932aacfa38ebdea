#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/comm/objects.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

// ddp.h5, weighted_mean: ranks with different numbers of samples, one with none.

namespace lockstep {
namespace {

using test::Batch;

constexpr std::array names{"W1", "b1", "W2", "b2"};

/// The case, read once: HDF5 must not be called from several threads.
struct Case {
  Case() {
    const test::GoldenFile file("ddp.h5");
    whole = {file.tensor("weighted_mean/x").to(test::asked_for_device()),
             file.tensor("weighted_mean/target").to(test::asked_for_device())};
    for (const double count : file.numbers("weighted_mean", "counts")) {
      bounds.push_back(bounds.back() + static_cast<std::int64_t>(count));
    }
    for (const std::string name : names) {
      const std::string path = "weighted_mean/global_grad/" + name + "_f64";
      parameters.push_back(file.tensor("weighted_mean/param/" + name));
      gradients.push_back(file.tensor(path));
      tolerances.push_back(file.tolerance(path));
    }
    loss = file.tensor("weighted_mean/global_loss_f64").item();
    loss_tolerance = file.tolerance("weighted_mean/global_loss_f64");
    unread = file.unread("weighted_mean/global_grad");
  }
  Batch whole;
  std::vector<std::int64_t> bounds{0};  ///< first row of every share, and the end of the last
  std::vector<Tensor> parameters, gradients;
  std::vector<double> tolerances;
  std::vector<std::string> unread;
  double loss = 0, loss_tolerance = 0;
};

/// The file's network: fc2(tanh(fc1(x))).
struct GoldenMlp : nn::Module {
  explicit GoldenMlp(const Case& golden) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      parts.push_back(
          register_parameter(names[i], golden.parameters[i].clone().to(test::asked_for_device())));
    }
  }
  Variable forward(const Variable& x) override {
    return linear(test::tanh(linear(x, parts[0], parts[1])), parts[2], parts[3]);
  }
  std::vector<Variable> parts;
};

/// Rank r of a group takes share r of the file's world; the last rank takes all that remain, and
/// ranks beyond the file's world get nothing.
Batch share_of(const Batch& whole, const std::vector<std::int64_t>& bounds, int rank, int size) {
  const auto shares = static_cast<int>(bounds.size()) - 1;
  const auto at = [&](int i) { return bounds[static_cast<std::size_t>(std::min(i, shares))]; };
  return whole.rows(at(rank), rank == size - 1 ? whole.rows() : at(rank + 1));
}

class DdpGolden : public testing::TestWithParam<int> {};

TEST_P(DdpGolden, WeightedMeanIsTheGradientOfTheGlobalBatch) {
  const Case golden;
  const Batch& whole = golden.whole;
  ASSERT_EQ(golden.bounds.back(), whole.rows());
  EXPECT_EQ(golden.unread, std::vector<std::string>{});

  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<GoldenMlp>(golden);
    DistributedDataParallel ddp(model, group, {.buckets = {64, 128}});
    const Batch share = share_of(whole, golden.bounds, group->rank(), group->size());
    const double weight = static_cast<double>(share.rows()) / static_cast<double>(whole.rows());
    const Variable mean = test::mean_loss(ddp, share);
    const double part = mean.defined() ? weight * mean.data().item() : 0.0;
    EXPECT_LE(std::abs(all_reduce_scalar(*group, part, ReduceOp::sum) - golden.loss),
              golden.loss_tolerance);
    ddp.backward(mean, weight);
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor gradient = model->parts[i].grad().to(DType::f64);
      EXPECT_LE(test::max_difference(gradient, golden.gradients[i]), golden.tolerances[i])
          << names[i] << " on rank " << group->rank();
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpGolden, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
