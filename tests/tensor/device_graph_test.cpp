#include <lockstep/tensor/device_graph.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/mentions.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

namespace lockstep {
namespace {

constexpr Device graph_device{DeviceType::sim, 0};

Tensor graph_input(const Shape& shape, int seed, Device device) {
  std::vector<float> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::sin(static_cast<float>(i) * 0.7F + static_cast<float>(seed));
  return Tensor::from(values, shape).to(device);
}

/// A chain of operations with memory of its own.
Tensor chain(const Tensor& x) {
  Tensor y = x.clone();
  y *= 0.37;
  Tensor z = y.clone();
  z += x;
  z *= y;
  y += z;
  return y;
}

class DeviceGraphOn : public testing::TestWithParam<Device> {};

INSTANTIATE_TEST_SUITE_P(Devices, DeviceGraphOn, testing::ValuesIn(test::devices_to_test()),
                         test::name_of_device_case);

TEST_P(DeviceGraphOn, AReplayHasTheBitsOfPlainCalls) {
  const Device device = GetParam();
  for (std::uint64_t seed = 0; seed < 3; ++seed) {
    SimulatedRuntime::instance().set_seed(seed);
    const Tensor x = Tensor::zeros({40}, DType::f32, device);
    Tensor result;
    DeviceGraph graph(device);
    const auto work = [&] { result = chain(x); };
    for (int i = 0; i < 2; ++i) graph.warm_up(work);
    EXPECT_FALSE(graph.is_captured());
    graph.capture(work);
    EXPECT_TRUE(graph.is_captured());
    for (int i = 0; i < 4; ++i) {
      const Tensor input = graph_input({40}, i, device);
      x.copy_from(input);
      graph.replay();
      EXPECT_EQ(result.to_vector<float>(), chain(input).to_vector<float>()) << "replay " << i;
    }
  }
}

TEST_P(DeviceGraphOn, WarmUpRunsTheWorkAndCaptureDoesNot) {
  const Device device = GetParam();
  Tensor count = Tensor::zeros({1}, DType::f32, device);
  DeviceGraph graph(device);
  const auto work = [&] { count += 1.0; };
  graph.warm_up(work);
  graph.warm_up(work);
  EXPECT_EQ(count.item(), 2.0);
  graph.capture(work);
  EXPECT_EQ(count.item(), 2.0);
  for (int i = 0; i < 3; ++i) graph.replay();
  EXPECT_EQ(count.item(), 5.0);
}

TEST_P(DeviceGraphOn, ItsMemoryIsNobodyElses) {
  const Device device = GetParam();
  const Tensor x = graph_input({1000}, 1, device);
  const auto expected = chain(x).to_vector<float>();
  DeviceGraph graph(device);
  Tensor result;
  const auto work = [&] { result = chain(x); };
  for (int i = 0; i < 2; ++i) graph.warm_up(work);
  graph.capture(work);
  std::vector<Tensor> others;
  for (int i = 0; i < 8; ++i) others.push_back(Tensor::full({1000}, i, DType::f32, device));
  graph.replay();
  EXPECT_EQ(result.to_vector<float>(), expected);
  for (int i = 0; i < 8; ++i)
    EXPECT_EQ(others[static_cast<std::size_t>(i)].to_vector<float>(),
              std::vector<float>(1000, static_cast<float>(i)));
  others.clear();
  CachingAllocator::of(device).flush();
  graph.replay();
  EXPECT_EQ(result.to_vector<float>(), expected);
  result = {};  // its memory is the graph's as before
  graph.replay();
  current_stream(device).synchronize();
}

TEST_P(DeviceGraphOn, WhatWaitsForTheDeviceCannotBeCaptured) {
  const Device device = GetParam();
  const Tensor x = graph_input({8}, 1, device);
  DeviceGraph graph(device);
  Tensor result;
  const auto waits = [&] {
    result = chain(x);
    result *= x.slice(0, 1).item();
  };
  for (int i = 0; i < 2; ++i) graph.warm_up(waits);
  EXPECT_THROW(graph.capture(waits), DeviceError);
  EXPECT_FALSE(graph.is_captured());
  EXPECT_EQ(DeviceGraph::capturing(), nullptr);
  // Plain work goes on, and so may another capture.
  const auto work = [&] { result = chain(x); };
  for (int i = 0; i < 2; ++i) graph.warm_up(work);
  graph.capture(work);
  graph.replay();
  EXPECT_EQ(result.to_vector<float>(), chain(x).to_vector<float>());
}

TEST_P(DeviceGraphOn, TheNextGraphGetsItsMemory) {
  const Device device = GetParam();
  const Tensor x = graph_input({100000}, 1, device);
  const auto once = [&] {
    DeviceGraph graph(device);
    Tensor result;
    const auto work = [&] { result = chain(x); };
    for (int i = 0; i < 2; ++i) graph.warm_up(work);
    graph.capture(work);
    graph.replay();
    return result.to_vector<float>();
  };
  const auto first = once();
  const auto before = memory_stats(device).system_allocations;
  EXPECT_EQ(once(), first);
  EXPECT_EQ(memory_stats(device).system_allocations, before);
}

TEST(DeviceGraph, TellsWhatTheHostWaitsFor) {
  const Tensor x = graph_input({8}, 1, graph_device);
  DeviceGraph graph(graph_device);
  const auto message = test::message_of<DeviceError>(
      [&] { graph.capture([&] { static_cast<void>(x.slice(0, 1).item()); }); });
  EXPECT_TRUE(test::mentions(message, "is forbidden while a stream of sim:0 is captured"))
      << message;
}

TEST(DeviceGraph, AWaitThatTheWorkHidesIsSeenInTheEnd) {
  const Tensor x = Tensor::zeros({1}, DType::f32, graph_device);
  DeviceGraph graph(graph_device);
  const auto message = test::message_of<DeviceError>([&] {
    graph.capture([&] {
      try {
        static_cast<void>(x.item());
      } catch (const DeviceError&) {
        return;
      }
    });
  });
  EXPECT_TRUE(test::mentions(message, "the capture is lost")) << message;
  EXPECT_FALSE(graph.is_captured());
}

TEST(DeviceGraph, RefusesMoreMemoryThanTheWarmUpLeft) {
  const Tensor x = graph_input({1 << 16}, 1, graph_device);
  DeviceGraph graph(graph_device);
  const auto message = test::message_of<Error>([&] { graph.capture([&] { chain(x); }); });
  EXPECT_TRUE(test::mentions(message, "256 KiB") && test::mentions(message, "warm_up")) << message;
  EXPECT_EQ(chain(x).to_vector<float>(), chain(x.to(Device{})).to_vector<float>());
}

TEST(DeviceGraph, OtherThreadsUseTheDeviceDuringACapture) {
  Tensor count = Tensor::zeros({1}, DType::f32, graph_device);
  DeviceGraph graph(graph_device);
  std::vector<float> theirs;
  graph.capture([&] {
    count += 1.0;
    std::jthread([&] {  // as a loader does
      const StreamGuard guard(Stream::from_pool(graph_device));
      theirs = Tensor::full({5000}, 3, DType::f32, graph_device).to_vector<float>();
    })
        .join();
    count += 1.0;
  });
  EXPECT_EQ(theirs, std::vector<float>(5000, 3.0F));
  graph.replay();
  EXPECT_EQ(count.item(), 2.0);
}

TEST(DeviceGraph, NumbersOfTheHostGoAlongWithEachReplay) {
  DeviceGraph graph(graph_device);
  const Tensor result = Tensor::zeros({1}, DType::i64, graph_device);
  std::int64_t now = 0;
  graph.capture([&] {
    const auto numbers = graph.numbers(sizeof now);
    EXPECT_EQ(DeviceGraph::capturing(), &graph);
    graph.before_replay([&now, numbers] { *static_cast<std::int64_t*>(numbers.host) = now; });
    graph.after_replay([&now] { ++now; });
    // The kernel reads them when it runs.
    SimulatedRuntime::instance().launch(
        current_stream(graph_device).queue(), "read",
        LateCall::of([from = static_cast<const std::int64_t*>(numbers.device),
                      to = static_cast<std::int64_t*>(result.kernel_data())] { *to += *from; }));
  });
  for (int i = 0; i < 10; ++i) graph.replay();  // without waiting in between
  EXPECT_EQ(result.item(), 45.0);
  EXPECT_EQ(now, 10);
}

TEST(DeviceGraph, RefusesMoreNumbersThanItHasRoomFor) {
  DeviceGraph graph(graph_device);
  const auto message = test::message_of<Error>(
      [&] { graph.capture([&] { static_cast<void>(graph.numbers((64U << 10U) + 1)); }); });
  EXPECT_TRUE(test::mentions(message, "65536 bytes")) << message;
}

TEST(DeviceGraph, RefusesToPinMemoryThatReplaysWouldReadAfterItsRelease) {
  DeviceGraph graph(graph_device);
  const Tensor on_host = Tensor::from(std::vector<float>{1, 2, 3}),
               result = Tensor::zeros({3}, DType::f32, graph_device);
  const auto message = test::message_of<Error>([&] {
    graph.capture(
        [&] { result.copy_from(on_host.pin_memory(DeviceType::sim).to(graph_device, true)); });
  });
  EXPECT_TRUE(test::mentions(message, "pinned before")) << message;
  const Tensor pinned = on_host.pin_memory(DeviceType::sim);
  const auto copy = [&] { result.copy_from(pinned.to(graph_device, true)); };
  for (int i = 0; i < 2; ++i) graph.warm_up(copy);
  graph.capture(copy);
  std::ranges::copy(std::vector<float>{4, 5, 6}, static_cast<float*>(pinned.data()));
  graph.replay();
  EXPECT_EQ(result.to_vector<float>(), (std::vector<float>{4, 5, 6}));
}

TEST(DeviceGraph, RefusesTheHostNestedCapturesAndAReplayOfNothing) {
  EXPECT_TRUE(
      test::mentions(test::message_of<InputError>([] { DeviceGraph graph(Device{}); }), "host"));
  DeviceGraph graph(graph_device), inner(graph_device);
  EXPECT_TRUE(test::mentions(test::message_of<Error>([&] { graph.replay(); }), "call capture()"));
  const auto nested =
      test::message_of<Error>([&] { graph.capture([&] { inner.capture([] {}); }); });
  EXPECT_TRUE(test::mentions(nested, "captures a graph already")) << nested;
}

}  // namespace
}  // namespace lockstep
