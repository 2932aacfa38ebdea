#include <lockstep/tensor/runtime/caching_allocator.hpp>

#include <map>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/base/failure.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

class CachingAllocatorTest : public testing::Test {
 protected:
  static constexpr Device device{DeviceType::sim, 5};

  CachingAllocatorTest() {
    runtime.set_seed(1);
    a = runtime.make_stream(device.index);
    b = runtime.make_stream(device.index);
  }
  ~CachingAllocatorTest() override {
    runtime.let_go(device.index);
    runtime.destroy(a);
    runtime.destroy(b);
  }

  SimulatedRuntime& runtime = SimulatedRuntime::instance();
  CachingAllocator allocator{runtime, device};
  RuntimeStream* a = nullptr;
  RuntimeStream* b = nullptr;
};

TEST_F(CachingAllocatorTest, AFreedBlockServesItsStreamAndNoOther) {
  MemoryBlock* const first = allocator.allocate(1000, a);
  void* const data = first->data;
  EXPECT_GE(first->bytes, 1000U);
  allocator.free(first);
  MemoryBlock* const other = allocator.allocate(1000, b);
  EXPECT_NE(other->data, data);
  MemoryBlock* const again = allocator.allocate(1001, a);  // of the same size class
  EXPECT_EQ(again->data, data);
  EXPECT_EQ(allocator.stats().system_allocations, 2);
  allocator.free(other);
  allocator.free(again);
}

TEST_F(CachingAllocatorTest, ABlockThatAnotherStreamUsesWaitsForIt) {
  MemoryBlock* const first = allocator.allocate(1000, a);
  void* const data = first->data;
  allocator.record_stream(first, b, device.index);
  runtime.launch(b, "use", LateCall::of([] {}));
  allocator.free(first);
  EXPECT_GT(allocator.stats().awaiting, 0);
  MemoryBlock* const second = allocator.allocate(1000, a);
  EXPECT_NE(second->data, data);
  runtime.synchronize(b);
  MemoryBlock* const third = allocator.allocate(1000, a);
  EXPECT_EQ(third->data, data);
  EXPECT_EQ(allocator.stats().awaiting, 0);
  allocator.free(second);
  allocator.free(third);
}

TEST_F(CachingAllocatorTest, FreedMemoryIsPoisoned) {
  MemoryBlock* const block = allocator.allocate(64, a);
  void* const data = block->data;
  runtime.fill(data, 1, 64, a);
  allocator.free(block);
  std::vector<unsigned char> bytes(64);
  runtime.copy(bytes.data(), data, 64, a);
  EXPECT_EQ(bytes, std::vector<unsigned char>(64, SimulatedMemory::poison));
}

TEST_F(CachingAllocatorTest, ReturnsCachedMemoryBeforeItRefuses) {
  MemoryBlock* const kept = allocator.allocate(std::size_t{1} << 20U, a);
  MemoryBlock* const awaiting = allocator.allocate(std::size_t{1} << 20U, a);
  allocator.record_stream(awaiting, b, device.index);
  runtime.launch(b, "use", LateCall::of([] {}));
  allocator.free(kept);
  allocator.free(awaiting);
  runtime.inject(device.index, {.out_of_memory_at = 1});
  MemoryBlock* const large = allocator.allocate(std::size_t{4} << 20U, a);
  const MemoryStats stats = allocator.stats();
  EXPECT_EQ(stats.flushes, 1);
  EXPECT_EQ(stats.cached + stats.awaiting, 0);
  EXPECT_EQ(stats.in_use, std::int64_t{4} << 20U);
  EXPECT_EQ(stats.peak_in_use, std::int64_t{4} << 20U);
  allocator.free(large);
}

TEST_F(CachingAllocatorTest, BeyondTheLimitTheErrorListsUseByLabel) {
  allocator.set_limit(std::size_t{8} << 20U);
  std::vector<MemoryBlock*> blocks;
  const auto hold = [&](const char* label, std::size_t bytes) {
    const MemoryLabel of(label);
    blocks.push_back(allocator.allocate(bytes, a));
  };
  hold("conv1.weight", std::size_t{2} << 20U);
  hold("gradients", std::size_t{1} << 20U);
  hold("conv1.weight", std::size_t{1} << 20U);
  blocks.push_back(allocator.allocate(2048, a));
  EXPECT_EQ(allocator.usage(),
            "sim:5 holds 4 MiB: 3 MiB of 'conv1.weight', 1 MiB of 'gradients', 2 KiB without a "
            "label; 0 bytes are kept for reuse");
  const auto message = test::message_of<OutOfMemoryError>(
      [&] { static_cast<void>(allocator.allocate(std::size_t{5} << 20U, a)); });
  EXPECT_TRUE(test::mentions(message, "out of memory: 5 MiB for one tensor on sim:5")) << message;
  EXPECT_TRUE(test::mentions(message, "within the limit of 8 MiB")) << message;
  EXPECT_TRUE(test::mentions(message, allocator.usage())) << message;
  for (MemoryBlock* const block : blocks) allocator.free(block);
  allocator.free(allocator.allocate(std::size_t{5} << 20U, a));  // the rest was given back
  EXPECT_LE(allocator.stats().cached, std::int64_t{8} << 20U);
}

