// BatchNorm over the samples of all ranks: equals that of one rank with the whole batch.
#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>

#include "ranks.hpp"
#include "small_models.hpp"

namespace lockstep {
namespace {

using test::max_difference;

/// A rank's rows of a batch.
struct Rows {
  std::int64_t begin, end;

  [[nodiscard]] Tensor of(const Tensor& whole) const { return whole.slice(begin, end); }
  [[nodiscard]] std::int64_t count() const { return end - begin; }
};

/// Ways to cut a batch.
enum class Cut : std::uint8_t {
  unequal,      ///< rank r has a share like r + 1
  last_empty,   ///< the last of several ranks has none, the others are even
  first_alone,  ///< all but the first have none
};

Rows rows_of(Cut cut, std::int64_t rows, int rank, int size) {
  const auto begin = [&](std::int64_t r) {
    switch (cut) {
      case Cut::unequal:
        return rows * r * (r + 1) / (std::int64_t{size} * (size + 1));
      case Cut::last_empty:
        return rows * r / std::max(size - 1, 1);
      case Cut::first_alone:
        break;
    }
    return r == 0 ? 0 : rows;
  };
  return {std::min(begin(rank), rows), std::min(begin(rank + 1), rows)};
}

constexpr Cut all_cuts[] = {Cut::unequal, Cut::last_empty, Cut::first_alone};

/// Sum over all elements of y times distinct numbers.
Variable weighted(const Variable& y, const Tensor& weights) { return sum(y * Variable(weights)); }

void expect_near(const Tensor& actual, const Tensor& expected, double tolerance,
                 const std::string& what) {
  const double difference = max_difference(actual.to(DType::f64), expected.to(DType::f64));
  EXPECT_LE(difference, tolerance) << what;
}

/// The parameters of every BatchNorm become different for each channel.
void make_uneven(nn::Module& module) {
  double phase = 0.3;
  for (const auto& [name, variable] : module.named_parameters()) {
    const Tensor wave = test::wave(variable.shape(), phase++);
    variable.data().copy_from(wave.to(variable.data().dtype()));
  }
}

struct Input {
  Shape shape;
  DType dtype;
  double tolerance;
  bool residual_and_relu = false;
  bool channel_blocks = false;
};

/// y, its x and, if any, its residual.
struct Result {
  Variable x, residual, y;
};

Result forward(nn::BatchNorm& layer, const Input& input, const Tensor& x, const Tensor& residual) {
  Result result{Variable(x, true), {}, {}};
  if (input.residual_and_relu) result.residual = Variable(residual, true);
  const Variable in = input.channel_blocks ? to_channel_blocks(result.x) : result.x;
  result.y = from_channel_blocks(layer.forward(in, result.residual, input.residual_and_relu));
  return result;
}

class SyncBatchNorms : public testing::TestWithParam<int> {};

void expect_the_whole_batch(int ranks, const Input& input) {
  const std::int64_t rows = input.shape[0], channels = input.shape[1];
  const Tensor x = test::wave(input.shape, 0.2, input.dtype);
  const Tensor shortcut = test::wave(input.shape, 4.2, input.dtype);
  const Tensor weights = test::wave(input.shape, 8.1, input.dtype);
  test::on_ranks(ranks, [&](const auto& group) {
    for (const Cut cut : all_cuts) {
      const nn::DTypeGuard dtype(input.dtype);
      nn::BatchNorm1d layer_1d(channels), whole_1d(channels);
      nn::BatchNorm2d layer_2d(channels), whole_2d(channels);
      const bool image = input.shape.dims() == 4;
      nn::BatchNorm& layer = image ? static_cast<nn::BatchNorm&>(layer_2d) : layer_1d;
      nn::BatchNorm& whole = image ? static_cast<nn::BatchNorm&>(whole_2d) : whole_1d;
      make_uneven(layer);
      make_uneven(whole);
      convert_sync_batchnorm(layer, *group);
      const Rows mine = rows_of(cut, rows, group->rank(), group->size());

      for (int pass = 0; pass < 2; ++pass) {  // the second adds to gradients, and to statistics
        const Result expected = forward(whole, input, x, shortcut);
        weighted(expected.y, weights).backward();
        const Result actual = forward(layer, input, mine.of(x), mine.of(shortcut));
        weighted(actual.y, mine.of(weights)).backward();

        expect_near(actual.y.data(), mine.of(expected.y.data()), input.tolerance, "y");
        expect_near(actual.x.grad(), mine.of(expected.x.grad()), input.tolerance, "grad x");
        if (input.residual_and_relu) {
          expect_near(actual.residual.grad(), mine.of(expected.residual.grad()), 0.0, "residual");
        }
        const auto parts = layer.parameters(), sums = whole.parameters();
        for (std::size_t p = 0; p < sums.size(); ++p) {
          const Tensor sum_of_parts = parts[p].grad().clone();
          group->all_reduce(sum_of_parts, ReduceOp::sum).wait();
          expect_near(sum_of_parts, sums[p].grad(), 16 * input.tolerance, "grad of a parameter");
        }
        const auto moved = layer.named_buffers(), oracle = whole.named_buffers();
        for (std::size_t b = 0; b < oracle.size(); ++b) {
          const Tensor value = moved[b].second.to(DType::f64);
          expect_near(value, oracle[b].second, input.tolerance, oracle[b].first);
          const auto numbers = value.template to_vector<double>();
          EXPECT_TRUE(test::same_on_all_ranks(
              *group, std::string(reinterpret_cast<const char*>(numbers.data()),
                                  numbers.size() * sizeof(double))))
              << oracle[b].first;
        }
      }
    }
  });
}

TEST_P(SyncBatchNorms, ImagesInDoublePrecisionAreThoseOfOneRank) {
  expect_the_whole_batch(GetParam(), {{7, 3, 4, 5}, DType::f64, 1e-14});
}

TEST_P(SyncBatchNorms, ImagesAreThoseOfOneRank) {
  expect_the_whole_batch(GetParam(), {{7, 3, 4, 5}, DType::f32, 2e-6});
}

TEST_P(SyncBatchNorms, VectorsAreThoseOfOneRank) {
  expect_the_whole_batch(GetParam(), {{11, 5}, DType::f64, 1e-14});
  expect_the_whole_batch(GetParam(), {{11, 5, 3}, DType::f64, 1e-14});
}

TEST_P(SyncBatchNorms, ShortcutAndReluAreThoseOfOneRank) {
  expect_the_whole_batch(GetParam(), {{7, 3, 4, 5}, DType::f64, 1e-14, true});
}

TEST_P(SyncBatchNorms, ImagesInChannelBlocksAreThoseOfOneRank) {
  expect_the_whole_batch(GetParam(), {{7, 32, 4, 5}, DType::f32, 2e-6, false, true});
  expect_the_whole_batch(GetParam(), {{7, 32, 4, 5}, DType::f32, 2e-6, true, true});
}

TEST_P(SyncBatchNorms, ValuesFarFromZeroAreAccurate) {
  // Mean 4096 and steps of 1/16, all exact in f32: E[x^2] - mean^2 would cancel completely.
  std::vector<float> values(6 * 64);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 4096.0F + static_cast<float>(i * 37 % 64) / 16.0F;
  }
  const Tensor x = Tensor::from(values, {6, 1, 8, 8}, test::asked_for_device());
  const nn::DeviceGuard device(test::asked_for_device());
  nn::BatchNorm2d whole(1, {.momentum = 1.0});
  static_cast<void>(whole(Variable(x)));
  const double variance = whole.state_dict().at("running_var").item();
  test::on_ranks(GetParam(), [&](const auto& group) {
    SyncBatchNorm layer(1, *group, {.momentum = 1.0});
    const Rows mine = rows_of(Cut::unequal, 6, group->rank(), group->size());
    static_cast<void>(layer(Variable(mine.of(x))));
    EXPECT_NEAR(layer.state_dict().at("running_var").item(), variance, 1e-6 * variance);
  });
}

TEST_P(SyncBatchNorms, ABatchWithoutSamplesOnAnyRankLeavesStatisticsAlone) {
  test::on_ranks(GetParam(), [](const auto& group) {
    SyncBatchNorm layer(3, *group);
    const Variable x(Tensor::empty({0, 3, 4, 4}, DType::f32, test::asked_for_device()), true);
    const Variable y = layer(x);
    EXPECT_EQ(y.shape(), (Shape{0, 3, 4, 4}));
    sum(y).backward();
    EXPECT_EQ(layer.parameters()[0].grad().template to_vector<float>(), (std::vector<float>(3)));
    EXPECT_EQ(layer.state_dict().at("running_var").template to_vector<float>(),
              (std::vector<float>{1, 1, 1}));
  });
}

TEST_P(SyncBatchNorms, OneValueAChannelOnAllRanksTogetherIsRefusedOnEveryRank) {
  test::on_ranks(GetParam(), [](const auto& group) {
    SyncBatchNorm layer(4, *group);
    const auto refused = [&](std::int64_t rows) {
      const Variable x(Tensor::full({rows, 4}, 2.0, DType::f32, test::asked_for_device()));
      return test::message_of<ShapeError>([&] { static_cast<void>(layer(x)); });
    };
    const std::string message = refused(group->rank() == 0 ? 1 : 0);
    EXPECT_NE(message.find("more than one value"), std::string::npos) << message;
    EXPECT_EQ(layer.state_dict().at("running_var").template to_vector<float>(),
              std::vector<float>(4, 1.0F));
    if (group->size() == 1) return;
    EXPECT_EQ(refused(1), "nothing was thrown") << "one on each rank";
  });
}

TEST_P(SyncBatchNorms, EvaluationUsesRunningStatisticsAndSendsNothing) {
  test::on_ranks(GetParam(), [](const auto& group) {
    SyncBatchNorm layer(2, *group);
    EXPECT_TRUE(layer.forward_is_collective());
    static_cast<void>(layer(Variable(test::wave({4, 2}, 0.1 * group->rank(), DType::f32))));
    layer.eval();
    EXPECT_FALSE(layer.forward_is_collective());
    nn::BatchNorm1d alone(2);
    alone.load_state_dict(layer.state_dict());
    alone.eval();
    const Variable x(test::wave({3, 2}, 0.7, DType::f32));
    for (int times = 0; times <= group->rank(); ++times) {  // ranks that call it unequally often
      EXPECT_EQ(layer(x).data().template to_vector<float>(),
                alone(x).data().template to_vector<float>());
    }
  });
}

TEST_P(SyncBatchNorms, WithoutRunningStatisticsOnlyTrainingIsShared) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const nn::BatchNormOptions options{.affine = false, .track_running_stats = false};
    nn::BatchNorm1d layer(3, options), alone(3, options);
    convert_sync_batchnorm(layer, *group);
    const std::int64_t share = 4;
    const Tensor x = test::wave({share * group->size(), 3}, 0.2, DType::f32);
    const Rows rows{share * group->rank(), share * (group->rank() + 1)};
    const Tensor whole = alone.forward(Variable(x)).data();
    const Variable mine(rows.of(x));
    expect_near(layer.forward(mine).data(), rows.of(whole), 1e-6, "training");
    layer.eval();
    EXPECT_FALSE(layer.forward_is_collective());
    expect_near(layer.forward(mine).data(), alone.forward(mine).data(), 0.0, "evaluation");
  });
}

