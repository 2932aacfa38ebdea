// Ranks that run out of inputs before the others.
#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/join.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::mean_loss;
using test::Mlp;

class Joined : public testing::TestWithParam<int> {};

constexpr optim::SgdOptions momentum{.lr = 0.1, .momentum = 0.9};

/// How many batches a rank has.
using Counts = std::vector<int>;
Counts ascending(int ranks) {
  Counts counts(static_cast<std::size_t>(ranks));
  std::iota(counts.begin(), counts.end(), 3);
  return counts;
}

/// Batches of 1 to 4 samples, all of them different.
Batch batch_of(int rank, int iteration) {
  return make_batch(1 + (2 * rank + iteration) % 4, 0.3 * rank + 1.1 * iteration);
}

/// The samples of the ranks that have an `iteration`-th batch, together.
Batch whole_batch(const Counts& counts, int iteration) {
  std::vector<double> x;
  std::vector<std::int64_t> target;
  for (std::size_t r = 0; r < counts.size(); ++r) {
    if (iteration >= counts[r]) continue;
    const Batch batch = batch_of(static_cast<int>(r), iteration);
    for (const double value : batch.x.to_vector<double>()) x.push_back(value);
    for (const auto value : batch.target.to_vector<std::int64_t>()) target.push_back(value);
  }
  const auto rows = static_cast<std::int64_t>(target.size());
  const Device device = test::asked_for_device();
  return {Tensor::from(x, {rows, 6}, device), Tensor::from(target, {rows}, device)};
}

/// One rank with all samples of each iteration: the expected result.
struct Oracle {
  explicit Oracle(double seed) : model(seed) {}
  void step(const Batch& batch) {
    sgd.zero_grad();
    mean_loss(model, batch).backward();
    sgd.step();
  }
  Mlp model;
  optim::SGD sgd{model.named_parameters(), momentum};
};

void expect_gradients(const nn::Module& actual, const nn::Module& expected, int iteration) {
  const auto mine = actual.named_parameters(), its = expected.named_parameters();
  for (std::size_t p = 0; p < mine.size(); ++p) {
    ASSERT_EQ(mine[p].variable.grad().defined(), mine[p].name != "unused");
    if (mine[p].name == "unused") continue;
    EXPECT_LE(test::max_difference(mine[p].variable.grad(), its[p].variable.grad()), 1e-13)
        << mine[p].name << " in iteration " << iteration;
  }
}

std::string bytes_of(const StateDict& state) {
  std::string bytes;
  for (const auto& entry : state) {
    for (const double value : entry.tensor.to(DType::f64).to_vector<double>()) {
      bytes.append(reinterpret_cast<const char*>(&value), sizeof(value));
    }
  }
  return bytes;
}

TEST_P(Joined, GradientsAreThoseOfTheMeanOverTheSamplesThatThereAreAndReplicasStayEqual) {
  const Counts up = ascending(GetParam()), down(up.rbegin(), up.rend());
  Counts some = up;
  some.front() = 0;
  for (const Counts& counts : {up, down, some}) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {.buckets = {100, 200}});
      optim::SGD sgd(model->named_parameters(), momentum);
      Oracle oracle(1.0);
      int iteration = 0;
      const auto end_of_iteration = [&] {
        oracle.step(whole_batch(counts, iteration));
        expect_gradients(*model, oracle.model, iteration++);
        sgd.step();
      };
      Join join({ddp}, {.after_shadow = end_of_iteration});
      for (int epoch = 0; epoch < 2; ++epoch, iteration = 0) {
        for (int k = 0; k < counts[static_cast<std::size_t>(group->rank())]; ++k) {
          const Batch batch = batch_of(group->rank(), k);
          const double weight = join.step(static_cast<double>(batch.rows()));
          ddp.zero_grad();
          ddp.backward(mean_loss(ddp, batch), weight);
          end_of_iteration();
        }
        join.finish();
        EXPECT_EQ(iteration, *std::ranges::max_element(counts));
      }
      EXPECT_LE(test::max_difference(model->W1.data(), oracle.model.W1.data()), 1e-12);
      EXPECT_TRUE(test::same_on_all_ranks(*group, bytes_of(model->state_dict())));
      EXPECT_TRUE(test::same_on_all_ranks(*group, bytes_of(sgd.state_dict())));
    });
  }
}

