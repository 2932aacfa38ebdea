// Modules whose parameters and buffers are on a device.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <vector>

#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep::nn {
namespace {

constexpr Device device{DeviceType::sim, 0};

std::shared_ptr<Sequential> small_model() {
  manual_seed(5);
  return std::make_shared<Sequential>(std::initializer_list<std::shared_ptr<Module>>{
      std::make_shared<BatchNorm2d>(3), std::make_shared<Embedding>(4, 2)});
}

Tensor images() {
  std::vector<float> values(2 * 3 * 4 * 4);
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = static_cast<float>(i % 7) / 8 - static_cast<float>(i % 3);
  return Tensor::from(values, {2, 3, 4, 4});
}

std::string bits(const StateDict& state) {
  std::string all;
  for (const auto& entry : state) {
    const Tensor here = entry.tensor.to(Device{});
    all.append(static_cast<const char*>(here.data()), here.bytes());
  }
  return all;
}

void expect_on(Device where, const Module& module) {
  for (const auto& entry : module.state_dict())
    EXPECT_EQ(entry.tensor.device(), where) << entry.name;
}

TEST(DeviceGuard, ModulesMadeUnderItHoldTheHostsBitsOnTheDevice) {
  const auto here = small_model();
  const auto there = [] {
    const DeviceGuard guard(device);
    return small_model();
  }();
  expect_on(device, *there);
  EXPECT_EQ(bits(there->state_dict()), bits(here->state_dict()));
  EXPECT_EQ(default_device(), Device{}) << "the guard is gone";
  expect_on(Device{}, Linear(2, 2));
}

TEST(DeviceGuard, TheInnermostCounts) {
  const DeviceGuard outer(device);
  {
    const DeviceGuard inner{Device{}};
    expect_on(Device{}, Linear(2, 2));
  }
  expect_on(device, Linear(2, 2));
}

/// Two training steps of forward and backward, the first `on` one device.
std::string after_two_passes(Device first, Device second) {
  manual_seed(1);
  BatchNorm2d norm(3);
  for (const Device where : {first, second}) {
    norm.to(where);
    expect_on(where, norm);
    sum(norm.forward(Variable(images().to(where)))).backward();
  }
  std::string all = bits(norm.state_dict());
  for (const Variable& parameter : norm.parameters()) {
    EXPECT_EQ(parameter.grad().device(), second);
    StateDict gradient;
    gradient.insert("gradient", parameter.grad());
    all += bits(gradient);
  }
  return all;
}

TEST(Module, MovesWithGradientsBuffersAndItsLayersHandles) {
  const std::string host = after_two_passes(Device{}, Device{});
  EXPECT_EQ(after_two_passes(device, device), host);
  EXPECT_EQ(after_two_passes(Device{}, device), host);
  EXPECT_EQ(after_two_passes(device, Device{}), host);
  EXPECT_EQ(after_two_passes(device, {DeviceType::sim, 1}), host);
}

TEST(Module, TensorOfAnotherDeviceIsRefusedWithBothNames) {
  BatchNorm2d norm(3);
  norm.to(device);
  try {
    static_cast<void>(norm.forward(Variable(images())));
    FAIL() << "an input on the host met parameters on a device";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("host"), std::string::npos) << error.what();
    EXPECT_NE(std::string(error.what()).find("sim:0"), std::string::npos) << error.what();
  }
}

TEST(Module, StateGoesBetweenDevicesByLoadStateDict) {
  const auto here = small_model();
  here->state_dict().at("0.weight").fill(0.5);
  const auto there = [] {
    const DeviceGuard guard(device);
    return small_model();
  }();
  there->load_state_dict(here->state_dict());
  expect_on(device, *there);
  EXPECT_EQ(bits(there->state_dict()), bits(here->state_dict()));
}

TEST(Variable, OnlyLeavesMoveToADevice) {
  const Variable x(Tensor::full({2}, 1.0), true);
  x.set_device(device);
  EXPECT_EQ(x.data().device(), device);
  EXPECT_THROW(sum(x).set_device(Device{}), Error);
}

}  // namespace
}  // namespace lockstep::nn
