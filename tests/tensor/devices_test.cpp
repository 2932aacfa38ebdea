// Tensors and operations on every device that this machine has, the host and two simulated ones:
// the same bits, whatever the order in which streams take turns.
#include <array>
#include <cmath>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/arithmetic.hpp>
#include <lockstep/tensor/kernels/elementwise/copy.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/reduce/reduction.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

constexpr Device sim{DeviceType::sim, 0}, other_sim{DeviceType::sim, 1};

/// Numbers whose sums are not exact, so that another order of additions shows.
Tensor waves(const Shape& shape, int seed, Device device, DType dtype = DType::f32) {
  std::vector<double> values(static_cast<std::size_t>(shape.numel()));
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = std::sin(static_cast<double>(i) * 0.7 + seed) * std::exp(i % 13);
  }
  return Tensor::from(values, shape).to(dtype).to(device);
}

std::vector<std::byte> bit_pattern(const Tensor& t) {
  const Tensor here = t.to(Device{});
  const auto* const data = static_cast<const std::byte*>(here.data());
  return {data, data + here.bytes()};
}

/// What a device computes, as bits; `compute` makes its inputs there.
using Compute = std::function<Tensor(Device device)>;

class OnDevice : public testing::TestWithParam<Device> {
 protected:
  void expect_bits_of_host(const Compute& compute) {
    const auto expected = bit_pattern(compute(Device{}));
    ASSERT_FALSE(expected.empty());
    for (std::uint64_t seed = 0; seed < 3; ++seed) {
      SimulatedRuntime::instance().set_seed(seed);
      const Tensor result = compute(GetParam());
      EXPECT_EQ(result.device(), GetParam());
      EXPECT_EQ(bit_pattern(result), expected);
    }
  }
};

INSTANTIATE_TEST_SUITE_P(Every, OnDevice, testing::Values(Device{}, sim, other_sim),
                         [](const auto& device) {
                           std::string name = to_string(device.param);
                           std::erase(name, ':');
                           return name;
                         });

TEST_P(OnDevice, FillAndZeroHaveTheHostsBits) {
  expect_bits_of_host([](Device device) {
    const Tensor t = Tensor::full({7, 1000}, 2.5, DType::f32, device);
    t.slice(2, 4).zero();
    t[5].fill(-1);
    return t;
  });
}

TEST_P(OnDevice, CopyAndCloneHaveTheHostsBits) {
  expect_bits_of_host([](Device device) {
    const Tensor x = waves({9, 111}, 1, device), y = x.clone();
    x.zero();  // behind the clone
    y.slice(0, 3).copy_from(y.slice(6, 9));
    return y;
  });
}

TEST_P(OnDevice, ConversionOfEveryDtypeHasTheHostsBits) {
  for (const DType dtype :
       {DType::f64, DType::bf16, DType::f16, DType::i32, DType::i64, DType::u8, DType::boolean}) {
    SCOPED_TRACE(std::string(name_of(dtype)));
    expect_bits_of_host([&](Device device) {
      const Tensor x = Tensor::full({5000}, 3, DType::f32, device);
      return x.to(dtype);
    });
  }
}

TEST_P(OnDevice, ElementwiseInPlaceHasTheHostsBits) {
  expect_bits_of_host([](Device device) {
    const Tensor x = waves({10'000}, 1, device), y = waves({10'000}, 2, device);
    add_scaled(x, 0.3, y);
    scale(y, 1.7);
    y += x;
    y *= 0.9;
    y -= y.slice(0, 1);
    return y;
  });
  expect_bits_of_host([](Device device) {
    const Tensor x = waves({300}, 1, device).to(DType::bf16), y = x.clone();
    add_scaled(x, 0.3, y);
    return y;
  });
}

TEST_P(OnDevice, BroadcastArithmeticHasTheHostsBits) {
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{40, 1, 70}, {50, 70}}, {{40, 50, 70}, {1}}, {{50, 1}, {40, 1, 70}}};
  for (const Arithmetic op : {Arithmetic::add, Arithmetic::multiply, Arithmetic::divide}) {
    for (const auto& [a, b] : shapes) {
      expect_bits_of_host([&, of_a = a, of_b = b](Device device) {
        const Tensor y = waves({40, 50, 70}, 3, device);
        arithmetic(op, waves(of_a, 1, device), waves(of_b, 2, device), true, y, 0.7);
        return y;
      });
    }
  }
}

