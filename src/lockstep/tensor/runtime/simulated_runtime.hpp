#pragma once
#include <array>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/runtime/simulated_memory.hpp>

namespace lockstep {

struct SimulatedDevice;
struct SimulatedTask;
struct SimulatedWaiter;

/// Faults to inject into a simulated device, counted from the call of inject(): 1 is the next
/// operation. 0: never.
struct SimulatedFaults {
  std::int64_t out_of_memory_at = 0;  ///< the nth allocation gets nothing
  std::int64_t error_at = 0;          ///< the nth launch fails when it is run
  std::int64_t hang_at = 0;           ///< the nth launch never ends, until let_go()
  std::int64_t lost_wait_at = 0;      ///< the nth wait is skipped, on any thread
};

/// Counts of operations of a simulated device since the process began.
struct SimulatedCounts {
  std::int64_t allocations = 0;
  std::int64_t launches = 0;  ///< a graph's launch is one
  std::int64_t copies = 0;    ///< and fills
  /// Waits of streams and of the host for events, of the host for streams; queries of events
  /// answered with no.
  std::int64_t waits = 0;
  std::int64_t host_waits = 0;  ///< times the host was held until work was done
  std::int64_t queued = 0;      ///< not run yet
};

/// Simulated devices, to find on any machine errors that a GPU would show. Their memory faults when
/// host code touches it. A thread of the runtime runs work late: when a thread waits for it,
/// queries an event repeatedly, or has queued more than max_queued; a seed decides the order in
/// which streams take turns. Freed memory is poisoned. So code with a missing wait computes wrong
/// data.
class SimulatedRuntime final : public DeviceRuntime {
 public:
  static constexpr int devices = 8;
  static constexpr std::int64_t max_queued = 1024;

  /// The process' one, made when it is first asked for.
  [[nodiscard]] static SimulatedRuntime& instance();

  /// The seed of the streams' order.
  void set_seed(std::uint64_t seed);
  void inject(int device, const SimulatedFaults& faults);
  /// Ends hanging work, and forgets injected faults and failures.
  void let_go(int device);
  /// Limits this device's memory, in bytes.
  void set_capacity(int device, std::size_t bytes);
  [[nodiscard]] SimulatedCounts counts(int device);

  /// Runs a copy of f on the stream. `label` is static.
  void launch(RuntimeStream* stream, const char* label, const LateCall& f);
  /// The same, as a kernel that waits for other processes: it does not begin, and the stream does
  /// not go on, before `is_ready` says so. The runtime's thread asks it again and again, whether or
  /// not anybody waits. It must not call the runtime.
  void launch_when(RuntimeStream* stream, const char* label, std::function<bool()> is_ready,
                   const LateCall& f);

  [[nodiscard]] DeviceType type() const noexcept override { return DeviceType::sim; }
  [[nodiscard]] int device_count() override { return devices; }
  [[nodiscard]] void* allocate(int device, std::size_t bytes) override;
  void free(int device, void* data) noexcept override;
  [[nodiscard]] void* kernel_address(void* data) noexcept override;
  void set_label(void* data, std::string_view label) noexcept override;
  void retire(void* data, std::size_t bytes, RuntimeStream* stream) override;
  [[nodiscard]] void* allocate_pinned(std::size_t bytes) override;
  void free_pinned(void* data) noexcept override;
  [[nodiscard]] RuntimeStream* make_stream(int device) override;
  void destroy(RuntimeStream* stream) noexcept override;
  void synchronize(RuntimeStream* stream) override;
  void synchronize_device(int device) override;
  void copy(void* to, const void* from, std::size_t bytes, RuntimeStream* stream) override;
  void fill(void* to, unsigned char value, std::size_t bytes, RuntimeStream* stream) override;
  [[nodiscard]] RuntimeEvent* make_event(int device, bool enable_timing) override;
  void destroy(RuntimeEvent* event) noexcept override;
  void record(RuntimeEvent* event, RuntimeStream* stream) override;
  void wait(RuntimeStream* stream, RuntimeEvent* event) override;
  [[nodiscard]] bool is_over(RuntimeEvent* event) override;
  void synchronize(RuntimeEvent* event) override;
  [[nodiscard]] double milliseconds(RuntimeEvent* from, RuntimeEvent* to) override;
  void begin_capture(RuntimeStream* stream) override;
  [[nodiscard]] RuntimeGraph* end_capture(RuntimeStream* stream) override;
  void launch(RuntimeGraph* graph, RuntimeStream* stream) override;
  void destroy(RuntimeGraph* graph) noexcept override;

 private:
  using Lock = std::unique_lock<std::mutex>;
  SimulatedRuntime();
  ~SimulatedRuntime() override;

  [[nodiscard]] SimulatedDevice& state_of(int device, const Lock& lock);
  [[nodiscard]] SimulatedMemory* memory_at(const void* address, const Lock& lock);
  [[nodiscard]] bool is_pinned(const void* address, const Lock& lock) const;
  [[nodiscard]] SimulatedTask& take_task(const Lock& lock);
  void give_task(SimulatedTask& task) noexcept;
  void enqueue(RuntimeStream& stream, SimulatedTask& task, Lock& lock);
  void count_launch(SimulatedDevice& device, SimulatedTask& task, const Lock& lock);
  void expect_sound(const SimulatedDevice& device, const Lock& lock) const;
  void forbid_in_capture(SimulatedDevice& device, const char* operation, const Lock& lock,
                         const RuntimeStream* used = nullptr) const;
  void wait_for(RuntimeStream& stream, std::uint64_t count, Lock& lock);
  void drain(SimulatedDevice& device, Lock& lock);
  [[nodiscard]] bool forgets_wait(SimulatedDevice& device, const Lock& lock);

  void work();
  [[nodiscard]] RuntimeStream* next_stream(const Lock& lock);
  [[nodiscard]] bool is_ready(SimulatedTask& task, const SimulatedDevice& device, const Lock& lock);
  void look_at_awaited(Lock& lock);
  void run_first(RuntimeStream& stream, Lock& lock);
  void run_call(SimulatedDevice& device, SimulatedTask& task, Lock& lock);
  void run_graph(SimulatedDevice& device, SimulatedTask& task, Lock& lock);
  void fail(SimulatedDevice& device, const SimulatedTask& task, const std::string& reason,
            const Lock& lock);
  void tell_waiters(const Lock& lock);
  void let_kernels_use_memory(bool they_may, const Lock& lock) noexcept;

  static constinit thread_local bool on_worker;  // this thread is the one that runs tasks

  std::mutex mutex_;
  std::condition_variable wanted_;  // the worker has something to do
  std::condition_variable done_;    // a waiter's work is done
  std::array<std::unique_ptr<SimulatedDevice>, devices> states_;
  std::vector<std::unique_ptr<RuntimeStream>> streams_;
  std::deque<std::unique_ptr<RuntimeEvent>> events_;
  std::vector<RuntimeEvent*> free_events_;
  std::map<const std::byte*, std::size_t> pinned_;  // bytes by beginning
  std::vector<SimulatedWaiter*> waiters_;
  std::vector<RuntimeStream*> ready_;  // the worker's
  SimulatedTask* free_tasks_ = nullptr;
  std::int64_t owed_ = 0;     // tasks to run though nobody waits
  std::int64_t awaited_ = 0;  // tasks at the heads of streams that were not ready
  std::uint64_t random_ = 1;
};

}  // namespace lockstep
