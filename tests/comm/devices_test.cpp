// Tensors on a device that a backend does not support directly: moved through pinned memory,
// ordered by streams. nccl groups, of other devices, skip tests whose names begin with OnDevices.
#include <chrono>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

Device device_of(const ProcessGroup& group) { return test::simulated_device(group.rank()); }

void expect_parts(const std::string& message, const std::vector<std::string>& parts) {
  for (const std::string& part : parts) {
    EXPECT_NE(message.find(part), std::string::npos) << part << " is not in: " << message;
  }
}

std::vector<float> fractions(int rank, std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) {
    values.push_back(1.0F / static_cast<float>(3 + i * 7 % 101 + rank * 13));
  }
  return values;
}

TEST(OnDevices, ReductionsHaveTheHostsBits) {
  test::on_every_group([](ProcessGroup& group) {
    for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
      for (const std::int64_t n : {7, 4001}) {
        const auto on_host =
            Tensor::from(fractions(group.rank(), n * group.size()), {group.size(), n}).to(dtype);
        const auto on_device = on_host.to(device_of(group));
        const auto row = Tensor::empty({n}, dtype);
        const auto device_row = Tensor::empty({n}, dtype, device_of(group));
        group.reduce_scatter(on_host, row, ReduceOp::avg).wait();
        group.reduce_scatter(on_device, device_row, ReduceOp::avg).wait();
        EXPECT_EQ(test::bytes_of(row), test::bytes_of(device_row.to(Device{})));
        for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max}) {
          group.all_reduce(on_host, op).wait();
          group.all_reduce(on_device, op).wait();
          EXPECT_EQ(test::bytes_of(on_host), test::bytes_of(on_device.to(Device{})));
        }
      }
    }
  });
}

// Nothing here waits on the host, so every order of the streams is tried.
TEST(OnDevices, ACallFollowsItsStreamAndAWaitPrecedesLaterWork) {
  test::on_every_group([](ProcessGroup& group) {
    for (std::uint64_t seed = 1; seed <= 10; ++seed) {
      SimulatedRuntime::instance().set_seed(seed);
      const auto t = Tensor::zeros({1000}, DType::f32, device_of(group));
      t.fill(static_cast<double>(seed));
      group.all_reduce(t, ReduceOp::sum).wait();
      t += t;
      group.all_reduce(t, ReduceOp::avg).wait();
      EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(seed) * 2 * group.size());
    }
  });
}

#ifndef __SANITIZE_THREAD__  // a forgotten wait is a data race
/// The data that a rank reads after a receive, on a device that skips its nth wait of a stream for
/// an event.
float received_with_lost_wait(ProcessGroup& group, std::int64_t lost, std::uint64_t seed) {
  auto& runtime = SimulatedRuntime::instance();
  const Device device = device_of(group);
  runtime.set_seed(seed);
  const auto sent = Tensor::full({64}, 1.0);
  const auto t = Tensor::zeros({64}, DType::f32, device);
  const auto result = Tensor::zeros({64}, DType::f32, device);
  current_stream(device).synchronize();
  runtime.inject(device.index, {.lost_wait_at = lost});
  t.fill(2.0);
  Work telling = group.isend(sent, (group.rank() + 1) % group.size());
  group.irecv(t, any_source).wait();
  result.copy_from(t);
  telling.wait();
  const float read = result.to_vector<float>().front();
  runtime.let_go(device.index);
  return read;
}

TEST(OnDevices, EachWaitOfAStreamIsNeeded) {
  test::on_every_group([](ProcessGroup& group) {
    std::vector<int> wrong(3);
    for (std::uint64_t seed = 1; seed <= 40; ++seed) {
      for (const std::int64_t lost : {0, 1, 2}) {
        if (received_with_lost_wait(group, lost, seed) != 1.0F) {
          ++wrong[static_cast<std::size_t>(lost)];
        }
      }
    }
    EXPECT_EQ(wrong[0], 0);
    EXPECT_GT(wrong[1], 0) << "of the way back for what the caller's stream had before";
    EXPECT_GT(wrong[2], 0) << "of the caller's stream for the way back";
  });
}
#endif