// The last rank runs out after accumulating within no_sync(), which counts; afterwards it
// contributes zeros to the mean over all ranks.
TEST_P(Joined, PassesWithoutAWeightGiveTheMeanOverAllRanks) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const int ranks = group->size(), last = ranks - 1;
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    int shadowed = 0;
    const auto expect = [&](int rank_count) {
      if (rank_count == 0) return;
      Mlp whole(1.0);
      for (int r = 0; r < rank_count; ++r) mean_loss(whole, batch_of(r, 0)).backward(1.0 / ranks);
      EXPECT_LE(test::max_difference(model->W1.grad(), whole.W1.grad()), 1e-14);
    };
    Join join({ddp}, {.after_shadow = [&] { expect(shadowed++ == 0 ? ranks : last); }});
    const auto pass = [&] { mean_loss(ddp, batch_of(group->rank(), 0)).backward(); };
    if (group->rank() == last) {
      const auto local = ddp.no_sync();
      pass();
    } else {
      for (int k = 0; k < 2; ++k) {
        static_cast<void>(join.step(1.0));
        ddp.zero_grad();
        pass();
        expect(k == 0 ? ranks : last);
      }
    }
    join.finish();
    EXPECT_EQ(shadowed, group->rank() == last && ranks > 1 ? 2 : 0);
  });
}

TEST_P(Joined, ARankMayGoOnWithoutSamples) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    Join join({ddp});
    EXPECT_EQ(join.step(0), 0.0) << "nobody has any";
    ddp.backward({}, 0.0);
    const bool mine = group->rank() == group->size() - 1;
    EXPECT_EQ(join.step(mine ? 2.5 : 0), mine ? 1.0 : 0.0);
    ddp.backward({}, 0.0);
    join.finish();
  });
}

/// Its collectives are sums over the remaining ranks.
class CountedRanks final : public Joinable {
 public:
  explicit CountedRanks(ProcessGroup& group) : group_(group) {}
  [[nodiscard]] ProcessGroup& group() const noexcept override { return group_; }
  void shadow() override { sum(0.0); }
  void after_join(int last) override { lasts.push_back(last); }
  void count() { sum(1.0); }

  std::vector<double> present;
  std::vector<int> lasts;

 private:
  void sum(double mine) { present.push_back(all_reduce_scalar(group_, mine, ReduceOp::sum)); }
  ProcessGroup& group_;
};

TEST_P(Joined, SeveralThingsAtOnceAreShadowedInTheirOrder) {
  const Counts counts = ascending(GetParam());
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto first = std::make_shared<Mlp>(1.0), second = std::make_shared<Mlp>(2.0, 7);
    DistributedDataParallel one(first, group), other(second, group, {.buckets = {1, 1}});
    CountedRanks ranks(*group);
    Oracle oracle_of_one(1.0);
    Mlp oracle_of_other(2.0, 7);
    int iteration = 0;
    const auto check = [&] {
      const Batch whole = whole_batch(counts, iteration);
      for (nn::Module* model : {static_cast<nn::Module*>(&oracle_of_one.model),
                                static_cast<nn::Module*>(&oracle_of_other)}) {
        model->zero_grad();
        cross_entropy(model->forward(Variable(whole.x)), whole.target).backward();
      }
      expect_gradients(*first, oracle_of_one.model, iteration);
      expect_gradients(*second, oracle_of_other, iteration);
      ++iteration;
    };
    Join join({one, ranks, other}, {.after_shadow = check});
    for (int k = 0; k < counts[static_cast<std::size_t>(group->rank())]; ++k) {
      const Batch batch = batch_of(group->rank(), k);
      const double weight = join.step(static_cast<double>(batch.rows()));
      one.zero_grad();
      one.backward(mean_loss(one, batch), weight);
      ranks.count();
      other.zero_grad();
      other.backward(mean_loss(other, batch), weight);
      check();
    }
    join.finish();
    std::vector<double> expected;
    for (int k = 0; k < counts.back(); ++k) {
      expected.push_back(
          static_cast<double>(std::ranges::count_if(counts, [&](int n) { return n > k; })));
    }
    EXPECT_EQ(ranks.present, expected);
    EXPECT_EQ(ranks.lasts, std::vector<int>{group->size() - 1});
  });
}