TEST_F(CachingAllocatorTest, ADeviceFailureIsReportedAndItsMemoryReturns) {
  MemoryBlock* const block = allocator.allocate(64, a);
  allocator.record_stream(block, b, device.index);
  runtime.inject(device.index, {.error_at = 1});
  runtime.launch(b, "fail", LateCall::of([] {}));
  EXPECT_THROW(runtime.synchronize(b), DeviceError);
  allocator.free(block);
  EXPECT_THROW(static_cast<void>(allocator.allocate(std::size_t{1} << 20U, a)), DeviceError);
  runtime.let_go(device.index);
  EXPECT_EQ(allocator.stats().in_use, 0);
}

TEST_F(CachingAllocatorTest, PinnedMemoryIsUsedAgainWhenItsCopiesAreDone) {
  CachingAllocator pinned(runtime, Device{});
  MemoryBlock* const first = pinned.allocate(64, nullptr);
  void* const data = first->data;
  static_cast<unsigned char*>(data)[63] = 1;  // the host may
  pinned.record_stream(first, a, device.index);
  runtime.launch(a, "use", LateCall::of([] {}));
  pinned.free(first);
  MemoryBlock* const second = pinned.allocate(64, nullptr);
  EXPECT_NE(second->data, data);
  runtime.synchronize(a);
  MemoryBlock* const third = pinned.allocate(64, nullptr);
  EXPECT_EQ(third->data, data);
  pinned.free(second);
  pinned.free(third);
}

// Random schedules. The oracle is exact: kernels count themselves off when they have run, so it is
// known which are still to use a block when it is handed out.
class Schedule {
 public:
  Schedule(CachingAllocator& allocator, std::vector<RuntimeStream*> streams, unsigned seed)
      : allocator_(allocator), streams_(std::move(streams)), random_(seed) {}

  /// How often a block was handed out that a kernel on another stream was still to use.
  [[nodiscard]] int run(int steps, bool record_streams) {
    int early = 0;
    for (int i = 0; i < steps; ++i) {
      switch (below(8)) {
        case 0:
        case 1:
        case 2:
          early += allocate();
          break;
        case 3:
        case 4:
        case 5:
          if (!live_.empty()) use(record_streams);
          break;
        case 6:
          if (!live_.empty()) free();
          break;
        default:
          if (below(4) == 0) SimulatedRuntime::instance().synchronize(streams_[stream()]);
      }
    }
    while (!live_.empty()) free();
    for (RuntimeStream* const s : streams_) SimulatedRuntime::instance().synchronize(s);
    return early;
  }

 private:
  struct Live {
    MemoryBlock* block;
    std::size_t owner;
  };

  std::size_t below(std::size_t n) { return random_() % n; }
  std::size_t stream() { return below(streams_.size()); }

  int allocate() {
    const std::size_t owner = stream();
    MemoryBlock* const block = allocator_.allocate(below(2) == 0 ? 100 : 1000, streams_[owner]);
    live_.push_back({block, owner});
    const std::lock_guard lock(mutex_);
    const auto found = to_run_.find(block->data);
    if (found == to_run_.end()) return 0;
    for (std::size_t s = 0; s < streams_.size(); ++s) {
      if (s != owner && found->second[s] > 0) return 1;
    }
    return 0;
  }

  void use(bool record_streams) {
    const Live live = live_[below(live_.size())];
    const std::size_t user = stream();
    void* const data = live.block->data;
    {
      const std::lock_guard lock(mutex_);
      auto& counts = to_run_[data];
      counts.resize(streams_.size());
      ++counts[user];
    }
    if (record_streams) allocator_.record_stream(live.block, streams_[user], 5);
    SimulatedRuntime::instance().launch(streams_[user], "use", LateCall::of([this, data, user] {
                                          const std::lock_guard lock(mutex_);
                                          --to_run_[data][user];
                                        }));
  }

  void free() {
    const std::size_t at = below(live_.size());
    allocator_.free(live_[at].block);
    live_[at] = live_.back();
    live_.pop_back();
  }

  CachingAllocator& allocator_;
  std::vector<RuntimeStream*> streams_;
  std::mt19937 random_;
  std::vector<Live> live_;
  std::mutex mutex_;
  std::map<void*, std::vector<int>> to_run_;  // by stream
};

TEST_F(CachingAllocatorTest, RandomSchedulesNeverGetABlockBeforeItsEvents) {
  RuntimeStream* const c = runtime.make_stream(device.index);
  int unrecorded = 0;
  for (unsigned seed = 0; seed < 30; ++seed) {
    runtime.set_seed(seed);
    EXPECT_EQ(Schedule(allocator, {a, b, c}, seed).run(400, true), 0) << "seed " << seed;
    unrecorded += Schedule(allocator, {a, b, c}, seed).run(400, false);
  }
  EXPECT_GT(unrecorded, 0) << "the oracle does not see what it is for";
  EXPECT_EQ(allocator.stats().in_use, 0);
  runtime.destroy(c);
}

TEST_F(CachingAllocatorTest, ANonexistentDeviceIsRefused) {
  const auto message = test::message_of<InputError>([] {
    static_cast<void>(CachingAllocator::of({DeviceType::sim, 9}));
  });
  EXPECT_TRUE(test::mentions(message, "sim:9")) << message;
  if (!has_cuda_runtime()) {
    EXPECT_TRUE(test::mentions(test::message_of<InputError>([] {
                                 static_cast<void>(CachingAllocator::of({DeviceType::cuda, 0}));
                               }),
                               "this build has no CUDA"));
  }
}

}  // namespace
}  // namespace lockstep
