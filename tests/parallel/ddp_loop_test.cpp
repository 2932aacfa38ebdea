// PyTorch's loop: after DistributedDataParallel::forward() loss.backward() alone gives the mean
// over ranks. For its numbers on two ranks see ddp_loop_golden_test.cpp.
#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <cmath>
#include <cstdint>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/recompute.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "asked_for_device.hpp"
#include "gradient_numbers.hpp"
#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::add;
using test::alone;
using test::Batch;
using test::expect_near;
using test::gradients_in;
using test::make_batch;
using test::max_difference;
using test::mean_loss;
using test::Mlp;
using test::Numbers;

bool is_power_of_two(int n) { return (n & (n - 1)) == 0; }

class DdpLoop : public testing::TestWithParam<int> {};

// Any order of passes, with and without weights, within no_sync() and outside, with and without a
// preceding forward(), against the rule in plain numbers.
TEST_P(DdpLoop, AnyOrderOfPassesGivesTheMeanOfUnweightedAndTheSumOfWeightedOnes) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const int ranks = group->size();
    std::mt19937 random(7);  // the same on all ranks
    const auto any = [&](unsigned n) { return static_cast<int>(random() % n); };
    for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{100, 200}}) {
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {.buckets = buckets});
      // Each rank's gradients: to be averaged, and to be summed.
      std::vector<Numbers> equal(static_cast<std::size_t>(ranks)), weighted(equal);
      std::string passes;
      for (int k = 0; k < 100; ++k) {
        const int kind = any(6);
        const double phase = 0.1 * k;
        const auto of_rank = [&](int r) { return make_batch(1 + (r + k) % 3, phase + r); };
        const Batch batch = of_rank(group->rank());
        const auto weight_of = [&](int r) { return 0.25 + 0.5 * ((r + k) % 2); };
        const auto bring = [&](std::vector<Numbers>& parts, bool with_weight) {
          for (int r = 0; r < ranks; ++r) {
            add(parts[static_cast<std::size_t>(r)], alone(of_rank(r)),
                with_weight ? weight_of(r) : 1.0);
          }
        };
        if (kind == 0) {
          ddp.zero_grad();
          for (auto& parts : {&equal, &weighted}) parts->assign(parts->size(), {});
          passes = "";
          continue;
        }
        const bool with_weight = kind == 1 || kind == 2, local = kind == 2 || kind == 3;
        bring(with_weight ? weighted : equal, with_weight);
        passes += with_weight ? "w" : kind == 5 ? "m" : "b";
        if (local) passes += "l";
        if (local) {
          const auto guard = ddp.no_sync();
          const Variable loss = mean_loss(ddp, batch);
          with_weight ? ddp.backward(loss, weight_of(group->rank())) : loss.backward();
          continue;
        }
        if (kind == 5) {  // not through ddp: this rank's own
          mean_loss(*model, batch).backward();
          continue;
        }
        const Variable loss = mean_loss(ddp, batch);
        with_weight ? ddp.backward(loss, weight_of(group->rank())) : loss.backward();
        Numbers sum;
        for (std::size_t r = 0; r < equal.size(); ++r) {
          if (!equal[r].empty()) add(sum, equal[r], 1.0 / ranks);
          if (!weighted[r].empty()) add(sum, weighted[r], 1.0);
        }
        expect_near(gradients_in(*model), sum, "after " + passes);
        weighted.assign(weighted.size(), {});
        equal.assign(equal.size(), sum);
      }
    }
  });
}

/// A step of every kind of DistributedDataParallel by loss.backward(), and by backward() with equal
/// weights.
struct Way {
  std::string name;
  DdpOptions options;
};
std::vector<Way> ways(int ranks) {
  std::vector<Way> all;
  for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
    for (const auto kind : {CommHookKind::all_reduce, CommHookKind::fp16_compress,
                            CommHookKind::bf16_compress, CommHookKind::power_sgd}) {
      all.push_back({"hook " + std::to_string(static_cast<int>(kind)),
                     {.buckets = buckets, .comm_hook = kind}});
    }
    all.back().options.power_sgd = {.start_step = 1, .min_compression_rate = 1};
    for (const std::int64_t shards : {1, 4}) {
      all.push_back({"shards", {.buckets = buckets, .shards = shards * ranks}});
    }
    all.push_back({"buffers", {.buckets = buckets, .broadcast_buffers_each_forward = true}});
  }
  return all;
}

