// State that DistributedDataParallel keeps equal beside gradients, and its reports.
#include <gtest/gtest.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <mutex>
#include <string>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

#include <support/message_of.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::make_batch;
using test::mean_loss;
using test::Mlp;
using Names = std::vector<std::string>;

class DdpContract : public testing::TestWithParam<int> {};

TEST_P(DdpContract, NamesParametersThatNoRankHasEverUsedOnceInAWarning) {
  std::mutex access;
  Names warnings;
  set_log_sink([&](LogLevel level, std::string_view message) {
    const std::lock_guard lock(access);
    if (level == LogLevel::warning) warnings.emplace_back(message);
  });
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    EXPECT_EQ(ddp.never_used(), (Names{"unused", "b2", "W2", "b1", "W1"})) << "in order of buckets";
    for (int step = 0; step < 201; ++step) ddp.backward(mean_loss(ddp, make_batch(2, 0.5)), 1.0);
    EXPECT_EQ(ddp.never_used(), Names{"unused"});
    const bool last = group->rank() == group->size() - 1;
    ddp.backward(last ? sum(model->unused) : Variable(), 1.0);
    EXPECT_EQ(ddp.never_used(), Names{}) << "one rank's use is everybody's knowledge";
  });
  set_log_sink({});
  const bool has_rank_0 = !warnings.empty();  // under mpiexec only its process
  if (has_rank_0) {
    ASSERT_EQ(warnings.size(), 1U);
    EXPECT_EQ(
        warnings[0],
        "no rank's loss has depended on unused in the first 100 steps: it is not trained. Is a "
        "layer left out of forward?");
  }
  test::on_ranks(GetParam(), [&](const auto& group) {
    EXPECT_EQ(
        all_reduce_scalar(*group, group->rank() == 0 && has_rank_0 ? 1.0 : 0.0, ReduceOp::max),
        1.0);
  });
}

TEST_P(DdpContract, TellsAllRanksThatOneSaidYesAndChangesNoBitOfTheGradients) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const int size = group->size();
    std::vector<DdpOptions> all;
    for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
      for (const auto kind : {CommHookKind::all_reduce, CommHookKind::fp16_compress,
                              CommHookKind::bf16_compress, CommHookKind::power_sgd})
        all.push_back({.buckets = buckets, .comm_hook = kind});
      all.back().power_sgd.start_step = 1;
      for (const std::int64_t shards : {size, 3 * size}) {
        all.push_back({.buckets = buckets, .shards = shards});
      }
    }
    for (const DdpOptions& options : all) {
      const auto silent_model = std::make_shared<Mlp>(1.0), model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel silent(silent_model, group, options), ddp(model, group, options);
      EXPECT_FALSE(ddp.any_said_yes());
      int speaker = 0, asked = 0;
      bool before = false;
      ddp.ask_along([&] { return ++asked, group->rank() == speaker; });
      // Each rank answers yes once, after steps in which none does; the last rank is idle then.
      for (int step = 0; step < 2 * size + 1; ++step) {
        speaker = step % 2 == 0 ? -1 : step / 2;
        for (DistributedDataParallel* one : {&silent, &ddp}) {
          one->for_each_shard([&](std::int64_t shard) {
            const bool idle = size > 1 && speaker == size - 1 && group->rank() == speaker;
            const auto part = make_batch(2, 0.1 * static_cast<double>(shard));
            if (idle) return one->backward({}, 0.0);
            {
              const auto local = one->no_sync();
              one->backward(mean_loss(*one, part), 0.5);
            }
            one->backward(mean_loss(*one, part), 0.25);
          });
        }
        const bool said = speaker >= 0, is_late = test::asked_for_device() != Device{};
        EXPECT_EQ(ddp.any_said_yes(), is_late ? before : said) << "step " << step;
        before = said;
        EXPECT_EQ(asked, step + 1) << "once a sum, not for what is local";
        EXPECT_FALSE(silent.any_said_yes());
        const auto parameters = model->parameters(), same = silent_model->parameters();
        for (std::size_t p = 0; p < parameters.size(); ++p) {
          ASSERT_EQ(parameters[p].grad().defined(), same[p].grad().defined());
          if (parameters[p].grad().defined()) {
            EXPECT_EQ(parameters[p].grad().template to_vector<double>(),
                      same[p].grad().template to_vector<double>());
          }
        }
      }
    }
  });
}

TEST_P(DdpContract, BuffersAreRankZerosInEachForwardIfAskedFor) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.broadcast_buffers_each_forward = true});
    for (int step = 0; step < 3; ++step) {
      model->statistics.fill(10.0 * step + group->rank());
      // The last of several ranks has no samples; the others run forward any number of times.
      const bool idle = group->rank() > 0 && group->rank() == group->size() - 1;
      for (int piece = 0; !idle && piece < group->rank(); ++piece) {
        const auto local = ddp.no_sync();
        ddp.backward(mean_loss(ddp, make_batch(2, 0.5)), 1.0);
      }
      ddp.backward(idle ? Variable() : mean_loss(ddp, make_batch(2, 0.5)), 1.0);
      for (const double value : model->statistics.template to_vector<double>())
        EXPECT_EQ(value, 10.0 * step) << "on rank " << group->rank();
    }
  });
}

