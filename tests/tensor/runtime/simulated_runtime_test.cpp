// The simulated device: a program that waits is right, and one that forgets to wait is wrong, as on
// a GPU.
#include <lockstep/tensor/runtime/simulated_runtime.hpp>

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

/// What kernels did, in their order.
struct Diary {
  std::mutex mutex;
  std::string text;

  void write(char what) {
    const std::lock_guard lock(mutex);
    text += what;
  }
  [[nodiscard]] std::string read() {
    const std::lock_guard lock(mutex);
    return text;
  }
};

/// Each test has a device for itself, sound and with streams of its own.
class SimulatedDeviceTest : public testing::Test {
 protected:
  static constexpr int device = 7;

  SimulatedDeviceTest() {
    runtime.set_seed(1);
    a = runtime.make_stream(device);
    b = runtime.make_stream(device);
  }
  ~SimulatedDeviceTest() override {
    runtime.let_go(device);
    runtime.set_capacity(device, std::size_t{1} << 30U);
    runtime.destroy(a);
    runtime.destroy(b);
  }

  void write_late(RuntimeStream* stream, char what) {
    runtime.launch(stream, "write", LateCall::of([this, what] { diary.write(what); }));
  }
  /// Bytes on the device, of that value when `stream` has come so far.
  unsigned char* bytes_of(unsigned char value, std::size_t count, RuntimeStream* stream) {
    auto* const data = static_cast<unsigned char*>(runtime.allocate(device, count));
    runtime.fill(data, value, count, stream);
    return data;
  }
  std::vector<unsigned char> read(const unsigned char* data, std::size_t count) {
    std::vector<unsigned char> bytes(count);
    runtime.copy(bytes.data(), data, count, a);
    return bytes;
  }

  SimulatedRuntime& runtime = SimulatedRuntime::instance();
  RuntimeStream* a = nullptr;
  RuntimeStream* b = nullptr;
  Diary diary;
};

TEST_F(SimulatedDeviceTest, RunsAStreamInOrderOnAWait) {
  for (const char what : {'1', '2', '3'}) write_late(a, what);
  EXPECT_EQ(diary.read(), "");
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), "123");
}

TEST_F(SimulatedDeviceTest, TheSeedDecidesTheOrderOfStreams) {
  const auto order = [&](std::uint64_t seed) {
    runtime.set_seed(seed);
    diary.text.clear();
    for (int i = 0; i < 8; ++i) write_late(a, 'a');
    for (int i = 0; i < 8; ++i) write_late(b, 'b');
    runtime.synchronize_device(device);
    return diary.read();
  };
  EXPECT_EQ(order(1), order(1));
  EXPECT_NE(order(1), order(2));
  EXPECT_NE(order(1), "aaaaaaaabbbbbbbb");
}

TEST_F(SimulatedDeviceTest, AnEventOrdersTwoStreamsWhateverTheSeed) {
  RuntimeEvent* const event = runtime.make_event(device, true);
  const auto order = [&](std::uint64_t seed) {
    runtime.set_seed(seed);
    diary.text.clear();
    for (int i = 0; i < 4; ++i) write_late(a, 'a');
    runtime.record(event, a);
    runtime.wait(b, event);
    write_late(b, 'b');
    runtime.synchronize(b);
    const std::string text = diary.read();
    runtime.synchronize(a);
    EXPECT_TRUE(runtime.is_over(event));
    return text;
  };
  for (std::uint64_t seed = 0; seed < 20; ++seed) EXPECT_EQ(order(seed), "aaaab");
  int wrong = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    runtime.inject(device, {.lost_wait_at = 1});
    wrong += order(seed) != "aaaab";
  }
  EXPECT_GT(wrong, 10) << "a lost wait is hardly seen";
  runtime.destroy(event);
}

