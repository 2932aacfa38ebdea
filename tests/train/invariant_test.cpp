// train.reduction = "invariant": a run has the same bits on any number of ranks that divides the
// shards, and with any number of math threads. Linked with ranks_mpi.cpp or ranks_threads.cpp.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <mutex>
#include <string>
#include <thread>

#include <lockstep/base/hash.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <parallel/ranks.hpp>

namespace lockstep::train {
namespace {

/// A hash of a run's results: losses of its steps and of the test set, parameters, buffers and the
/// optimizer's state.
class Bits {
 public:
  void add(double number) { add(std::vector{number}); }
  void add(const StateDict& state) {
    for (const auto& entry : state) add(entry.tensor.to(DType::f64).to_vector<double>());
  }
  [[nodiscard]] std::string hash() const {
    EXPECT_GT(count_, 1000U);
    EXPECT_FALSE(nan_) << "which has the same bits everywhere";
    return to_hex(hasher_.digest());
  }

 private:
  void add(const std::vector<double>& numbers) {
    hasher_.update(numbers.data(), numbers.size() * sizeof(double));
    count_ += numbers.size();
    nan_ |= std::ranges::any_of(numbers, [](double number) { return std::isnan(number); });
  }
  Hasher hasher_;
  std::size_t count_ = 0;
  bool nan_ = false;
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

/// Trains on one rank and returns the hash of its bits; the last batch of an epoch, if not dropped,
/// has fewer samples than shards.
std::string train_on(const std::shared_ptr<ProcessGroup>& group, const Model& model, int threads) {
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
      bits.add(all_reduce_scalar(*group, trainer.step(), ReduceOp::sum));
    }
  }
  const auto evaluation = trainer.evaluate();
  bits.add(evaluation.loss);
  for (const auto& [name, value] : evaluation.metrics) bits.add(value);
  bits.add(trainer.model().state_dict());
  bits.add(trainer.optimizer().state_dict());
  return bits.hash();
}

/// In a thread of its own, as if in a process of its own.
std::string train_alone(const Model& model, int threads) {
  std::string bits;
  std::thread([&] { bits = train_on(std::make_shared<FakeGroup>(1, 0), model, threads); }).join();
  return bits;
}

class Invariant : public testing::TestWithParam<Model> {};

TEST_P(Invariant, RunsHaveTheSameBitsOnEveryNumberOfRanks) {
  std::string of_one_thread, of_two;             // written by the first and by the last rank
  for (const int ranks : test::rank_counts()) {  // under mpiexec there is one number
    if (GetParam().shards % ranks != 0) continue;
    test::on_ranks(ranks, [&](const auto& group) {
      const int last = group->size() - 1;
      if (group->rank() == 0 && of_one_thread.empty()) of_one_thread = train_alone(GetParam(), 1);
      if (group->rank() == last && of_two.empty()) of_two = train_alone(GetParam(), 2);
      const std::string alone =
          broadcast_object(*group, group->rank() == 0 ? of_one_thread : "", 0);
      EXPECT_EQ(broadcast_object(*group, group->rank() == last ? of_two : "", last), alone)
          << "two math threads";
      EXPECT_EQ(train_on(group, GetParam(), 1), alone)
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
        Model{"norms", 2, 12, {"train.drop_last=true", "data.augment_flip=true"}, true}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::train