TEST_P(Joined, ParametersAndBuffersAreThoseOfTheRankThatWentOnLongest) {
  const Counts up = ascending(GetParam()), down(up.rbegin(), up.rend());
  const Counts equal(up.size(), 2);
  for (const Counts& counts : {up, down, equal}) {
    const int last = counts == down ? 0 : GetParam() - 1;
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {.buckets = {100, 200}});
      Join join({ddp});
      for (int k = 0; k < counts[static_cast<std::size_t>(group->rank())]; ++k) {
        const Batch batch = batch_of(group->rank(), k);
        ddp.zero_grad();
        ddp.backward(mean_loss(ddp, batch), join.step(1.0));
        model->statistics.fill(100.0 * group->rank() + k);
        model->b1.data().fill(10.0 * group->rank() + k);
      }
      join.finish();
      const int of_last = counts[static_cast<std::size_t>(last)] - 1;
      EXPECT_EQ(model->statistics.template to_vector<double>(),
                std::vector<double>(2, 100.0 * last + of_last));
      EXPECT_EQ(model->b1.data().template to_vector<double>(),
                std::vector<double>(5, 10.0 * last + of_last));
    });
  }
}

TEST_P(Joined, ThrowsOnAllRanksWhenOneHasRunOutIfAskedTo) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    Join join({ddp}, {.throw_on_early_termination = true});
    int iterations = 0;
    const auto epoch = [&](int batches) {
      for (iterations = 0; iterations < batches; ++iterations) {
        const double weight = join.step(1.0);
        ddp.zero_grad();
        ddp.backward(mean_loss(ddp, batch_of(group->rank(), iterations)), weight);
      }
      join.finish();
    };
    epoch(2);
    EXPECT_EQ(iterations, 2);
    if (group->size() == 1) return;
    const bool short_of_inputs = group->rank() % 2 == 1;
    const std::string message = test::message_of<Error>([&] { epoch(short_of_inputs ? 2 : 5); });
    EXPECT_EQ(iterations, 2);
    const std::string ranks = group->size() >= 4 ? "ranks 1, 3 of " : "rank 1 of ";
    EXPECT_NE(message.find(ranks), std::string::npos) << message;
    EXPECT_TRUE(test::same_on_all_ranks(*group, message));
  });
}

TEST_P(Joined, NeedsSomethingToJoinAndOneGroup) {
  test::on_ranks(GetParam(), [](const auto& group) {
    EXPECT_THROW(Join({}), InputError);
    const auto twin = group->split(0, group->rank());
    CountedRanks here(*group), there(*twin);
    EXPECT_THROW(Join({here, there}), InputError);
    twin->close();
  });
}

TEST_P(Joined, RefusesBuffersOfARankThatMayHaveRunOutOfInputs) {
  test::on_ranks(GetParam(), [](const auto& group) {
    DistributedDataParallel ddp(std::make_shared<Mlp>(1.0), group,
                                {.broadcast_buffers_each_forward = true});
    const std::string message = test::message_of<Error>([&] { const Join join({ddp}); });
    EXPECT_NE(message.find("broadcast_buffers_each_forward"), std::string::npos) << message;
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Joined, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