// The runtime's thread polls without a wait.
TEST_F(SimulatedDeviceTest, AKernelThatWaitsForOthersHoldsItsStreamOnly) {
  std::atomic<bool> is_ready = false, was_asked = false;
  const auto ready = [&] {
    was_asked = true;
    return is_ready.load();
  };
  runtime.launch_when(a, "wait", ready, LateCall::of([this] { diary.write('1'); }));
  write_late(a, '2');
  write_late(b, 'b');
  RuntimeEvent* const last = runtime.make_event(device, true);
  runtime.record(last, a);
  while (!was_asked) static_cast<void>(runtime.is_over(last));
  runtime.synchronize(b);
  EXPECT_EQ(diary.read(), "b");
  is_ready = true;
  while (diary.read() != "b12") std::this_thread::yield();
  runtime.synchronize(a);
  runtime.destroy(last);
}

TEST_F(SimulatedDeviceTest, ARepeatedlyQueriedEventCompletes) {
  RuntimeEvent* const first = runtime.make_event(device, true);
  RuntimeEvent* const last = runtime.make_event(device, true);
  EXPECT_TRUE(runtime.is_over(last)) << "it was never recorded";
  runtime.record(first, a);
  write_late(a, 'x');
  runtime.record(last, a);
  EXPECT_FALSE(runtime.is_over(last));
  while (!runtime.is_over(last)) std::this_thread::yield();
  EXPECT_EQ(diary.read(), "x");
  EXPECT_GE(runtime.milliseconds(first, last), 0.0);
  runtime.destroy(first);
  runtime.destroy(last);
}

TEST_F(SimulatedDeviceTest, ReadsAPinnedSourceLateAndAnyOtherAtOnce) {
  constexpr std::size_t count = 100;
  unsigned char* const data = bytes_of(0, count, a);
  auto* const pinned = static_cast<unsigned char*>(runtime.allocate_pinned(count));
  std::memset(pinned, 1, count);
  runtime.copy(data, pinned, count, a);
  std::memset(pinned, 2, count);  // too early
  EXPECT_EQ(read(data, count), std::vector<unsigned char>(count, 2));
  std::vector<unsigned char> other(count, 3);
  runtime.copy(data, other.data(), count, a);
  other.assign(count, 4);
  EXPECT_EQ(read(data, count), std::vector<unsigned char>(count, 3));
  runtime.free_pinned(pinned);
  runtime.free(device, data);
}

TEST_F(SimulatedDeviceTest, PoisonsNewMemoryAndFreedMemory) {
  constexpr std::size_t count = 300;
  const std::vector<unsigned char> poison(count, SimulatedMemory::poison);
  auto* const data = static_cast<unsigned char*>(runtime.allocate(device, count));
  EXPECT_EQ(read(data, count), poison);
  runtime.fill(data, 1, count, a);
  runtime.retire(data, count, a);
  EXPECT_EQ(read(data, count), poison);
  runtime.free(device, data);
}

TEST_F(SimulatedDeviceTest, CopiesBetweenDevices) {
  constexpr int other = 6;
  RuntimeStream* const there = runtime.make_stream(other);
  unsigned char* const data = bytes_of(5, 64, a);
  auto* const copy = static_cast<unsigned char*>(runtime.allocate(other, 64));
  runtime.synchronize(a);
  runtime.copy(copy, data, 64, there);
  runtime.synchronize(there);
  EXPECT_EQ(read(copy, 64), std::vector<unsigned char>(64, 5));
  runtime.free(other, copy);
  runtime.free(device, data);
  runtime.destroy(there);
}

TEST_F(SimulatedDeviceTest, LimitsTheNumberOfWaitingTasks) {
  for (int i = 0; i < 3000; ++i) write_late(a, 'x');
  EXPECT_LE(runtime.counts(device).queued, SimulatedRuntime::max_queued);
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), std::string(3000, 'x'));
}

TEST_F(SimulatedDeviceTest, RunsOutOfMemoryAtTheInjectedFault) {
  runtime.inject(device, {.out_of_memory_at = 2});
  void* const first = runtime.allocate(device, 64);
  EXPECT_NE(first, nullptr);
  EXPECT_EQ(runtime.allocate(device, 64), nullptr);
  runtime.set_capacity(device, 1000);
  void* const more = runtime.allocate(device, 500);
  EXPECT_NE(more, nullptr);
  EXPECT_EQ(runtime.allocate(device, 500), nullptr);
  runtime.free(device, first);
  runtime.free(device, more);
}