TEST(OnDevices, MessagesKeepTheirOrderWhetherOrNotTheyLieOnADevice) {
  test::on_every_group([](ProcessGroup& group) {
    const Device device = device_of(group);
    const int next = (group.rank() + 1) % group.size();
    const int before = (group.rank() + group.size() - 1) % group.size();
    std::vector<Tensor> got;
    std::vector<Work> works;
    for (int i = 0; i < 6; ++i) {
      const Device there = i % 2 == 0 ? device : Device{};
      works.push_back(group.isend(Tensor::full({300}, i, DType::f32, there), next));
      got.push_back(Tensor::zeros({300}, DType::f32, i % 3 == 0 ? device : Device{}));
      works.push_back(group.irecv(got.back(), before));
    }
    for (Work& work : works) work.wait();
    for (int i = 0; i < 6; ++i) {
      EXPECT_EQ(got[static_cast<std::size_t>(i)].to_vector<float>().back(), static_cast<float>(i));
    }
  });
}

TEST(OnDevices, ABatchOfMessagesAndCollectivesIsOneWork) {
  test::on_every_group([](ProcessGroup& group) {
    const Device device = device_of(group);
    const auto sum = Tensor::full({500}, group.rank(), DType::f64, device);
    const auto all = Tensor::zeros({group.size(), 3}, DType::i32, device);
    Coalescing coalescing(group);
    static_cast<void>(group.all_reduce(sum, ReduceOp::sum));
    static_cast<void>(
        group.all_gather(Tensor::full({3}, group.rank() + 1, DType::i32, device), all));
    coalescing.end().wait();
    EXPECT_EQ(sum.to_vector<double>().back(), group.size() * (group.size() - 1) / 2.0);
    EXPECT_EQ(all.to_vector<std::int32_t>().back(), group.size());
  });
}

TEST(OnDevices, ACancelledReceiveLeavesItsTensorAlone) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({40}, 7.0, DType::f32, device_of(group));
    Work work = group.irecv(t, group.rank(), 77);
    work.cancel();
    work.wait();
    EXPECT_TRUE(work.cancelled());
    EXPECT_EQ(t.to_vector<float>(), std::vector<float>(40, 7.0F));
  });
}

TEST(OnDevices, TwoDevicesInOneCallAreRefusedByName) {
  test::on_every_group([](ProcessGroup& group) {
    const auto on_device = Tensor::zeros({2, 3}, DType::f32, device_of(group));
    const auto on_host = Tensor::zeros({2, 3});
    const std::string name = to_string(device_of(group));
    const auto message = test::message_of<ShapeError>(
        [&] { static_cast<void>(group.all_reduce(on_host, on_device, ReduceOp::sum)); });
    expect_parts(message, {"all_reduce from f32[2, 3] on host to f32[2, 3] on " + name});
  });
}

TEST(OnDevices, TwoKindsOfDeviceAmongRanksAreReportedOnEveryRank) {
  test::on_every_new_group([](ProcessGroup& group) {
    if (group.size() < 2) return;
    const Device device = group.rank() == 1 ? device_of(group) : Device{};
    const auto t = Tensor::full({3000}, 1.0, DType::f32, device);
    const auto message =
        test::message_of<CommError>([&] { group.all_reduce(t, ReduceOp::sum).wait(); });
    expect_parts(message, {"another device: ", "sim:1", "host", "rank 1"});
    EXPECT_EQ(t.to_vector<float>().back(), 1.0F);
  });
}

TEST(OnDevices, AHangingDeviceTimesOutAndIsNamed) {
  test::on_every_new_group(
      [](ProcessGroup& group) {
        if (group.size() > 1) return;  // the others' failure is that of the first one
        const Device device = device_of(group);
        const auto t = Tensor::zeros({3000}, DType::f32, device);
        current_stream(device).synchronize();
        SimulatedRuntime::instance().inject(device.index, {.hang_at = 1});
        t.fill(1.0);
        const auto message =
            test::message_of<TimeoutError>([&] { group.all_reduce(t, ReduceOp::sum).wait(); });
        SimulatedRuntime::instance().let_go(device.index);
        expect_parts(message, {"all_reduce(sum) #1 of f32[3000] on " + to_string(device),
                               "device has not reached it"});
      },
      {.timeout = std::chrono::milliseconds(200), .progress = test::asked_for_progress()});
}

}  // namespace
}  // namespace lockstep
