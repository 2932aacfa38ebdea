// The numerics policy (docs/reference/numerics.md): a training run gives the same bits when it is
// run again, and with another number of math threads.
#include <gtest/gtest.h>

#include <thread>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

/// Losses of some steps and all parameters and buffers after them.
struct Bits {
  std::vector<double> losses;
  std::vector<double> state;
  bool operator==(const Bits&) const = default;
};

struct Model {
  const char* name;
  int steps;
  std::vector<std::string> overrides;
};

Bits train_here(const Model& model, int threads) {
  set_math_threads(threads);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    [optimizer]
    lr = 0.01
    momentum = 0.9
  )",
                          "numerics", model.overrides);
  const Classification task(deck);
  Trainer trainer(std::make_shared<FakeGroup>(1, 0), task, read_run_plan(deck));
  trainer.start_epoch(0);
  Bits bits;
  for (int step = 0; step < model.steps; ++step) bits.losses.push_back(trainer.step());
  for (const auto& entry : trainer.model().state_dict()) {
    const auto values = entry.tensor.to(DType::f64).to_vector<double>();
    bits.state.insert(bits.state.end(), values.begin(), values.end());
  }
  return bits;
}

/// In a thread of its own, as if in a process of its own: state that math libraries keep per thread
/// and shape does not pass to the next run.
Bits train(const Model& model, int threads) {
  Bits bits;
  std::thread([&] { bits = train_here(model, threads); }).join();
  return bits;
}

class SameBits : public testing::TestWithParam<Model> {};

TEST_P(SameBits, WhenRunAgainAndWithTwoThreads) {
  const Bits one = train(GetParam(), 1), again = train(GetParam(), 1), two = train(GetParam(), 2);
  EXPECT_EQ(one.losses, again.losses);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_TRUE(one.state == again.state);  // too long to print
  EXPECT_TRUE(one.state == two.state);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBits,
    testing::Values(
        Model{"convnet", 4, {"model.kind=\"convnet\"", "train.batch_size=128"}},
        Model{"convnet_small_batch", 4, {"model.kind=\"convnet\"", "train.batch_size=7"}},
        Model{"mlp", 4, {"model.kind=\"mlp\"", "train.batch_size=128"}},
        Model{"mlp_odd", 4, {"model.kind=\"mlp\"", "model.hidden=[333]", "train.batch_size=61"}},
        Model{"transformer",
              3,
              {"model.kind=\"transformer\"", "model.depth=2", "train.batch_size=16"}},
        Model{"resnet18",
              3,
              {"model.kind=\"resnet18\"", "data.synthetic_image_size=16",
               "data.synthetic_channels=3", "data.synthetic_samples=64", "train.batch_size=8"}},
        Model{"resnet18_batch_64",
              1,
              {"model.kind=\"resnet18\"", "data.synthetic_image_size=32",
               "data.synthetic_channels=3", "data.synthetic_samples=64", "train.batch_size=64"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::train
