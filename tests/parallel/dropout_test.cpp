// Dropout on several ranks: masks in a user's loop, and masks fixed by a context.
#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include "ranks.hpp"

namespace lockstep {
namespace {

class DropoutOnRanks : public testing::TestWithParam<int> {};

constexpr int steps = 5;

/// The elements that a rank's dropout keeps in each step, as text.
std::string masks_of_a_loop(nn::Module& model) {
  std::string masks;
  for (int step = 0; step < steps; ++step) {
    for (const float y : model(Variable(Tensor::full({4, 32}, 1.0))).data().to_vector<float>()) {
      masks += y == 0.0F ? '0' : '1';
    }
  }
  return masks;
}

/// Every rank's steps, each one mask.
std::set<std::string> distinct(const std::vector<std::string>& masks) {
  std::set<std::string> all;
  for (const auto& rank : masks) {
    const std::size_t size = rank.size() / steps;
    for (int s = 0; s < steps; ++s)
      all.insert(rank.substr(static_cast<std::size_t>(s) * size, size));
  }
  return all;
}

TEST_P(DropoutOnRanks, ALoopOfOnesOwnHasAnotherMaskOnEveryRankAndInEveryStep) {
  std::vector<std::string> first;
  for (int run = 0; run < 2; ++run) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      nn::manual_seed(1234);  // as in the documented loops: the same weights on every rank
      nn::Dropout dropout(0.5);
      const auto masks = all_gather_object(*group, masks_of_a_loop(dropout));
      EXPECT_EQ(distinct(masks).size(), static_cast<std::size_t>(group->size() * steps));
      if (group->rank() != 0) return;
      if (run == 0) first = masks;
      EXPECT_EQ(masks, first) << "manual_seed makes the run reproducible";
    });
  }
}

TEST_P(DropoutOnRanks, WeightsAreTheSameOnEveryRank) {
  test::on_ranks(GetParam(), [](const auto& group) {
    nn::manual_seed(1234);
    const nn::Linear layer(8, 8);
    const auto weight = layer.parameters()[0].data().to_vector<float>();
    const auto bytes = std::string(reinterpret_cast<const char*>(weight.data()), weight.size() * 4);
    EXPECT_TRUE(test::same_on_all_ranks(*group, bytes));
  });
}

TEST_P(DropoutOnRanks, UnderAContextASampleHasItsMaskWhateverRankComputesIt) {
  const auto mask = [](std::int64_t first, std::int64_t rows) {
    nn::manual_seed(1234);
    nn::Dropout dropout(0.5);
    const nn::RandomContextGuard guard({.seed = 7, .step = 3, .first_sample = first});
    return dropout(Variable(Tensor::full({rows, 32}, 1.0))).data();
  };
  test::on_ranks(GetParam(), [&](const auto& group) {
    constexpr std::int64_t rows = 3;
    const Tensor all = mask(0, rows * group->size());
    const std::int64_t mine = rows * group->rank();
    EXPECT_EQ(mask(mine, rows).template to_vector<float>(),
              all.slice(mine, mine + rows).template to_vector<float>());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DropoutOnRanks, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