// Equal weights that are powers of two: multiplying before and after is the same to the bit.
TEST_P(DdpLoop, HasTheBitsOfEqualWeightsWithEveryHookAndWithShards) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const Way& way : ways(group->size())) {
      const auto one = std::make_shared<Mlp>(1.0), other = std::make_shared<Mlp>(1.0);
      DistributedDataParallel loop(one, group, way.options), weights(other, group, way.options);
      optim::SGD sgd(one->named_parameters(), {.lr = 0.1, .momentum = 0.9}),
          other_sgd(other->named_parameters(), {.lr = 0.1, .momentum = 0.9});
      const auto shards = way.options.shards > 0 ? way.options.shards : group->size();
      for (int step = 0; step < 4; ++step) {
        sgd.zero_grad();
        other_sgd.zero_grad();
        double loss_here = 0;
        const auto of = [&](std::int64_t shard) {
          return make_batch(1 + (shard + step) % 3, step + 0.3 * static_cast<double>(shard));
        };
        loop.for_each_shard([&](std::int64_t shard) {
          if (step == 2) {
            const auto local = loop.no_sync();
            mean_loss(loop, of(shard + 1)).backward();
          }
          const Variable loss = mean_loss(loop, of(shard));
          loss_here += loss.data().item();
          loss.backward();
        });
        weights.for_each_shard([&](std::int64_t shard) {
          const double weight = 1.0 / static_cast<double>(shards);
          if (step == 2) {
            const auto local = weights.no_sync();
            weights.backward(mean_loss(weights, of(shard + 1)), weight);
          }
          weights.backward(mean_loss(weights, of(shard)), weight);
        });
        if (is_power_of_two(group->size())) {
          ASSERT_EQ(gradients_in(*one), gradients_in(*other)) << way.name << " in step " << step;
        } else if (way.options.comm_hook == CommHookKind::all_reduce) {
          expect_near(gradients_in(*one), gradients_in(*other), way.name);
        }
        if (way.options.shards > 0) {
          EXPECT_NEAR(loop.stats().loss_of_batch.item(), weights.stats().loss_of_batch.item(),
                      1e-14);
        }
        sgd.step();
        other_sgd.step();
      }
      std::string bytes;
      for (const auto& numbers : gradients_in(*one)) {
        bytes.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * 8);
      }
      EXPECT_TRUE(test::same_on_all_ranks(*group, bytes)) << way.name;
    }
  });
}

TEST_P(DdpLoop, OfSyncBatchNormHasTheBitsOfEqualWeights) {
  test::on_ranks(GetParam(), [](const auto& group) {
    if (!is_power_of_two(group->size())) return;
    Numbers found[2];
    for (const bool by_weight : {false, true}) {
      const auto model = test::batch_norm_model();
      DistributedDataParallel ddp(model, group, {.sync_batch_norm = true});
      for (int step = 0; step < 3; ++step) {
        const Variable loss = mean_loss(ddp, make_batch(3, 0.4 * group->rank() + step, DType::f32));
        by_weight ? ddp.backward(loss, 1.0 / group->size()) : loss.backward();
      }
      found[by_weight ? 1 : 0] = gradients_in(*model);
    }
    EXPECT_EQ(found[0], found[1]);
  });
}

TEST_P(DdpLoop, ScalesAndClipsTheGradientOfAllRanks) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    optim::SGD sgd(model->named_parameters(), {.lr = 0.1});
    optim::GradScaler scaler({.init_scale = 1024.0}, test::asked_for_device());
    Numbers mean;
    for (int r = 0; r < group->size(); ++r) {
      add(mean, alone(make_batch(2 + r, 0.5 * r)), 1.0 / group->size());
    }
    scaler.scaled(mean_loss(ddp, make_batch(2 + group->rank(), 0.5 * group->rank()))).backward();
    scaler.unscale(sgd);
    expect_near(gradients_in(*model), mean, "unscaled");
    double squares = 0;
    for (const auto& numbers : mean) {
      for (const double g : numbers) squares += g * g;
    }
    EXPECT_NEAR(optim::clip_grad_norm(sgd.parameters(), 0.1), std::sqrt(squares), 1e-13);
  });
}

TEST_P(DdpLoop, GoesOnWhereOneRankHasNoSamplesOrUsesOtherParameters) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
    const bool last = group->size() > 1 && group->rank() == group->size() - 1;
    const int others = group->size() > 1 ? group->size() - 1 : 1;
    if (last) {
      ddp.backward({}, 0.0);
    } else {
      mean_loss(ddp, make_batch(2, 0.5)).backward();
    }
    Numbers expected;
    add(expected, alone(make_batch(2, 0.5)), static_cast<double>(others) / group->size());
    expect_near(gradients_in(*model), expected, "of all but the last rank");

    ddp.zero_grad();
    const Variable loss = mean_loss(ddp, make_batch(2, 0.5));
    (last ? sum(model->unused) : loss).backward();
    if (group->size() > 1) expected[4].assign(3, 1.0 / group->size());
    expect_near(gradients_in(*model), expected, "of another part on the last rank");
  });
}

