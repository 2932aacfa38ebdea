// Gradients sent as products of a low rank.
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/power_sgd_hook.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "given_gradients.hpp"
#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::GivenGradients;
using test::max_difference;

class PowerSgd : public testing::TestWithParam<int> {};

/// Compresses from the first step on, at any gain.
PowerSgdOptions at_once(std::int64_t rank) {
  return {.matrix_approximation_rank = rank, .start_step = 0, .min_compression_rate = 1e-3};
}

std::string bytes_of(const Tensor& t) {
  const Tensor on_host = t.to(Device{});
  return {static_cast<const char*>(on_host.data()), on_host.bytes()};
}

/// Of full rank, unlike test::wave, a sine over the elements; another one for each phase.
Tensor noise(const Shape& shape, double phase) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const auto x = static_cast<double>(i);
    values[i] = std::sin(phase + 1.7 * x + 0.9 * x * x);
  }
  return Tensor::from(values, shape, test::asked_for_device());
}

/// u v^T, another one for each phase.
Tensor outer(std::int64_t rows, std::int64_t columns, double phase) {
  const auto u = noise({rows}, phase).to_vector<double>();
  const auto v = noise({columns}, phase + 0.4).to_vector<double>();
  std::vector<double> product;
  for (const double a : u) {
    for (const double b : v) product.push_back(a * b);
  }
  return Tensor::from(product, {rows, columns});
}

/// The sum over `size` ranks of gradient(rank), in f64.
template <class F>
Tensor sum_over(int size, const F& gradient) {
  Tensor sum = gradient(0).to(DType::f64).clone();
  for (int r = 1; r < size; ++r) add_scaled(gradient(r).to(DType::f64), 1.0, sum);
  return sum;
}

/// The ranks' errors together, in f64.
Tensor sum_of_errors(ProcessGroup& group, const Tensor& error) {
  Tensor sum = error.to(DType::f64).clone();
  group.all_reduce(sum, ReduceOp::sum).wait();
  return sum;
}

// Each rank contributes one direction, so the sum's rank is the group's size, and that of P is
// larger: the rows of P beyond it are lost.
TEST_P(PowerSgd, SumOfNoHigherRankIsExact) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const bool feedback : {true, false}) {
        const auto model = std::make_shared<GivenGradients>(
            std::vector<Shape>{{8, 12}, {8, 3, 2, 2}, {40, 7}}, dtype);
        PowerSgdOptions options = at_once(5);
        options.use_error_feedback = feedback;
        const auto hook = std::make_shared<PowerSgdHook>(options);
        DistributedDataParallel ddp(model, group, {}, hook);
        ASSERT_EQ(hook->matrices().size(), 3U);
        for (int step = 0; step < 4; ++step) {
          const auto gradient = [&](std::size_t p, int rank) {
            const Shape shape = model->parts[p].shape();
            return outer(shape[0], shape.numel() / shape[0], 3.0 * step + rank).reshape(shape);
          };
          for (std::size_t p = 0; p < 3; ++p) {
            model->gradients[p] = gradient(p, group->rank()).to(dtype);
          }
          ddp.zero_grad();
          ddp.backward(model->forward({}), 1.0);
          const double rounding = dtype == DType::f32 ? 2e-5 : 2e-14;
          for (std::size_t p = 0; p < 3; ++p) {
            const Tensor sum = sum_over(group->size(), [&](int r) { return gradient(p, r); });
            EXPECT_LE(max_difference(model->parts[p].grad(), sum), rounding)
                << p << " in step " << step << " in " << name_of(dtype);
          }
        }
      }
    }
  });
}

// The sum of the steps' results and the remaining errors equals the sum of all contributions.
TEST_P(PowerSgd, ErrorsHoldTheSumsDeficitAndAllRanksHaveTheSameBits) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const DType dtype : {DType::f32, DType::f64}) {
      for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
        const auto model =
            std::make_shared<GivenGradients>(std::vector<Shape>{{9, 14}, {9}, {6, 5}}, dtype);
        const auto hook = std::make_shared<PowerSgdHook>(at_once(2));
        DistributedDataParallel ddp(model, group, {.buckets = buckets}, hook);
        const auto matrices = hook->matrices();
        ASSERT_EQ(matrices.size(), 2U);  // in reverse order of registration
        const Device device = test::asked_for_device();
        const Tensor given[] = {Tensor::zeros({6, 5}, DType::f64, device),
                                Tensor::zeros({9, 14}, DType::f64, device)};
        const Tensor brought[] = {given[0].clone(), given[1].clone()};
        for (int step = 0; step < 5; ++step) {
          const auto gradient = [&](const Shape& shape, int rank) {
            return noise(shape, 2.0 * step + 0.3 * rank).to(dtype);
          };
          model->gradients = {gradient({9, 14}, group->rank()),
                              Tensor::full({9}, group->rank() + step, dtype),
                              gradient({6, 5}, group->rank())};
          ddp.zero_grad();
          ddp.backward(model->forward({}), 1.0);
          const int n = group->size();
          for (const double sum : model->parts[1].grad().to(DType::f64).to_vector<double>()) {
            EXPECT_EQ(sum, n * (n - 1) / 2.0 + n * step) << "one dimension: as it is";
          }
          for (std::size_t m = 0; m < 2; ++m) {
            const Tensor grad = model->parts[m == 0 ? 2 : 0].grad();
            EXPECT_TRUE(test::same_on_all_ranks(*group, bytes_of(grad)));
            add_scaled(grad.to(DType::f64), 1.0, given[m]);
            add_scaled(sum_over(n, [&](int r) { return gradient(grad.shape(), r); }), 1.0,
                       brought[m]);
            const Tensor held = sum_of_errors(*group, matrices[m].error);
            EXPECT_GT(max_difference(held, Tensor::zeros(held.shape(), DType::f64)), 0.05);
            add_scaled(given[m], 1.0, held);
            EXPECT_LE(max_difference(held, brought[m]), dtype == DType::f32 ? 2e-5 : 4e-14)
                << "step " << step;
          }
        }
      }
    }
  });
}

