// Parameters are averaged instead of gradients.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/post_local_sgd.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::make_batch;
using test::mean_loss;
using test::Mlp;

class Averaging : public testing::TestWithParam<int> {};

double share_weight(const Batch& share, const Batch& whole) {
  return static_cast<double>(share.rows()) / static_cast<double>(whole.rows());
}

void fill_all(const nn::Module& module, double value) {
  for (const Variable& parameter : module.parameters()) fill(parameter.data(), value);
}

void expect_all(const nn::Module& module, double value) {
  for (const auto& [name, parameter] : module.named_parameters()) {
    for (const double element : parameter.data().to(DType::f64).to_vector<double>()) {
      EXPECT_EQ(element, value) << name;
    }
  }
}

TEST_P(Averaging, ParametersBecomeTheMeanOfTheRanksAndBuffersStay) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const double mine = 1.0 + group->rank(), mean = 0.5 * (1.0 + group->size());  // exact in bf16
    for (const DType dtype : {DType::f64, DType::f32, DType::bf16}) {
      const auto model = std::make_shared<Mlp>(1.0, 5, dtype);
      for (const BucketOptions& limits : {BucketOptions{}, BucketOptions{1, 1}}) {
        const DistributedDataParallel ddp(model, group, {.buckets = limits});
        EXPECT_EQ(ddp.flat_values().size(), ddp.stats().buckets);
        model->statistics.fill(mine);
        fill_all(*model, mine);
        average_parameters(ddp.flat_values(), *group);
        expect_all(*model, mean);
        fill_all(*model, mine);
        average_parameters(*model, *group);
        expect_all(*model, mean);
        EXPECT_EQ(model->statistics.to(DType::f64).template to_vector<double>(),
                  std::vector<double>(2, mine));
      }
    }
  });
}

TEST_P(Averaging, ParametersThatAreNotTrainedStay) {
  test::on_ranks(GetParam(), [](const auto& group) {
    struct Frozen : nn::Module {
      Variable forward(const Variable& x) override { return x; }
      Variable fixed = register_parameter("fixed", Tensor::zeros({2}));
      Variable moving = register_parameter("moving", Tensor::zeros({2}));
    };
    const auto model = std::make_shared<Frozen>();
    model->fixed.record()->requires_grad = false;
    fill_all(*model, group->rank());
    average_parameters(*model, *group);
    EXPECT_EQ(model->fixed.data().template to_vector<float>(),
              std::vector<float>(2, static_cast<float>(group->rank())));
    EXPECT_EQ(model->moving.data().slice(0, 1).item(), 0.5 * (group->size() - 1));
  });
}

TEST_P(Averaging, ComesAfterEveryPeriodthStepOfThoseAfterTheWarmUp) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Mlp>(1.0);
    const DistributedDataParallel ddp(model, group);
    PeriodicModelAverager averager(ddp.flat_values(), group, 3, 2);
    const double mean = 0.5 * (group->size() - 1);
    std::vector<std::int64_t> averaged;
    for (std::int64_t step = 0; step < 10; ++step) {
      fill_all(*model, group->rank());
      EXPECT_EQ(averager.step(), step);
      if (averager.average_parameters()) averaged.push_back(step);
      const bool now = !averaged.empty() && averaged.back() == step;
      expect_all(*model, now ? mean : group->rank());
      EXPECT_EQ(averager.is_local(), step >= 2);
    }
    EXPECT_EQ(averaged, (std::vector<std::int64_t>{2, 5, 8}));

    averager.average_now();  // step 9 has not been averaged
    expect_all(*model, mean);
    fill_all(*model, group->rank());
    averager.average_now();
    expect_all(*model, group->rank());  // no step since

    averager.set_step(2);
    EXPECT_TRUE(averager.average_parameters()) << "as the run that is resumed";
    averager.set_step(0);
    EXPECT_FALSE(averager.average_parameters());
    fill_all(*model, group->rank());
    averager.average_now();
    expect_all(*model, group->rank());  // during the warm-up gradients are summed
    EXPECT_GT(averager.seconds(), 0.0);
  });
}

TEST_P(Averaging, RefusesPeriodsAndStepsThatAreNone) {
  test::on_ranks(GetParam(), [](const auto& group) {
    EXPECT_THROW(PeriodicModelAverager({}, group, 0), InputError);
    EXPECT_THROW(PeriodicModelAverager({}, group, 1, -1), InputError);
    EXPECT_THROW(PostLocalSgdHook(nullptr, -1), InputError);
  });
}

/// Pairs of neighbours; the last rank of an odd number is alone.
std::shared_ptr<ProcessGroup> pairs_of(ProcessGroup& group) {
  return group.split(group.rank() / 2, group.rank());
}