TEST_P(DdpLoop, EvaluationAndGradAndStoresAreThisRanksOwn) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    if (group->rank() == 0) {  // on one rank: a collective here would not return
      {
        const NoGradGuard evaluation;
        static_cast<void>(mean_loss(ddp, make_batch(2, 0.5)));
      }
      mean_loss(*model, make_batch(2, 0.5)).backward();
      expect_near(gradients_in(*model), alone(make_batch(2, 0.5)), "without a forward()");
      model->zero_grad();
    }
    const Batch batch = make_batch(2, group->rank());
    const auto parameters = std::vector{model->W1};
    const Variable loss = mean_loss(ddp, batch);
    const Tensor own = grad(loss, parameters, {.retain_graph = true}).front().data();
    Mlp single(1.0);
    mean_loss(single, batch).backward();
    EXPECT_EQ(max_difference(own, single.W1.grad()), 0.0);
    loss.backward();
    Numbers mean;
    for (int r = 0; r < group->size(); ++r) add(mean, alone(make_batch(2, r)), 1.0 / group->size());
    expect_near(gradients_in(*model), mean, "grad() has not counted as the pass");
  });
}

/// A layer, recomputed in backward if requested, and another.
struct TwoLayers : nn::Module {
  explicit TwoLayers(bool again) : recomputes(again) {
    for (const Variable& p : parameters()) {
      p.data().copy_from(test::wave(p.shape(), 0.3, DType::f32));
    }
  }
  Variable forward(const Variable& x) override {
    return last->forward(recomputes ? recomputed(x) : first->forward(x));
  }
  bool recomputes;
  std::shared_ptr<nn::Module> first = register_module(
      "first", std::shared_ptr<nn::Module>(std::make_shared<nn::Sequential>(
                   std::initializer_list<std::shared_ptr<nn::Module>>{
                       std::make_shared<nn::Linear>(6, 5), std::make_shared<nn::Tanh>()})));
  nn::Recomputed recomputed{first};
  std::shared_ptr<nn::Linear> last = register_module("last", std::make_shared<nn::Linear>(5, 4));
};

TEST_P(DdpLoop, RecomputesAndDifferentiatesTwice) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto loss_of = [](auto& net, const Tensor& rows) {
      const Variable x(rows.clone(), true);
      const Variable y = sum(net.forward(x));
      const Variable slope = lockstep::grad(y, x, {.create_graph = true});
      return y + sum(slope * slope);
    };
    for (const bool twice : {false, true}) {
      const auto net = std::make_shared<TwoLayers>(!twice);
      DistributedDataParallel ddp(net, group, {.buckets = {1, 1}});
      const auto rows = [](int rank) { return test::wave({3, 6}, 0.2 * rank, DType::f32); };
      const auto loss = [&](auto& model, int rank) {
        return twice ? loss_of(model, rows(rank)) : sum(model.forward(Variable(rows(rank))));
      };
      loss(ddp, group->rank()).backward();
      Numbers mean;
      for (int r = 0; r < group->size(); ++r) {
        const auto single = std::make_shared<TwoLayers>(false);
        loss(*single, r).backward();
        add(mean, gradients_in(*single), 1.0 / group->size());
      }
      const Numbers found = gradients_in(*net);
      for (std::size_t p = 0; p < mean.size(); ++p) {
        for (std::size_t i = 0; i < mean[p].size(); ++i) EXPECT_NEAR(found[p][i], mean[p][i], 2e-6);
      }
    }
  });
}

TEST_P(DdpLoop, RefusesToTrainParametersFrozenAtConstructionAndGoesOn) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    model->b1.set_requires_grad(false);
    DistributedDataParallel ddp(model, group);
    const auto pass = [&] { mean_loss(ddp, make_batch(4, 0.5)).backward(); };
    pass();
    model->b1.set_requires_grad(true);
    const std::string refused = test::message_of<Error>(pass);
    EXPECT_NE(refused.find("parameter 'b1' is trained, but was frozen"), std::string::npos)
        << refused;
    model->b1.set_requires_grad(false);
    ddp.zero_grad();
    pass();
    Numbers expected = alone(make_batch(4, 0.5));
    expected[1].clear();
    expect_near(gradients_in(*model), expected, "afterwards");
  });
}

TEST_P(DdpLoop, WarnsOnceOfAPassThatLeavesEachRankItsOwnGradients) {
  std::mutex access;
  std::vector<std::string> warnings;
  set_log_sink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(access);
    if (level == LogLevel::warning) warnings.emplace_back(message);
  });
  bool has_rank_0 = false;
  test::on_ranks(GetParam(), [&](const auto& group) {
    if (group->rank() == 0) has_rank_0 = group->size() > 1;
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    for (int k = 0; k < 3; ++k) {
      const Variable y = ddp.forward(Variable(test::wave({2, 6}, group->rank())));
      mean(y).backward(1.0, /*retain_graph=*/true);
      sum(y * y).backward();  // PyTorch's rule: one forward(), one summed pass
    }
  });
  set_log_sink({});
  ASSERT_EQ(warnings.size(), has_rank_0 ? 1U : 0U);
  if (has_rank_0) {
    EXPECT_NE(warnings[0].find("each rank keeps its own gradients"), std::string::npos)
        << warnings[0];
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpLoop, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