TEST_P(OnDevice, ReductionHasTheHostsBits) {
  const std::vector<std::pair<Shape, Shape>> shapes{
      {{20'000}, {1}}, {{300, 257}, {300, 1}}, {{9000, 3}, {1, 3}}, {{12, 20, 30}, {12, 1, 30}}};
  for (const DType dtype : {DType::f32, DType::f64}) {
    for (const auto& [full, reduced] : shapes) {
      expect_bits_of_host([&, from = full, to = reduced](Device device) {
        const Tensor x = waves(from, 1, device, dtype);
        const Tensor sum = Tensor::full(to, 1, dtype, device);
        const Tensor largest = Tensor::empty(to, dtype, device);
        reduce_sum(x, 3, true, sum);
        reduce_max(x, largest);
        sum += largest;
        return sum;
      });
    }
  }
}

TEST_P(OnDevice, PermuteExpandAndNarrowHaveTheHostsBits) {
  expect_bits_of_host([](Device device) {
    const Tensor x = waves({20, 30, 40}, 1, device);
    const Tensor turned = Tensor::zeros({40, 20, 30}, DType::f32, device);
    permute_copy(x, {2, 0, 1}, false, turned);
    const Tensor part = Tensor::empty({40, 20, 5}, DType::f32, device);
    narrow_copy(turned, 2, 7, false, part);
    narrow_assign(part, 1, 0, true, turned.reshape({40, 20, 30}));
    expand_copy(waves({40, 1, 1}, 2, device), true, turned);
    return turned;
  });
}

TEST_P(OnDevice, ElementsAreCopiedThereAndBack) {
  const std::vector<std::int64_t> values{1, -2, std::int64_t{1} << 60U, 4};
  const Tensor t = Tensor::from(values, {2, 2}, GetParam());
  EXPECT_EQ(t.to_vector<std::int64_t>(), values);
  EXPECT_EQ(t[1][0].item(), std::ldexp(1.0, 60));
  EXPECT_EQ(describe(t), "i64[2, 2] on " + to_string(GetParam()));
  EXPECT_EQ(Tensor::full({}, 1.5, DType::bf16, GetParam()).item(), 1.5);
}

TEST_P(OnDevice, ATensorMovesToEveryOtherDevice) {
  const Tensor start = waves({123}, 1, GetParam());
  const auto expected = bit_pattern(start);
  for (const Device device : {Device{}, sim, other_sim}) {
    const Tensor there = start.to(device);
    EXPECT_EQ(there.device(), device);
    EXPECT_EQ(there.data() == start.data(), device == GetParam()) << "equal devices share";
    EXPECT_EQ(bit_pattern(there), expected);
    if (device != GetParam()) start.copy_from(there);
    EXPECT_EQ(bit_pattern(start), expected);
  }
}

TEST_P(OnDevice, EventsAndStreamsOfHostAndDevicesBehaveAlike) {
  const Stream work = Stream::from_pool(GetParam());
  const Tensor x = Tensor::zeros({1000}, DType::f32, GetParam());
  DeviceEvent made(GetParam(), true), added(GetParam(), true);
  EXPECT_TRUE(made.is_over());
  made.record(current_stream(GetParam()));
  {
    const StreamGuard guard(work);
    EXPECT_EQ(current_stream(GetParam()), work);
    work.wait(made);
    x += 1;
    added.record(work);
  }
  added.synchronize();
  EXPECT_TRUE(added.is_over());
  EXPECT_GE(added.milliseconds_since(made), 0.0);
  const DeviceEvent untimed(GetParam());
  EXPECT_THROW(static_cast<void>(added.milliseconds_since(untimed)), Error);
  EXPECT_THROW(static_cast<void>(untimed.milliseconds_since(made)), Error);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(1000, 1.0F));
}

TEST(SimulatedTensor, OperationsRunLate) {
  auto& runtime = SimulatedRuntime::instance();
  current_stream(sim).synchronize();
  const Tensor x = Tensor::zeros({100}, DType::f32, sim);
  x += 1;
  x += 1;
  EXPECT_GE(runtime.counts(sim.index).queued, 3);
  current_stream(sim).synchronize();
  EXPECT_EQ(runtime.counts(sim.index).queued, 0);
  EXPECT_EQ(x.to_vector<float>(), std::vector<float>(100, 2.0F));
}

TEST(SimulatedTensor, ThreadsShareADevice) {
  std::array<int, 4> wrong{};
  std::vector<std::jthread> team;
  for (std::size_t t = 0; t < wrong.size(); ++t) {
    team.emplace_back([&count = wrong[t], value = static_cast<float>(t + 1)] {
      const StreamGuard guard(Stream::from_pool(sim));
      for (int i = 0; i < 30; ++i) {
        const Tensor x = Tensor::full({200}, value, DType::f32, sim), y = x.clone();
        y += x;
        count += y.to_vector<float>() != std::vector<float>(200, 2 * value);
      }
    });
  }
  team.clear();
  EXPECT_EQ(wrong, (std::array<int, 4>{}));
}

TEST(SimulatedTensor, ATensorFreedTooEarlyForAnotherStreamIsWrongDataUnlessRecorded) {
  const auto right = [](bool recorded) {
    int count = 0;
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      SimulatedRuntime::instance().set_seed(seed);
      const Stream work = Stream::from_pool(sim);
      Tensor x = Tensor::full({100}, 1, DType::f32, sim);
      current_stream(sim).synchronize();
      Tensor y;
      {
        const StreamGuard guard(work);
        y = x.clone();
        if (recorded) x.record_stream(work);
      }
      x = Tensor();                                              // freed ...
      const Tensor z = Tensor::full({100}, 2, DType::f32, sim);  // ... and used again
      current_stream(sim).synchronize();
      const StreamGuard guard(work);
      count += y.to_vector<float>() == std::vector<float>(100, 1.0F);
    }
    return count;
  };
  EXPECT_EQ(right(true), 20);
  EXPECT_LT(right(false), 15);
}

TEST(SimulatedTensor, PinnedMemoryLetsTheHostGoOn) {
  auto& runtime = SimulatedRuntime::instance();
  const Tensor source = Tensor::full({1000}, 1).pin_memory(DeviceType::sim);
  EXPECT_TRUE(source.is_pinned());
  EXPECT_EQ(source.device(), Device{});
  current_stream(sim).synchronize();
  const auto before = runtime.counts(sim.index).queued;
  const Tensor there = source.to(sim, true);
  EXPECT_GT(runtime.counts(sim.index).queued, before);
  source.fill(2);  // too early: the copy has not run
  const Tensor back = there.to(Device{}, true);
  EXPECT_TRUE(back.is_pinned());
  current_stream(sim).synchronize();
  EXPECT_EQ(back.to_vector<float>(), std::vector<float>(1000, 2.0F));
  source.fill(3);
  const Tensor waited = source.to(sim);
  source.fill(4);
  EXPECT_EQ(waited.to_vector<float>(), std::vector<float>(1000, 3.0F));
  EXPECT_FALSE(Tensor::zeros({1}).is_pinned());
}

TEST(SimulatedTensor, MixedDevicesAreRefusedByName) {
  const Tensor here = Tensor::zeros({6}), there = Tensor::zeros({6}, DType::f32, sim);
  const auto message = test::message_of<ShapeError>([&] { add_scaled(here, 1, there); });
  EXPECT_TRUE(test::mentions(message, "an operation on host meets f32[6] on sim:0")) << message;
  const auto reverse = test::message_of<ShapeError>([&] { add_scaled(there, 1, here); });
  EXPECT_TRUE(test::mentions(reverse, "an operation on sim:0 meets f32[6] on host")) << reverse;
  const Tensor elsewhere = Tensor::zeros({6}, DType::f32, other_sim);
  const auto devices = test::message_of<ShapeError>([&] { add_scaled(there, 1, elsewhere); });
  EXPECT_TRUE(test::mentions(devices, "sim:0") && test::mentions(devices, "sim:1")) << devices;
  add_scaled(there, 1, there);  // and the next operation is as ever
  add_scaled(here, 1, here);
}

TEST(SimulatedTensor, AFailedKernelIsReportedByTheNextRead) {
  const Tensor x = Tensor::zeros({6}, DType::f32, sim);
  current_stream(sim).synchronize();
  SimulatedRuntime::instance().inject(sim.index, {.error_at = 1});
  x.fill(1);
  const auto message = test::message_of<DeviceError>([&] { static_cast<void>(x[0].item()); });
  EXPECT_TRUE(test::mentions(message, "sim:0 failed") && test::mentions(message, "lockstep::fill"))
      << message;
  SimulatedRuntime::instance().let_go(sim.index);
  x.fill(1);
  EXPECT_EQ(x[0].item(), 1);
}

TEST(SimulatedTensor, EachDeviceHasItsOwnStats) {
  const auto host = memory_stats().in_use, device = memory_stats(sim).in_use;
  const Tensor t = Tensor::empty({1000}, DType::f32, sim);
  EXPECT_EQ(memory_stats().in_use, host);
  EXPECT_EQ(memory_stats(sim).in_use - device, static_cast<std::int64_t>(t.storage()->bytes()));
}

TEST(SimulatedTensorDeathTest, HostCodeCannotReadData) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  Tensor t;
  {
    const MemoryLabel label("fc.bias");
    t = Tensor::zeros({6}, DType::f32, sim);
  }
  EXPECT_DEATH(static_cast<void>(static_cast<volatile float*>(t.data())[1]),
               "host code touched the memory of sim:0: byte 4 of .* of 'fc.bias'");
}

}  // namespace
}  // namespace lockstep
