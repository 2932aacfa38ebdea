#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/model_averaging.hpp>
#include <lockstep/parallel/post_local_sgd.hpp>

#include "ranks.hpp"
#include "small_models.hpp"
#include "two_ranks.hpp"

// ddp.h5, local_sgd: two ranks, each following the gradients of its own samples.

namespace lockstep {
namespace {

/// The file's numbers for one averaging rule, and their tolerance.
struct LocalSgdCase {
  LocalSgdCase(const test::GoldenFile& file, const std::string& path)
      : averaged(file.tensor(path + "/averaged_after_step")) {
    for (const std::string name : {"weight_f64", "bias_f64", "loss_f64"}) {
      values.push_back(file.tensor(path + "/" + name));
      tolerances.push_back(file.tolerance(path + "/" + name));
    }
  }
  Tensor averaged;  ///< [steps]
  std::vector<Tensor>
      values;  ///< [steps, rank, ...] of weight and bias; the loss is from before the step
  std::vector<double> tolerances;
};

/// The file's group, read once: HDF5 must not be called from several threads.
struct LocalSgdFile {
  LocalSgdFile()
      : file("ddp.h5"),
        weight(file.tensor("local_sgd/weight").to(test::asked_for_device())),
        bias(file.tensor("local_sgd/bias").to(test::asked_for_device())),
        x(file.tensor("local_sgd/x").to(test::asked_for_device())),
        y(file.tensor("local_sgd/y").to(test::asked_for_device())),
        averager(file, "local_sgd/averager"),
        end_of_period(file, "local_sgd/end_of_period"),
        steps(x.size(1)),
        period(static_cast<std::int64_t>(file.number("local_sgd", "period"))),
        lr(file.number("local_sgd", "lr")) {}
  test::GoldenFile file;
  Tensor weight, bias, x, y;
  LocalSgdCase averager, end_of_period;
  std::int64_t steps, period;
  double lr;
};

struct LinearModel : nn::Module {
  LinearModel(const Tensor& w, const Tensor& b)
      : weight(register_parameter("weight", w)), bias(register_parameter("bias", b)) {}
  Variable forward(const Variable& x) override { return linear(x, weight, bias); }
  Variable weight, bias;
};

/// Element [i, j] of the two leading dimensions.
Tensor element(const Tensor& t, std::int64_t i, std::int64_t j) {
  const Shape& shape = t.shape();
  const Tensor row = t.slice(i, i + 1).reshape(Shape(std::span(shape.begin() + 1, shape.end())));
  return row.slice(j, j + 1).reshape(Shape(std::span(shape.begin() + 2, shape.end())));
}

class LocalSgdGolden : public testing::TestWithParam<int> {};

TEST_P(LocalSgdGolden, WeightsAndLossesAreThoseOfEveryStep) {
  const LocalSgdFile golden;
  ASSERT_EQ(golden.file.number("local_sgd", "world"), 2);
  ASSERT_EQ(golden.steps, static_cast<std::int64_t>(golden.file.number("local_sgd", "steps")));
  EXPECT_EQ(golden.file.unread("local_sgd"), std::vector<std::string>{});

  test::on_two_ranks(GetParam(), [&](const auto& group) {
    const std::int64_t rank = group->rank();
    for (const LocalSgdCase* expected : {&golden.averager, &golden.end_of_period}) {
      const auto model = std::make_shared<LinearModel>(golden.weight.clone(), golden.bias.clone());
      DistributedDataParallel ddp(model, group, {}, std::make_shared<PostLocalSgdHook>(nullptr, 0));
      optim::SGD sgd(model->named_parameters(), {.lr = golden.lr});
      PeriodicModelAverager averager(ddp.flat_values(), group, golden.period,
                                     expected == &golden.averager ? 0 : golden.period - 1);
      for (std::int64_t step = 0; step < golden.steps; ++step) {
        const Variable loss = mse_loss(ddp.forward(Variable(element(golden.x, rank, step))),
                                       element(golden.y, rank, step));
        ddp.zero_grad();
        ddp.backward(loss, 0.5);
        sgd.step();
        EXPECT_EQ(averager.average_parameters(),
                  expected->averaged.slice(step, step + 1).item() != 0.0);
        std::size_t v = 0;
        for (const Tensor& actual : {model->weight.data(), model->bias.data(), loss.data()}) {
          const Tensor reference = element(expected->values[v], step, rank);
          EXPECT_LE(
              test::max_difference(actual.to(DType::f64).reshape(reference.shape()), reference),
              expected->tolerances[v])
              << "value " << v << " after step " << step << " on rank " << rank;
          ++v;
        }
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, LocalSgdGolden, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