TEST_P(SyncBatchNorms, ConversionKeepsNamesAndTensorsOfTheWholeTree) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model =
        std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
            std::make_shared<nn::Conv2d>(1, 4, 3),
            std::make_shared<nn::Residual>(std::make_shared<nn::BatchNorm2d>(4)),
            std::make_shared<nn::Flatten>(), std::make_shared<nn::BatchNorm1d>(16)});
    const StateDict before = model->state_dict();
    EXPECT_FALSE(model->forward_is_collective());
    convert_sync_batchnorm(*model, *group);
    for (const auto i : {std::size_t{1}, std::size_t{3}}) {
      EXPECT_TRUE(model->children()[i].second->forward_is_collective()) << i;
    }
    EXPECT_TRUE(model->forward_is_collective());
    const StateDict after = model->state_dict();
    ASSERT_EQ(after.size(), before.size());
    for (auto a = after.begin(), b = before.begin(); a != after.end(); ++a, ++b) {
      EXPECT_EQ(a->name, b->name);
      EXPECT_EQ(a->tensor.data(), b->tensor.data()) << a->name;
    }
  });
}

TEST_P(SyncBatchNorms, LayersAreAsManyAsOneLikesAndHaveOneGroupMore) {
  test::on_ranks(GetParam(), [](const auto& group) {
    for (int i = 0; i < 300; ++i) {
      const SyncBatchNorm layer(1, *group);
      nn::BatchNorm1d converted(1);
      convert_sync_batchnorm(converted, *group);
      ASSERT_TRUE(converted.forward_is_collective());
    }
    SyncBatchNorm first(2, *group), second(2, *group);
    const Variable x(test::wave({3, 2}, 0.3 * group->rank(), DType::f32));
    sum(second(first(x))).backward();
    EXPECT_TRUE(first.parameters()[0].grad().defined());
  });
}

