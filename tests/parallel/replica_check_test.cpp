// Replicas with different bits: the deviating rank and the difference.
#include <cstring>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/replica_check.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

/// Flips the lowest bit of the tensor's last byte: the smallest change in any dtype.
void flip_a_bit(const Tensor& tensor) {
  const Tensor copy = tensor.to(Device{}).clone();
  static_cast<std::uint8_t*>(copy.data())[copy.bytes() - 1] ^= 1U;
  tensor.copy_from(copy);
}

/// Weights and Adam's state as after some training: equal on all ranks, no two tensors alike.
StateDict trained_state() {
  StateDict state;
  for (const char* name : {"fc1.weight", "fc1.bias", "fc2.weight", "fc1.weight/exp_avg"}) {
    state.insert(name, test::wave({5, 7}, 0.1 + 0.2 * static_cast<double>(state.size())));
  }
  state.insert("fc1.weight/step", Tensor::from(std::vector<std::int64_t>{12}, {}));
  return state;
}

std::vector<int> all_of(const ProcessGroup& group) {
  std::vector<int> ranks(static_cast<std::size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

TEST(ReplicaCheck, EqualReplicasPassAndAFlippedBitIsFoundWhereverItIs) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      const StateDict state = trained_state();
      ReplicaCheck check(group, state);
      for (const auto& [name, tensor, placement] : state) {
        EXPECT_FALSE(check.compare());
        const int faulty = ranks - 1;
        if (group->rank() == faulty) flip_a_bit(tensor);
        const auto found = check.compare();
        if (group->rank() == faulty) flip_a_bit(tensor);
        if (ranks == 1) {
          EXPECT_FALSE(found) << "nobody to compare with";
          continue;
        }
        ASSERT_TRUE(found) << name;
        EXPECT_EQ(found->first, name);
        EXPECT_EQ(found->differ, 1U);
        EXPECT_EQ(found->has_majority, ranks > 2);
        EXPECT_EQ(found->ranks, ranks > 2 ? std::vector{faulty} : all_of(*group));
        EXPECT_NE(found->text.find(name), std::string::npos) << found->text;
        EXPECT_TRUE(test::same_on_all_ranks(*group, found->text)) << found->text;
      }
    });
  }
}

TEST(ReplicaCheck, SentenceNamesRanksTensorsAndWhetherThereIsAMajority) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 2) continue;
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      const StateDict state = trained_state();
      ReplicaCheck check(group, state);
      if (group->rank() == 0) {
        flip_a_bit(state.at("fc2.weight"));
        flip_a_bit(state.at("fc1.weight/exp_avg"));
      }
      const auto found = check.compare();
      ASSERT_TRUE(found);
      EXPECT_EQ(found->first, "fc2.weight");
      EXPECT_EQ(found->differ, 2U);
      const auto says = [&](const std::string& words) {
        return found->text.find(words) != std::string::npos;
      };
      EXPECT_TRUE(says("in 2 of 5 tensors, the first of them fc2.weight")) << found->text;
      EXPECT_TRUE(ranks == 2 ? says("ranks 0 (") && says(" and 1 (") && says("no majority")
                             : says("rank 0 (") && says("has other bits than the other"))
          << found->text;
    });
  }
}

TEST(ReplicaCheck, TwoFaultyRanksAreBothNamedAndHalvesAreNoMajority) {
  for (const int ranks : test::rank_counts()) {
    if (ranks < 3) continue;
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      const StateDict state = trained_state();
      ReplicaCheck check(group, state);
      // Each in a tensor of its own: in each tensor all others agree.
      if (group->rank() == 1) flip_a_bit(state.at("fc1.bias"));
      if (group->rank() == 2) flip_a_bit(state.at("fc2.weight"));
      const auto apart = check.compare();
      ASSERT_TRUE(apart);
      EXPECT_EQ(apart->ranks, (std::vector{1, 2}));
      EXPECT_TRUE(apart->has_majority);
      // Ranks 1 and 2 now agree on one tensor and differ from the others.
      if (group->rank() == 1) flip_a_bit(state.at("fc1.bias"));
      if (group->rank() == 2) flip_a_bit(state.at("fc2.weight"));
      if (group->rank() == 1 || group->rank() == 2) flip_a_bit(state.at("fc1.bias"));
      const auto halves = check.compare();
      ASSERT_TRUE(halves);
      EXPECT_EQ(halves->has_majority, ranks != 4) << "two of three are one, three of five another";
      const auto apart_from_most = ranks == 3 ? std::vector{0} : std::vector{1, 2};
      EXPECT_EQ(halves->ranks, ranks == 4 ? all_of(*group) : apart_from_most);
    });
  }
}

TEST(ReplicaCheck, TrainingUnderDistributedDataParallelKeepsReplicasEqual) {
  for (const int ranks : test::rank_counts()) {
    test::on_ranks(ranks, [&](const std::shared_ptr<ProcessGroup>& group) {
      DistributedDataParallel ddp(std::make_shared<test::Mlp>(0.2), group);
      optim::Adam adam(ddp.module().named_parameters(), {});
      StateDict state;
      for (const auto& [name, parameter] : ddp.module().named_parameters()) {
        state.insert(name, parameter.data());
      }
      state.insert_all("optimizer/", adam.state_dict());
      ReplicaCheck check(group, state);
      const test::Batch batch = test::make_batch(11, 0.5);
      const auto before = state.begin()->tensor.to_vector<double>();
      for (int step = 0; step < 5; ++step) {
        const test::Batch share = batch.share(group->rank(), group->size());
        ddp.zero_grad();
        ddp.backward(test::mean_loss(ddp, share),
                     static_cast<double>(share.rows()) / static_cast<double>(batch.rows()));
        adam.step();
        EXPECT_FALSE(check.compare());
      }
      EXPECT_NE(state.begin()->tensor.to_vector<double>(), before)
          << "the handles are of what is trained";
    });
  }
}

}  // namespace
}  // namespace lockstep
