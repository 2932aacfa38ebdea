// A training loop of one's own whose step is a DeviceGraph.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/layers/batch_norm.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

constexpr std::int64_t samples = 6, features = 5, classes = 3;

std::shared_ptr<nn::Module> make_model(Device device) {
  nn::manual_seed(3);
  const auto model = std::make_shared<nn::Sequential>();
  model->push_back(std::make_shared<nn::Linear>(features, 8));
  model->push_back(std::make_shared<nn::BatchNorm1d>(8));
  model->push_back(std::make_shared<nn::Linear>(8, classes));
  model->to(device);
  return model;
}

struct Batches {
  explicit Batches(Device device)
      : x(Tensor::zeros({samples, features}, DType::f32, device)),
        targets(Tensor::zeros({samples}, DType::i64, device)) {}

  void load(int step) const {
    std::vector<std::int64_t> wanted(samples);
    for (std::size_t i = 0; i < wanted.size(); ++i)
      wanted[i] = (static_cast<std::int64_t>(i) + step) % classes;
    x.copy_from(Tensor::from(test::waves(samples * features, step), x.shape()).to(DType::f32));
    targets.copy_from(Tensor::from(wanted, {samples}));
  }

  Tensor x, targets;  // the same memory in each step
};

/// Step number s of a loop: as it is, or, if the loop captures, three to warm up, then replays.
template <class Step>
void run(DeviceGraph& graph, bool captures, int s, const Step& step) {
  if (!captures) {
    step();
  } else if (s < 3) {
    graph.warm_up(step);
  } else {
    if (s == 3) graph.capture(step);
    graph.replay();
  }
}

/// Losses of ten steps, and then the parameters and buffers.
std::vector<float> train(Device device, bool captures, bool scales) {
  const auto model = make_model(device);
  optim::AdamW optimizer(model->named_parameters(), {.lr = 0.05});
  optim::GradScaler scaler({.init_scale = 1024, .growth_interval = 3}, device);
  const Batches batch(device);
  Tensor mean;
  const auto step = [&] {
    optimizer.zero_grad();
    const Variable loss = cross_entropy(model->forward(Variable(batch.x)), batch.targets);
    (scales ? scaler.scaled(loss) : loss).backward();
    mean = loss.data();
    if (scales) {
      scaler.step(optimizer);
      scaler.update();
    } else {
      optimizer.step();
    }
  };
  std::vector<float> found;
  DeviceGraph graph(device);
  for (int s = 0; s < 10; ++s) {
    batch.load(s);
    optimizer.set_lr(0.05 / (1 + s));
    run(graph, captures, s, step);
    found.push_back(static_cast<float>(mean.item()));
  }
  for (const auto& entry : model->state_dict()) {
    for (const float value : entry.tensor.to(Device{}).to(DType::f32).to_vector<float>())
      found.push_back(value);
  }
  return found;
}

class CapturedLoop : public testing::TestWithParam<Device> {};

INSTANTIATE_TEST_SUITE_P(Devices, CapturedLoop, testing::ValuesIn(test::devices_to_test()),
                         test::name_of_device_case);

TEST_P(CapturedLoop, HasTheBitsOfPlainSteps) {
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    SimulatedRuntime::instance().set_seed(seed);
    EXPECT_EQ(train(GetParam(), true, false), train(GetParam(), false, false));
  }
}

TEST_P(CapturedLoop, HasThemWithAGradScaler) {
  EXPECT_EQ(train(GetParam(), true, true), train(GetParam(), false, true));
}

TEST_P(CapturedLoop, TakesTheVeryFirstStepOfMomentum) {
  const Device device = GetParam();
  const nn::NamedParameter w{"w", Variable(Tensor::full({1}, 1.0, DType::f32, device), true)};
  optim::SGD sgd({w}, {.lr = 0.5, .momentum = 0.5, .dampening = 0.5});
  test::set_grad(w.variable, 1.0);
  DeviceGraph graph(device);
  graph.capture([&] { sgd.step(); });
  graph.replay();
  EXPECT_EQ(w.variable.data().item(), 0.5) << "the first takes the whole gradient";
  graph.replay();
  EXPECT_EQ(w.variable.data().item(), 0.0);
}

TEST_P(CapturedLoop, RefusesAnOptionThatChangesTheFormula) {
  const Device device = GetParam();
  const nn::NamedParameter w{"w", Variable(Tensor::full({4}, 1.0, DType::f32, device), true)};
  optim::SGD sgd({w}, {.lr = 0.1, .momentum = 0.9});
  test::set_grad(w.variable, 0.5);
  DeviceGraph graph(device);
  graph.capture([&] { sgd.step(); });
  graph.replay();
  StateDict state = sgd.state_dict();
  state.insert_all("", sgd.param_groups());
  state.at("param_groups/0/nesterov").fill(1.0);
  sgd.load_state_dict(state);
  const auto message = test::message_of<Error>([&] { graph.replay(); });
  EXPECT_NE(message.find("capture it again"), std::string::npos) << message;
}

/// The parameters after each of eight steps with momentum. The first `skipped` steps overflow.
std::vector<float> train_after_overflows(Device device, bool captures, int skipped) {
  const Variable w(Tensor::full({4}, 1.0, DType::f32, device), true);
  optim::SGD sgd({{"w", w}}, {.lr = 0.125, .momentum = 0.5, .dampening = 0.25});
  optim::GradScaler scaler({.init_scale = std::ldexp(1.0, 127)}, device);
  const Tensor x = Tensor::zeros({4}, DType::f32, device);
  const auto step = [&] {
    sgd.zero_grad();
    scaler.scaled(sum(w * Variable(x))).backward();
    scaler.step(sgd);
    scaler.update();
  };
  std::vector<float> found;
  DeviceGraph graph(device);
  for (int s = 0; s < 8; ++s) {
    const auto most = std::ldexp(1.0F, skipped);  // finite times the scale after `skipped` halvings
    const auto last = most * static_cast<float>(s) / 8;
    x.copy_from(Tensor::from(std::vector<float>{most, -most / 2, most / 4, last}, {4}));
    run(graph, captures, s, step);
    for (const float value : w.data().to(Device{}).to_vector<float>()) found.push_back(value);
  }
  return found;
}

TEST_P(CapturedLoop, HasTheBitsOfPlainStepsWhereAllBeforeTheCaptureAreSkipped) {
  for (const int skipped : {0, 2, 3, 4, 6}) {
    const auto plain = train_after_overflows(GetParam(), false, skipped);
    EXPECT_EQ(train_after_overflows(GetParam(), true, skipped), plain) << skipped;
    EXPECT_EQ(std::ranges::count(plain, 1.0F) / 4, skipped) << "steps that left all as it was";
  }
}

}  // namespace
}  // namespace lockstep