TEST_P(PowerSgd, HasTheBitsOfAllReduceBeforeItsStart) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const test::Batch batch = test::make_batch(11, 0.5);
    const test::Batch share = batch.share(group->rank(), group->size());
    const double weight = static_cast<double>(share.rows()) / static_cast<double>(batch.rows());
    for (const BucketOptions& buckets : {BucketOptions{}, BucketOptions{1, 1}}) {
      PowerSgdOptions options = at_once(1);
      options.start_step = 3;
      const auto plain = std::make_shared<test::Mlp>(1.0), power = std::make_shared<test::Mlp>(1.0);
      DistributedDataParallel plain_ddp(plain, group, {.buckets = buckets});
      DistributedDataParallel power_ddp(
          power, group,
          {.buckets = buckets, .comm_hook = CommHookKind::power_sgd, .power_sgd = options});
      for (int step = 0; step < 5; ++step) {
        plain_ddp.zero_grad();
        plain_ddp.backward(mean_loss(plain_ddp, share), weight);
        power_ddp.zero_grad();
        power_ddp.backward(mean_loss(power_ddp, share), weight);
        for (const auto& [expected, actual] :
             {std::pair{plain->W1, power->W1}, std::pair{plain->W2, power->W2}}) {
          EXPECT_EQ(bytes_of(expected.grad()) == bytes_of(actual.grad()), step < 3)
              << "step " << step;
        }
        EXPECT_LE(max_difference(plain->b1.grad(), power->b1.grad()), 1e-15);
        EXPECT_FALSE(power->unused.grad().defined());
      }
    }
  });
}

TEST_P(PowerSgd, AnUnusedParameterHasNoGradientAndKeepsItsError) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const Shape shape{6, 5};
    const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{shape, shape});
    const auto hook = std::make_shared<PowerSgdHook>(at_once(1));
    DistributedDataParallel ddp(model, group, {}, hook);
    const Tensor error = hook->matrices().back().error;  // of the first parameter
    const auto always = noise(shape, 2.0);
    const auto step = [&](const Tensor& gradient) {
      model->gradients = {gradient, always};
      ddp.zero_grad();
      ddp.backward(model->forward({}), 1.0);
      EXPECT_TRUE(model->parts[1].grad().defined());
    };
    step({});
    EXPECT_FALSE(model->parts[0].grad().defined());

    step(noise(shape, group->rank()));
    ASSERT_TRUE(model->parts[0].grad().defined());
    const Tensor given = model->parts[0].grad().clone();
    const std::string kept = bytes_of(error);
    for (int unused = 0; unused < 2; ++unused) {
      step({});
      EXPECT_FALSE(model->parts[0].grad().defined());
      EXPECT_EQ(bytes_of(error), kept);
    }

    step(group->rank() == 0 ? noise(shape, 7.0) : Tensor());
    ASSERT_TRUE(model->parts[0].grad().defined()) << "rank 0 used it";
    add_scaled(model->parts[0].grad(), 1.0, given);
    const Tensor held = sum_of_errors(*group, error);
    add_scaled(given, 1.0, held);
    const Tensor brought = sum_over(group->size(), [&](int r) { return noise(shape, r); });
    add_scaled(noise(shape, 7.0), 1.0, brought);
    EXPECT_LE(max_difference(held, brought), 1e-14);
  });
}