TEST_P(DdpContract, FreezesAndTrainsAnyParameterAgainAndMomentumRests) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group, {.buckets = {1, 1}});
    optim::SGD sgd(model->named_parameters(), {.lr = 0.5, .momentum = 0.9, .weight_decay = 0.1});
    const auto step = [&] {
      ddp.backward(mean_loss(ddp, make_batch(4, 0.5)), 1.0 / group->size());
      sgd.step();
      return model->W1.data().template to_vector<double>();
    };
    const auto first = step();
    model->W1.set_requires_grad(false);
    EXPECT_EQ(step(), first);
    EXPECT_FALSE(model->W1.grad().defined());
    EXPECT_TRUE(model->b1.grad().defined());
    // On rank 0 only: the others' gradients count.
    model->W1.set_requires_grad(group->rank() != 0);
    const auto moved = step();
    EXPECT_EQ(moved != first, group->size() > 1);
    EXPECT_TRUE(test::same_on_all_ranks(*group, fmt::format("{}", fmt::join(moved, " "))));
    model->set_requires_grad(false);
    EXPECT_THROW(step(), Error) << "nothing to train";
    model->set_requires_grad(true);
    EXPECT_NE(step(), moved);
  });
}

TEST_P(DdpContract, RefusesToTrainParametersFrozenAtConstruction) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    model->b1.set_requires_grad(false);
    DistributedDataParallel ddp(model, group);
    const auto backward = [&] { ddp.backward(mean_loss(ddp, make_batch(4, 0.5)), 1.0); };
    backward();
    EXPECT_FALSE(model->b1.grad().defined());
    model->b1.set_requires_grad(true);
    try {
      backward();
      ADD_FAILURE() << "its gradient would be this rank's";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("parameter 'b1' is trained, but was frozen"),
                std::string::npos)
          << error.what();
    }
    model->b1.set_requires_grad(false);
    backward();
  });
}

TEST_P(DdpContract, RefusesToTrainFrozenParametersInAPassWithKeptGradients) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    model->b1.set_requires_grad(false);
    DistributedDataParallel whole(model, group);
    DistributedDataParallel sharded(model, group, {.shards = 2 * group->size()});
    model->b1.set_requires_grad(true);
    const auto refused = [&](DistributedDataParallel& ddp) {
      return test::message_of<Error>(
          [&] { ddp.backward(mean_loss(ddp, make_batch(4, 0.5)), 1.0); });
    };
    const std::string shard = refused(sharded);  // not this rank's last
    EXPECT_NE(shard.find("parameter 'b1' is trained, but was frozen"), std::string::npos) << shard;
    const auto guard = whole.no_sync();
    const std::string kept = refused(whole);
    EXPECT_NE(kept.find("parameter 'b1' is trained, but was frozen"), std::string::npos) << kept;
    EXPECT_FALSE(model->b1.grad().defined());
  });
}

TEST_P(DdpContract, BackwardWithinBackwardIsRefusedInWords) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    std::string refused;
    const GradHook hook = model->W1.add_grad_hook([&] {
      try {
        ddp.backward({}, 0.0);
      } catch (const Error& error) {
        refused = error.what();
      }
    });
    ddp.backward(mean_loss(ddp, make_batch(2, 0.5)), 1.0);
    EXPECT_NE(refused.find("from inside backward()"), std::string::npos) << refused;
    EXPECT_TRUE(model->W1.grad().defined());
  });
}

TEST_P(DdpContract, AConversionToTheDtypeThatTheModelHasChangesNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    for (const Variable& parameter : model->parameters()) parameter.set_dtype(DType::f64);
    ddp.backward(mean_loss(ddp, make_batch(2, 0.5 + group->rank())), 1.0);
    const double own = model->W1.grad().to_vector<double>()[0];
    EXPECT_NEAR(all_reduce_scalar(*group, own, ReduceOp::max), own, 1e-12) << "it is the mean";
  });
}

TEST_P(DdpContract, AModelWhoseParametersWereReplacedIsRefusedByBackward) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    model->W1.set_value(model->W1.data().clone());
    const auto refused =
        test::message_of<Error>([&] { ddp.backward(mean_loss(ddp, make_batch(2, 0.5)), 1.0); });
    EXPECT_NE(refused.find("is no longer in the memory that is summed over the ranks"),
              std::string::npos)
        << refused;
  });
}

TEST_P(DdpContract, RefusesALossOfSeveralElementsAndGoesOn) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    DistributedDataParallel ddp(model, group);
    const auto refused = test::message_of<Error>(
        [&] { ddp.backward(ddp.forward(Variable(make_batch(2, 0.5).x)), 1.0); });
    EXPECT_NE(refused.find("a loss of one element, not f64[2, 4]"), std::string::npos) << refused;
    ddp.backward(mean_loss(ddp, make_batch(2, 0.5)), 1.0);
    EXPECT_TRUE(model->W1.grad().defined());
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, DdpContract, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