TEST_P(SyncBatchNorms, ModelsWithoutBatchNormStayAsTheyAre) {
  test::on_ranks(GetParam(), [](const auto& group) {
    nn::Linear model(3, 2);
    convert_sync_batchnorm(model, *group);
    EXPECT_FALSE(model.forward_is_collective());
  });
}

/// The state of `model` after two steps on a batch that `group` shares.
StateDict state_after_training(const std::shared_ptr<nn::Module>& model,
                               const std::shared_ptr<ProcessGroup>& group, const test::Batch& batch,
                               Cut cut) {
  // Tiny buckets, which are launched during backward between the layers' own calls.
  DistributedDataParallel ddp(model, group, {.buckets = {256, 4096}, .sync_batch_norm = true});
  optim::SGD sgd(model->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  const Rows mine = rows_of(cut, batch.rows(), group->rank(), group->size());
  for (int step = 0; step < 2; ++step) {
    const Variable output = ddp.forward(Variable(mine.of(batch.x)));
    const Variable loss = mine.count() > 0 ? nll_loss(output, mine.of(batch.target)) : sum(output);
    ddp.zero_grad();
    ddp.backward(loss, static_cast<double>(mine.count()) / static_cast<double>(batch.rows()));
    sgd.step();
  }
  return model->state_dict();
}

std::shared_ptr<nn::Module> small_convnet() {
  return std::make_shared<nn::Sequential>(std::initializer_list<std::shared_ptr<nn::Module>>{
      std::make_shared<nn::Conv2d>(1, 16, 3), std::make_shared<nn::Conv2d>(16, 32, 3),
      std::make_shared<nn::BatchNorm2d>(32), std::make_shared<nn::ReLU>(),
      std::make_shared<nn::AdaptiveAvgPool2d>(1), std::make_shared<nn::Flatten>(),
      std::make_shared<nn::BatchNorm1d>(32), std::make_shared<nn::Linear>(32, 4),
      std::make_shared<nn::LogSoftmax>()});
}

void expect_same_training(int ranks, DType dtype, double tolerance) {
  const nn::DTypeGuard guard(dtype);
  const nn::DeviceGuard device(test::asked_for_device());
  const test::Batch batch{test::wave({7, 1, 8, 8}, 0.4, dtype), test::make_batch(7, 0.0).target};
  const auto whole = small_convnet();
  StateDict start;
  for (const auto& entry : whole->state_dict()) start.insert(entry.name, entry.tensor.clone());
  optim::SGD sgd(whole->named_parameters(), {.lr = 0.05, .momentum = 0.9});
  for (int step = 0; step < 2; ++step) {
    sgd.zero_grad();
    nll_loss(whole->forward(Variable(batch.x)), batch.target).backward();
    sgd.step();
  }
  test::on_ranks(ranks, [&](const auto& group) {
    for (const Cut cut : {Cut::unequal, Cut::last_empty}) {
      const nn::DTypeGuard in_thread(dtype);
      const auto model = small_convnet();
      model->load_state_dict(start);
      const StateDict state = state_after_training(model, group, batch, cut);
      for (const auto& entry : whole->state_dict()) {
        expect_near(state.at(entry.name), entry.tensor, tolerance, entry.name);
      }
    }
  });
}

TEST_P(SyncBatchNorms, ModelTrainedOnManyRanksIsThatOfOneRank) {
  expect_same_training(GetParam(), DType::f64, 1e-13);
}

TEST_P(SyncBatchNorms, ModelInChannelBlocksTrainedOnManyRanksIsThatOfOneRank) {
  expect_same_training(GetParam(), DType::f32, 2e-5);
}

/// Two layers of which a rank uses one, below the normalisation.
struct TwoBelow : nn::Module {
  Variable head = register_parameter("head", test::wave({4, 5}, 0.1));
  std::shared_ptr<nn::BatchNorm1d> norm =
      register_module("norm", std::make_shared<nn::BatchNorm1d>(5));
  std::array<std::shared_ptr<nn::Linear>, 2> below{
      register_module("below0", std::make_shared<nn::Linear>(6, 5)),
      register_module("below1", std::make_shared<nn::Linear>(6, 5))};
  std::size_t used = 0;

  TwoBelow() { make_uneven(*this); }
  Variable forward(const Variable& x) override { return above(below[used]->forward(x)); }
  [[nodiscard]] Variable above(const Variable& y) const {
    return linear(norm->forward(y), head, {});
  }
};

// The first buckets are those of the last layer: on a rank that does not use it they are launched
// before the normalisation's backward, elsewhere after it.
TEST_P(SyncBatchNorms, RanksThatUseDifferentLayersKeepStep) {
  const test::Batch batch = test::make_batch(12, 0.5);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const nn::DTypeGuard double_precision(DType::f64);
    const int size = group->size();
    TwoBelow whole;
    std::vector<Variable> parts;
    for (int r = 0; r < size; ++r) {
      const Variable rows(rows_of(Cut::unequal, 12, r, size).of(batch.x));
      parts.push_back(whole.below[static_cast<std::size_t>(r % 2)]->forward(rows));
    }
    cross_entropy(whole.above(concat(parts, 0)), batch.target).backward();

    const auto model = std::make_shared<TwoBelow>();
    model->used = static_cast<std::size_t>(group->rank() % 2);
    DistributedDataParallel ddp(model, group, {.buckets = {1, 1}, .sync_batch_norm = true});
    const Rows mine = rows_of(Cut::unequal, 12, group->rank(), size);
    const test::Batch share{mine.of(batch.x), mine.of(batch.target)};
    const Variable output = ddp.forward(Variable(share.x));
    const bool any = mine.count() > 0;
    ddp.zero_grad();
    ddp.backward(any ? cross_entropy(output, share.target) : sum(output),
                 static_cast<double>(mine.count()) / 12.0);
    const auto actual = model->named_parameters(), expected = whole.named_parameters();
    for (std::size_t p = 0; p < expected.size(); ++p) {
      const Tensor gradient = actual[p].variable.grad(), oracle = expected[p].variable.grad();
      ASSERT_EQ(gradient.defined(), oracle.defined()) << actual[p].name;
      if (oracle.defined()) expect_near(gradient, oracle, 1e-14, actual[p].name);
    }
  });
}

TEST_P(SyncBatchNorms, ARankThatOmitsForwardGetsTheRemedy) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<nn::BatchNorm1d>(3);
    DistributedDataParallel ddp(model, group, {.sync_batch_norm = true});
    const auto message = test::message_of<Error>([&] { ddp.backward({}, 0.0); });
    EXPECT_NE(message.find("runs forward on a batch of 0 samples"), std::string::npos) << message;
    model->eval();
    EXPECT_NO_THROW(ddp.backward({}, 0.0));
  });
}

TEST_P(SyncBatchNorms, RanksMustAgreeWhetherToConvert) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const bool last = group->rank() == group->size() - 1;
    const auto model = std::make_shared<nn::BatchNorm1d>(3);
    const auto message = test::message_of<Error>(
        [&] { const DistributedDataParallel ddp(model, group, {.sync_batch_norm = last}); });
    EXPECT_EQ(message.find("sync_batch_norm = true") != std::string::npos, group->size() > 1);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, SyncBatchNorms, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