TEST_F(SimulatedDeviceTest, AFailedLaunchIsReportedByEveryLaterCall) {
  runtime.inject(device, {.error_at = 2});
  for (const char what : {'1', '2', '3'}) write_late(a, what);  // not reported yet
  const auto message = test::message_of<DeviceError>([&] { runtime.synchronize(a); });
  EXPECT_TRUE(test::mentions(message, "sim:7 failed") && test::mentions(message, "'write'"))
      << message;
  EXPECT_EQ(diary.read(), "1");
  EXPECT_EQ(test::message_of<DeviceError>([&] { write_late(b, '4'); }), message);
  EXPECT_EQ(test::message_of<DeviceError>([&] { static_cast<void>(runtime.allocate(device, 1)); }),
            message);
  runtime.let_go(device);
  write_late(a, '5');
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), "15");
}

TEST_F(SimulatedDeviceTest, AnExceptionOfAKernelIsADeviceError) {
  runtime.launch(a, "throw", LateCall::of([] { throw Error("of its own"); }));
  const auto message = test::message_of<DeviceError>([&] { runtime.synchronize(a); });
  EXPECT_TRUE(test::mentions(message, "'throw'") && test::mentions(message, "of its own"))
      << message;
}

TEST_F(SimulatedDeviceTest, AHangBlocksItsStreamUntilItIsReleased) {
  RuntimeEvent* const event = runtime.make_event(device, true);
  runtime.inject(device, {.hang_at = 1});
  write_late(a, 'a');
  runtime.record(event, a);
  write_late(b, 'b');
  runtime.synchronize(b);
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(runtime.is_over(event));
  EXPECT_EQ(diary.read(), "b");
  std::jthread waiter([&] { runtime.synchronize(a); });
  runtime.let_go(device);
  waiter.join();
  EXPECT_EQ(diary.read(), "ba");
  runtime.destroy(event);
}

TEST_F(SimulatedDeviceTest, AReleaseCancelsFaultsThatHaveNotBegun) {
  for (const SimulatedFaults& fault : {SimulatedFaults{.hang_at = 1}, {.error_at = 1}}) {
    runtime.inject(device, fault);
    write_late(a, 'a');
    runtime.let_go(device);
    runtime.synchronize(a);
  }
  EXPECT_EQ(diary.read(), "aa");
}

TEST_F(SimulatedDeviceTest, AGraphRunsTheCapturedTasksAtEveryLaunch) {
  runtime.begin_capture(a);
  write_late(a, '1');
  write_late(a, '2');
  RuntimeGraph* const graph = runtime.end_capture(a);
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), "");
  runtime.launch(graph, a);
  write_late(a, '3');
  runtime.launch(graph, a);
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), "12312");
  runtime.destroy(graph);
}

TEST_F(SimulatedDeviceTest, AGraphsLaunchCountsAsOneAndFailsAsOne) {
  runtime.begin_capture(a);
  write_late(a, '1');
  write_late(a, '2');
  RuntimeGraph* const graph = runtime.end_capture(a);
  const auto before = runtime.counts(device).launches;
  runtime.launch(graph, a);
  EXPECT_EQ(runtime.counts(device).launches, before + 1);
  runtime.synchronize(a);
  EXPECT_EQ(diary.read(), "12");
  runtime.inject(device, {.error_at = 1});
  runtime.launch(graph, a);
  const auto message = test::message_of<DeviceError>([&] { runtime.synchronize(a); });
  EXPECT_TRUE(test::mentions(message, "'graph'")) << message;
  EXPECT_EQ(diary.read(), "12");
  runtime.let_go(device);
  runtime.destroy(graph);
}

TEST_F(SimulatedDeviceTest, ACaptureForbidsToItsOwnThreadAndItsStreamToAll) {
  unsigned char* const data = bytes_of(0, 8, a);
  runtime.begin_capture(a);
  std::string theirs;
  std::jthread([&] {
    std::vector<unsigned char> host(8);
    runtime.copy(host.data(), data, 8, b);  // not pinned: waits
    runtime.synchronize(b);
    theirs = test::message_of<DeviceError>([&] { runtime.synchronize(a); });
  }).join();
  EXPECT_TRUE(test::mentions(theirs, "waiting for a stream")) << theirs;
  EXPECT_THROW(static_cast<void>(runtime.end_capture(a)), DeviceError);
  runtime.free(device, data);
}

