// train.reduction = "invariant": a run has the same bits on any number of ranks that divides the
// shards, and with any number of math threads. Linked with ranks_mpi.cpp or ranks_threads.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <thread>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/trainer.hpp>
#include <parallel/ranks.hpp>

namespace lockstep::train {
namespace {

/// What a run leaves: losses of its steps and of the test set, parameters, buffers and the
/// optimizer's state.
struct Bits {
  std::vector<double> numbers;
  bool operator==(const Bits&) const = default;

  void add(const StateDict& state) {
    for (const auto& entry : state) {
      const auto values = entry.tensor.to(DType::f64).to_vector<double>();
      numbers.insert(numbers.end(), values.begin(), values.end());
    }
  }
};

struct Model {
  const char* name;
  int epochs, shards;
  std::vector<std::string> overrides;
  bool of_norms = false;  ///< not one of the zoo's: see NormTask
};

/// Normalisations, with dropouts between them.
class NormTask : public Classification {
 public:
  using Classification::Classification;
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override {
    return std::make_shared<nn::Sequential>(std::initializer_list<nn::Sequential::NamedModule>{
        {"conv1", std::make_shared<nn::Conv2d>(3, 16, 3)},
        {"bn1", std::make_shared<nn::BatchNorm2d>(16)},
        {"drop1", std::make_shared<nn::Dropout2d>(0.3)},
        {"conv2", std::make_shared<nn::Conv2d>(16, 16, 3)},
        {"bn2", std::make_shared<nn::BatchNorm2d>(16)},
        {"relu", std::make_shared<nn::ReLU>()},
        {"flatten", std::make_shared<nn::Flatten>()},
        {"drop2", std::make_shared<nn::Dropout>(0.5)},
        {"fc1", std::make_shared<nn::Linear>(256, 24)},
        {"bn3", std::make_shared<nn::BatchNorm1d>(24)},
        {"fc2", std::make_shared<nn::Linear>(24, 10)},
        {"log_softmax", std::make_shared<nn::LogSoftmax>()}});
  }
};

/// What a rank does; the last batch of an epoch has fewer samples than shards.
Bits train_on(const std::shared_ptr<ProcessGroup>& group, const Model& model, int threads) {
  static std::mutex reading;
  set_math_threads(threads);
  std::unique_ptr<Classification> task;
  RunPlan plan;
  {
    const std::lock_guard lock(reading);
    auto deck = Deck::parse(R"(
      data = {kind = "synthetic", synthetic_samples = 53, synthetic_test_samples = 20, synthetic_image_size = 8, synthetic_channels = 3}
      train = {batch_size = 24, reduction = "invariant"}
      eval = {batch_size = 7}
      optimizer = {lr = 0.05, momentum = 0.9}
    )",
                            "invariant", model.overrides);
    plan = read_run_plan(deck);
    plan.train.shards = model.shards;
    task =
        model.of_norms ? std::make_unique<NormTask>(deck) : std::make_unique<Classification>(deck);
  }
  Trainer trainer(group, *task, plan);
  Bits bits;
  for (int epoch = 0; epoch < model.epochs; ++epoch) {
    trainer.start_epoch(epoch);
    for (int step = 0; step < trainer.steps_an_epoch(); ++step) {
      bits.numbers.push_back(all_reduce_scalar(*group, trainer.step(), ReduceOp::sum));
    }
  }
  const auto evaluation = trainer.evaluate();
  bits.numbers.push_back(evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) bits.numbers.push_back(value);
  bits.add(trainer.model().state_dict());
  bits.add(trainer.optimizer().state_dict());
  return bits;
}

/// In a thread of its own, as in a process of its own.
Bits train_alone(const Model& model, int threads) {
  Bits bits;
  std::thread([&] { bits = train_on(std::make_shared<FakeGroup>(1, 0), model, threads); }).join();
  return bits;
}

class Invariant : public testing::TestWithParam<Model> {};

TEST_P(Invariant, RunsHaveTheSameBitsOnEveryNumberOfRanks) {
  const auto counts = test::rank_counts();
  const auto legal = [](int ranks) { return GetParam().shards % ranks == 0; };
  if (std::ranges::none_of(counts, legal)) return;  // under mpiexec there is one number
  const Bits alone = train_alone(GetParam(), 1);
  ASSERT_GT(alone.numbers.size(), 1000U);
  EXPECT_TRUE(alone == train_alone(GetParam(), 2)) << "two math threads";
  for (const int ranks : counts) {
    if (!legal(ranks)) continue;
    test::on_ranks(ranks, [&](const auto& group) {
      EXPECT_TRUE(train_on(group, GetParam(), 1) == alone)
          << "rank " << group->rank() << " of " << ranks;
    });
  }
}

INSTANTIATE_TEST_SUITE_P(
    Models, Invariant,
    testing::Values(
        Model{"mlp", 2, 12, {"model.kind=\"mlp\"", "model.hidden=[33]"}},
        Model{"convnet",
              2,
              12,
              {"model.kind=\"convnet\"", "data.synthetic_image_size=28",
               "data.synthetic_channels=1"}},
        Model{
            "convnet_in_parts_augmented",
            2,
            12,
            {"model.kind=\"convnet\"", "data.synthetic_image_size=28", "data.synthetic_channels=1",
             "train.accumulate=3", "data.augment_flip=true", "data.augment_crop_padding=2"}},
        Model{"transformer",
              2,
              12,
              {"model.kind=\"transformer\"", "model.depth=1", "model.encoder_dropout=0.1"}},
        Model{"transformer_in_bf16",
              1,
              12,
              {"model.kind=\"transformer\"", "model.depth=1", "train.precision=\"bf16\""}},
        Model{"convnet_in_bf16",
              2,
              12,
              {"model.kind=\"convnet\"", "data.synthetic_image_size=28",
               "data.synthetic_channels=1", "train.precision=\"bf16\""}},
        Model{"resnet18_in_bf16",
              1,
              4,
              {"model.kind=\"resnet18\"", "train.batch_size=8", "data.synthetic_samples=11",
               "data.synthetic_image_size=16", "train.precision=\"bf16\""}},
        Model{"mlp_in_fp16",
              2,
              12,
              {"model.kind=\"mlp\"", "model.hidden=[33]", "train.precision=\"fp16\"",
               "train.loss_scale=1e7"}},
        Model{"resnet18",
              1,
              4,
              {"model.kind=\"resnet18\"", "train.batch_size=8", "data.synthetic_samples=11",
               "data.synthetic_image_size=16"}},
        Model{"norms_of_all_shards", 2, 12, {"ddp.sync_batch_norm=true"}, true},
        Model{"norms_of_all_shards_in_parts",
              2,
              12,
              {"ddp.sync_batch_norm=true", "train.accumulate=2", "data.augment_flip=true"},
              true},
        Model{"resnet18_norms_of_all_shards",
              1,
              4,
              {"model.kind=\"resnet18\"", "train.batch_size=8", "ddp.sync_batch_norm=true",
               "data.synthetic_samples=11", "data.synthetic_image_size=16"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::train
