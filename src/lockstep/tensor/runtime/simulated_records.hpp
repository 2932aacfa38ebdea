#pragma once
// The simulated runtime's records of devices, streams, events and graphs. Private to its sources.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/tensor/runtime/simulated_memory.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>

namespace lockstep {

[[nodiscard]] inline Device sim_device(int index) { return {DeviceType::sim, index}; }

/// One piece of a stream's work. Kept and used again.
struct SimulatedTask {
  enum class Kind { call, mark, wait, graph };
  enum class Fault { none, error, hang };
  static constexpr std::size_t room = 2048, alignment = 64;

  Kind kind = Kind::call;
  Fault fault = Fault::none;
  const char* label = "";
  std::function<bool()> is_ready;  // empty: at once
  bool is_awaited = false;         // its turn has come, and it was not ready
  std::int64_t launch = 0;         // its number on the device; 0: no kernel
  void (*run)(void*) = nullptr;
  void (*destroy)(void*) noexcept = nullptr;
  RuntimeEvent* event = nullptr;         // mark
  const RuntimeStream* after = nullptr;  // wait: until it has done `count`
  std::uint64_t count = 0;
  RuntimeGraph* graph = nullptr;
  SimulatedTask* next = nullptr;
  std::byte* larger = nullptr;  // if `place` is too small
  std::size_t larger_bytes = 0;
  void* call = nullptr;
  alignas(alignment) std::byte place[room];

  ~SimulatedTask() { std::free(larger); }
  SimulatedTask() = default;
  SimulatedTask(const SimulatedTask&) = delete;
  SimulatedTask& operator=(const SimulatedTask&) = delete;

  [[nodiscard]] void* room_for(std::size_t bytes, std::size_t align) {
    if (bytes <= room && align <= alignment) return place;
    if (bytes > larger_bytes) {
      const std::size_t whole = (bytes + 4095) / 4096 * 4096;
      auto* const memory = static_cast<std::byte*>(std::aligned_alloc(4096, whole));
      if (!memory) throw std::bad_alloc();
      std::free(std::exchange(larger, memory));
      larger_bytes = whole;
    }
    return larger;
  }
  void end_call() noexcept {
    if (destroy) std::exchange(destroy, nullptr)(call);
  }
};

struct RuntimeStream {
  int device = 0;
  bool hangs = false;
  SimulatedTask* first = nullptr;
  SimulatedTask* last = nullptr;
  std::uint64_t given = 0, done = 0;
  RuntimeGraph* capture = nullptr;

  void push(SimulatedTask& task) {
    task.next = nullptr;
    (last ? last->next : first) = &task;
    last = &task;
    ++given;
  }
};

struct RuntimeEvent {
  int device = 0;
  const RuntimeStream* stream = nullptr;  // null: never recorded
  std::uint64_t count = 0;                // of the stream's tasks, that end with the mark
  const RuntimeGraph* graph = nullptr;    // recorded in a capture
  int marks = 0;                          // queued
  std::uint64_t questions = 0;            // queries answered with no, since it was recorded
  bool is_gone = false;
  std::chrono::steady_clock::time_point time{};

  [[nodiscard]] bool is_over() const { return !stream || stream->done >= count; }
};

struct RuntimeGraph {
  int device = 0;
  std::thread::id thread;  // that captures it
  std::vector<SimulatedTask*> tasks;
  const char* forbidden = nullptr;  // work done meanwhile
};

struct SimulatedDevice {
  explicit SimulatedDevice(int number) : index(number), memory(number) {}

  [[nodiscard]] std::string name() const { return to_string(sim_device(index)); }

  int index;
  SimulatedMemory memory;
  bool is_open = false;  // its memory, for the worker
  SimulatedCounts counts;
  std::string error;
  // The number, of allocations and so on, that a fault waits for; -1: none.
  std::int64_t out_of_memory_at = -1, error_at = -1, hang_at = -1, lost_wait_at = -1;
};

struct SimulatedWaiter {
  const RuntimeStream* stream = nullptr;
  std::uint64_t count = 0;
  const SimulatedDevice* device = nullptr;  // for at most `queued` tasks of it, if it is not null
  std::int64_t queued = 0;
  bool is_done = false;

  [[nodiscard]] bool may_go() const {
    return device ? device->counts.queued <= queued : stream->done >= count;
  }
};

}  // namespace lockstep