TEST_F(SimulatedDeviceTest, CaptureRefusesTheCallsThatCudaRefuses) {
  std::vector<unsigned char> host(8);
  unsigned char* const data = bytes_of(0, 8, a);
  const std::vector<std::pair<const char*, std::function<void()>>> operations{
      {"waiting for a stream", [&] { runtime.synchronize(a); }},
      {"waiting for a device", [&] { runtime.synchronize_device(device); }},
      {"allocating memory", [&] { static_cast<void>(runtime.allocate(device, 8)); }},
      {"a copy of memory that is not pinned", [&] { runtime.copy(host.data(), data, 8, a); }},
  };
  for (const auto& [name, operation] : operations) {
    runtime.begin_capture(a);
    EXPECT_TRUE(test::mentions(test::message_of<DeviceError>(operation), name)) << name;
    const auto lost =
        test::message_of<DeviceError>([&] { static_cast<void>(runtime.end_capture(a)); });
    EXPECT_TRUE(test::mentions(lost, "the capture is lost") && test::mentions(lost, name)) << lost;
  }
  runtime.free(device, data);
}

TEST_F(SimulatedDeviceTest, ADeviceBeyondTheLastIsRefused) {
  const auto message = test::message_of<InputError>(
      [&] { static_cast<void>(runtime.allocate(SimulatedRuntime::devices, 1)); });
  EXPECT_TRUE(test::mentions(message, "sim:8")) << message;
}

TEST_F(SimulatedDeviceTest, MayBeUsedByThreadsAtOnce) {
  {
    std::vector<std::jthread> team;
    for (int t = 0; t < 4; ++t) {
      team.emplace_back([this, t] {
        RuntimeStream* const mine = runtime.make_stream(device);
        const auto value = static_cast<unsigned char>(t);
        for (int i = 0; i < 50; ++i) {
          unsigned char* const data = bytes_of(value, 64, mine);
          std::vector<unsigned char> bytes(64);
          runtime.copy(bytes.data(), data, 64, mine);
          EXPECT_EQ(bytes, std::vector<unsigned char>(64, value));
          runtime.free(device, data);
        }
        runtime.destroy(mine);
      });
    }
  }
}

using SimulatedMemoryDeathTest = SimulatedDeviceTest;

TEST_F(SimulatedMemoryDeathTest, AccessByHostCodeNamesTheMemorysOwner) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  unsigned char* const data = bytes_of(0, 100, a);
  runtime.set_label(data, "conv1.weight");
  runtime.synchronize(a);
  EXPECT_DEATH(static_cast<volatile unsigned char*>(data)[3] = 1,
               "host code touched the memory of sim:7: byte 3 of 256 of 'conv1.weight'");
  const auto* const by_view = static_cast<unsigned char*>(runtime.kernel_address(data));
  EXPECT_DEATH(static_cast<void>(static_cast<const volatile unsigned char*>(by_view)[7]),
               "sim:7 through a view: byte 7 of 256 of 'conv1.weight'");
  runtime.free(device, data);
  EXPECT_DEATH(static_cast<void>(static_cast<volatile unsigned char*>(data)[0]),
               "sim:7: memory that holds no tensor");
}

TEST_F(SimulatedMemoryDeathTest, OtherFaultsGoToThePreviousHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  volatile int* const nowhere = reinterpret_cast<int*>(std::uintptr_t{64});
  EXPECT_DEATH(
      {
        std::signal(SIGSEGV, [](int) {
          constexpr char text[] = "the former handler\n";
          static_cast<void>(!::write(STDERR_FILENO, text, sizeof text - 1));
          ::_exit(1);
        });
        SimulatedMemory memory(0);
        report_faults_of(memory);
        *nowhere = 1;
      },
      "^the former handler");
}

}  // namespace
}  // namespace lockstep