/// M = 3 u1 v1^T + u2 v2^T with perpendicular unit vectors: the best approximation of rank 1 is the
/// first term, and the error of power iteration falls to a ninth with each step.
TEST_P(PowerSgd, WarmStartFindsTheBestApproximationAndRandomStartsDoNot) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const Tensor u = Tensor::from(std::vector<double>{0.6, 0.8, 0, 0.8, -0.6, 0}, {2, 3});
    const Tensor v = Tensor::from(std::vector<double>{0, 0.28, 0.96, 0, 0.96, -0.28}, {2, 3});
    const auto matrix = [&](double first, double second) {
      std::vector<double> m;
      const auto a = u.to_vector<double>(), b = v.to_vector<double>();
      for (std::size_t i = 0; i < 3; ++i) {
        for (std::size_t j = 0; j < 3; ++j) {
          m.push_back(first * a[i] * b[j] + second * a[i + 3] * b[j + 3]);
        }
      }
      return Tensor::from(m, {3, 3});
    };
    for (const bool warm : {true, false}) {
      const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{{3, 3}});
      PowerSgdOptions options = at_once(1);
      options.use_error_feedback = false;
      options.warm_start = warm;
      DistributedDataParallel ddp(model, group, {}, std::make_shared<PowerSgdHook>(options));
      model->gradients = {matrix(3, 1)};
      Tensor before;
      for (int step = 0; step < 24; ++step) {
        before = model->parts[0].grad().defined() ? model->parts[0].grad().clone() : Tensor();
        ddp.zero_grad();
        ddp.backward(model->forward({}), 1.0 / group->size());
      }
      const Tensor found = model->parts[0].grad();
      if (warm) {
        EXPECT_LE(max_difference(found, matrix(3, 0)), 1e-13);
      } else {
        EXPECT_GT(max_difference(found, matrix(3, 0)), 1e-4);
        EXPECT_GT(max_difference(found, before), 1e-4) << "every step draws anew";
      }
    }
  });
}

TEST_P(PowerSgd, GradientThatWasZeroComesBack) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{{6, 5}});
    DistributedDataParallel ddp(model, group, {}, std::make_shared<PowerSgdHook>(at_once(2)));
    for (const double factor : {0.0, 1.0}) {
      model->gradients = {outer(6, 5, 1.0)};
      scale(model->gradients[0], factor);
      ddp.zero_grad();
      ddp.backward(model->forward({}), 1.0 / group->size());
      EXPECT_LE(max_difference(model->parts[0].grad(), model->gradients[0]), 1e-14);
    }
  });
}

TEST_P(PowerSgd, NotANumberIsNotHidden) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{{6, 5}});
    DistributedDataParallel ddp(model, group, {}, std::make_shared<PowerSgdHook>(at_once(1)));
    model->gradients = {noise({6, 5}, 1.0)};
    if (group->rank() == group->size() - 1) {
      model->gradients[0].slice(2, 3).fill(std::numeric_limits<double>::quiet_NaN());
    }
    ddp.backward(model->forward({}), 1.0);
    for (const double value : model->parts[0].grad().to_vector<double>()) {
      EXPECT_TRUE(std::isnan(value));
    }
  });
}

// An overflow of scaled gradients, skipped by GradScaler, affects only its own step.
TEST_P(PowerSgd, AnOverflowInOneStepIsGoneInTheNext) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const double bad :
         {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
      const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{{6, 5}});
      DistributedDataParallel ddp(model, group, {}, std::make_shared<PowerSgdHook>(at_once(2)));
      for (int step = 0; step < 3; ++step) {
        model->gradients = {outer(6, 5, 1.0 + step)};
        if (step == 1 && group->rank() == group->size() - 1)
          model->gradients[0].slice(2, 3).fill(bad);
        ddp.zero_grad();
        ddp.backward(model->forward({}), 1.0 / group->size());
        if (step == 1) {
          EXPECT_FALSE(all_finite(model->parts[0].grad()));
        } else {
          EXPECT_LE(max_difference(model->parts[0].grad(), model->gradients[0]), 1e-12) << step;
        }
      }
    }
  });
}

// (8 + 12) x 1 numbers in place of 96: 4.8 times fewer.
TEST_P(PowerSgd, CompressesGradientsThatShrinkByMoreThanTheLeastRate) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (const double rate : {4.79, 4.8}) {
      PowerSgdOptions options = at_once(1);
      options.min_compression_rate = rate;
      const auto hook = std::make_shared<PowerSgdHook>(options);
      const auto model = std::make_shared<GivenGradients>(std::vector<Shape>{{8, 12}, {10}});
      DistributedDataParallel ddp(model, group, {}, hook);
      EXPECT_EQ(hook->matrices().size(), rate < 4.8 ? 1U : 0U);
    }
  });
}

TEST_P(PowerSgd, RanksThatDifferInItsNumbersAreNamed) {
  test::on_ranks(GetParam(), [](const auto& group) {
    if (group->size() == 1) return;
    const std::int64_t rank = group->rank() == 1 ? 2 : 1;
    const std::string message = test::message_of<Error>([&] {
      DistributedDataParallel(
          std::make_shared<test::Mlp>(1.0), group,
          {.comm_hook = CommHookKind::power_sgd, .power_sgd = {.matrix_approximation_rank = rank}});
    });
    EXPECT_NE(message.find("communication hook power_sgd (rank 2, start step 1000"),
              std::string::npos)
        << message;
  });
}

TEST(PowerSgdOptions, ThatMakeNoSenseAreRefused) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const PowerSgdOptions& options :
       {PowerSgdOptions{.matrix_approximation_rank = 0}, PowerSgdOptions{.start_step = -1},
        PowerSgdOptions{.min_compression_rate = 0}, PowerSgdOptions{.min_compression_rate = nan}}) {
    EXPECT_THROW(PowerSgdHook{options}, InputError);
  }
}

INSTANTIATE_TEST_SUITE_P(Ranks, PowerSgd, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