TEST_P(Averaging, PostLocalGradientsAreSummedOverAllRanksFirstAndThenOverTheSubgroup) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const Batch batch = make_batch(11, 0.5);
    const auto share_of = [&](int rank) { return batch.share(rank, group->size()); };
    const Batch mine = share_of(group->rank()), half = mine.rows(0, mine.rows() / 2),
                rest = mine.rows(mine.rows() / 2, mine.rows());
    const auto pair = pairs_of(*group);
    for (const auto& subgroup : {std::shared_ptr<ProcessGroup>(), pair}) {
      const int members = subgroup ? subgroup->size() : 1;
      const int first = subgroup ? group->rank() / 2 * 2 : group->rank();
      for (const std::int64_t resumed_at : {0, 2}) {
        const auto model = std::make_shared<Mlp>(1.0);
        DistributedDataParallel ddp(model, group, {.buckets = {100, 200}},
                                    std::make_shared<PostLocalSgdHook>(subgroup, 3));
        ddp.comm_hook().set_step(resumed_at);
        for (std::int64_t step = resumed_at; step < 5; ++step) {
          ddp.zero_grad();
          {
            const auto local = ddp.no_sync();
            ddp.backward(mean_loss(ddp, half), share_weight(half, batch));
          }
          ddp.backward(mean_loss(ddp, rest), share_weight(rest, batch));

          Mlp alone(1.0);
          const bool is_local = step >= 3;
          const int begin = is_local ? first : 0, end = is_local ? first + members : group->size();
          const double factor = is_local ? static_cast<double>(group->size()) / members : 1.0;
          for (int rank = begin; rank < end; ++rank) {
            const Batch share = share_of(rank);
            mean_loss(alone, share).backward(factor * share_weight(share, batch));
          }
          EXPECT_LE(test::max_difference(model->W1.grad(), alone.W1.grad()), 1e-14) << step;
          EXPECT_LE(test::max_difference(model->b2.grad(), alone.b2.grad()), 1e-14) << step;
          EXPECT_FALSE(model->unused.grad().defined());
        }
      }
    }
    pair->close();
  });
}

TEST_P(Averaging, KnowledgeOfAllRanksComesFromGlobalSumsAndLocalOnesSendNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto pair = pairs_of(*group);
    for (const auto& subgroup : {std::shared_ptr<ProcessGroup>(), pair}) {
      const bool of_all = (subgroup ? subgroup->size() : 1) == group->size();
      const auto model = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {},
                                  std::make_shared<PostLocalSgdHook>(subgroup, 2));
      ddp.ask_along([&] { return group->rank() == 0; });
      for (int step = 0; step < 4; ++step) {
        const bool is_local = step >= 2;
        const HookTraffic before = ddp.stats().traffic;
        const Variable loss = mean_loss(ddp, make_batch(2, 0.5));
        ddp.zero_grad();
        ddp.backward(is_local ? loss + sum(model->unused) : loss, 1.0);
        const bool is_known = step > 0 || test::asked_for_device() == Device{};  // or a sum later
        EXPECT_EQ(ddp.any_said_yes(), is_known && (!is_local || of_all)) << "step " << step;
        EXPECT_EQ(ddp.never_used().empty(), is_local && of_all) << "step " << step;
        const HookTraffic after = ddp.stats().traffic;
        EXPECT_GT(after.replaced, before.replaced);
        EXPECT_EQ(after.sent - before.sent,
                  is_local && !subgroup ? 0 : after.replaced - before.replaced);
      }
    }
    pair->close();
  });
}

// Also if shares differ and some ranks have none: weights are multiplied by n / m in a subgroup of
// m.
TEST_P(Averaging, OneLocalStepOfSgdAndTheAverageAreTheStepOfTheGlobalBatch) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto pair = pairs_of(*group);
    for (const auto& subgroup : {std::shared_ptr<ProcessGroup>(), pair}) {
      const auto model = std::make_shared<Mlp>(1.0), whole = std::make_shared<Mlp>(1.0);
      DistributedDataParallel ddp(model, group, {},
                                  std::make_shared<PostLocalSgdHook>(subgroup, 2));
      const optim::SgdOptions options{.lr = 0.1, .momentum = 0.9};
      optim::SGD local(model->named_parameters(), options),
          global(whole->named_parameters(), options);
      PeriodicModelAverager averager(ddp.flat_values(), group, 1, 2);
      for (int step = 0; step < 8; ++step) {
        const Batch batch = make_batch(2 + step, step);
        const Batch share = batch.share(group->rank(), group->size());
        ddp.zero_grad();
        ddp.backward(mean_loss(ddp, share), share_weight(share, batch));
        if (!model->W1.grad().defined()) {  // momentum goes on also without samples
          for (const Variable& used : {model->W1, model->b1, model->W2, model->b2}) {
            used.grad_buffer().zero();
            used.mark_grad_present();
          }
        }
        local.step();
        EXPECT_EQ(averager.average_parameters(), step >= 2);
        whole->zero_grad();
        mean_loss(*whole, batch).backward();
        global.step();
        EXPECT_LE(test::max_difference(model->W1.data(), whole->W1.data()), 1e-12) << step;
        EXPECT_LE(test::max_difference(model->b2.data(), whole->b2.data()), 1e-12) << step;
      }
    }
    pair->close();
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, Averaging, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
