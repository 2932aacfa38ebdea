// The numerics policy (docs/numerics.md): a training run gives the same bits when it is run again,
// and with another number of math threads.
#include <gtest/gtest.h>

#include <lockstep/comm/fake_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/trainer.hpp>

namespace lockstep::train {
namespace {

/// Losses of some steps and all parameters and buffers after them.
struct Bits {
  std::vector<double> losses;
  std::vector<double> state;
  bool operator==(const Bits&) const = default;
};

Bits train(const std::vector<std::string>& overrides, int threads) {
  set_math_threads(threads);
  auto deck = Deck::parse(R"(
    [data]
    kind = "synthetic"
    [optimizer]
    lr = 0.01
    momentum = 0.9
  )",
                          "numerics", overrides);
  const Classification task(deck);
  Trainer trainer(std::make_shared<FakeGroup>(1, 0), task, read_run_plan(deck));
  trainer.start_epoch(0);
  Bits bits;
  for (int step = 0; step < 4; ++step) bits.losses.push_back(trainer.step());
  for (const auto& entry : trainer.model().state_dict()) {
    const auto values = entry.tensor.to(DType::f64).to_vector<double>();
    bits.state.insert(bits.state.end(), values.begin(), values.end());
  }
  return bits;
}

struct Model {
  const char* name;
  std::vector<std::string> overrides;
};

class SameBits : public testing::TestWithParam<Model> {
 protected:
  ~SameBits() override { set_math_threads(1); }
};

TEST_P(SameBits, WhenRunAgain) {
  const auto& overrides = GetParam().overrides;
  EXPECT_EQ(train(overrides, 1), train(overrides, 1));
}

TEST_P(SameBits, WithOneAndTwoThreads) {
  const auto& overrides = GetParam().overrides;
  const Bits one = train(overrides, 1), two = train(overrides, 2);
  EXPECT_EQ(one.losses, two.losses);
  EXPECT_EQ(one, two);
}

INSTANTIATE_TEST_SUITE_P(
    Models, SameBits,
    testing::Values(
        Model{"convnet", {"model.kind=\"convnet\"", "train.batch_size=128"}},
        Model{"convnet_small_batch", {"model.kind=\"convnet\"", "train.batch_size=7"}},
        Model{"mlp", {"model.kind=\"mlp\"", "train.batch_size=128"}},
        Model{"mlp_odd", {"model.kind=\"mlp\"", "model.hidden=[333]", "train.batch_size=61"}},
        Model{"transformer",
              {"model.kind=\"transformer\"", "model.depth=2", "train.batch_size=16"}},
        Model{"resnet18",
              {"model.kind=\"resnet18\"", "data.synthetic_image_size=16",
               "data.synthetic_channels=3", "data.synthetic_samples=64", "train.batch_size=8"}}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace lockstep::train
