#include <lockstep/tensor/runtime/simulated_runtime.hpp>

#include <pthread.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <new>
#include <thread>
#include <utility>

#include <lockstep/base/failure.hpp>
#include <lockstep/tensor/runtime/simulated_records.hpp>

namespace lockstep {

constinit thread_local bool SimulatedRuntime::on_worker = false;

SimulatedRuntime& SimulatedRuntime::instance() {
  static auto* const runtime = new SimulatedRuntime;  // tensors may outlive main()
  return *runtime;
}

SimulatedRuntime::SimulatedRuntime() {
  // signals are for the program's threads; a fault is handled by its own thread
  sigset_t held, before;
  sigfillset(&held);
  for (const int fault : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGTRAP}) sigdelset(&held, fault);
  pthread_sigmask(SIG_SETMASK, &held, &before);
  std::thread([this] { work(); }).detach();
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

SimulatedRuntime::~SimulatedRuntime() = default;

void SimulatedRuntime::set_seed(std::uint64_t seed) {
  const Lock lock(mutex_);
  random_ = seed;
}

void SimulatedRuntime::inject(int device, const SimulatedFaults& faults) {
  const Lock lock(mutex_);
  SimulatedDevice& state = state_of(device, lock);
  const auto at = [](std::int64_t so_far, std::int64_t nth) { return nth > 0 ? so_far + nth : -1; };
  state.out_of_memory_at = at(state.counts.allocations, faults.out_of_memory_at);
  state.error_at = at(state.counts.launches, faults.error_at);
  state.hang_at = at(state.counts.launches, faults.hang_at);
  state.lost_wait_at = at(state.counts.waits, faults.lost_wait_at);
}

void SimulatedRuntime::let_go(int device) {
  const Lock lock(mutex_);
  SimulatedDevice& state = state_of(device, lock);
  state.out_of_memory_at = state.error_at = state.hang_at = state.lost_wait_at = -1;
  state.error.clear();
  for (const auto& stream : streams_) {
    if (stream->device != device) continue;
    stream->hangs = false;
    for (SimulatedTask* task = stream->first; task; task = task->next)
      task->fault = SimulatedTask::Fault::none;  // faults of launches that have not begun
  }
  wanted_.notify_all();
}

void SimulatedRuntime::set_capacity(int device, std::size_t bytes) {
  const Lock lock(mutex_);
  state_of(device, lock).memory.set_capacity(bytes);
}

SimulatedCounts SimulatedRuntime::counts(int device) {
  const Lock lock(mutex_);
  return state_of(device, lock).counts;
}

SimulatedDevice& SimulatedRuntime::state_of(int device, const Lock& /*lock*/) {
  if (device < 0 || device >= devices) {
    throw InputError("there is no device " + to_string(sim_device(device)) +
                     ": sim:0 to sim:" + std::to_string(devices - 1) + " are simulated");
  }
  auto& state = states_[static_cast<std::size_t>(device)];
  if (!state) {
    state = std::make_unique<SimulatedDevice>(device);
    report_faults_of(state->memory);
  }
  return *state;
}

void SimulatedRuntime::expect_sound(const SimulatedDevice& device, const Lock& /*lock*/) const {
  if (!device.error.empty()) throw DeviceError(device.error);
}

/// Throws if this thread captures a stream of the device, or any thread `used`; the capture is then
/// invalid.
void SimulatedRuntime::forbid_in_capture(SimulatedDevice& device, const char* operation,
                                         const Lock& /*lock*/, const RuntimeStream* used) const {
  bool captured = false;
  for (const auto& stream : streams_) {
    if (stream->device != device.index || !stream->capture) continue;
    if (stream->capture->thread != std::this_thread::get_id() && stream.get() != used) continue;
    stream->capture->forbidden = operation;
    captured = true;
  }
  if (!captured) return;
  throw DeviceError(std::string(operation) + " is forbidden while a stream of " +
                    to_string(sim_device(device.index)) + " is captured into a graph");
}

// --- memory

void* SimulatedRuntime::allocate(int device, std::size_t bytes) {
  SimulatedMemory* memory = nullptr;
  {
    const Lock lock(mutex_);
    SimulatedDevice& state = state_of(device, lock);
    expect_sound(state, lock);
    forbid_in_capture(state, "allocating memory", lock);
    if (++state.counts.allocations == state.out_of_memory_at) return nullptr;
    memory = &state.memory;
  }
  return memory->allocate(bytes);
}

void SimulatedRuntime::free(int device, void* data) noexcept {
  SimulatedDevice* state = nullptr;
  {
    Lock lock(mutex_);
    state = states_[static_cast<std::size_t>(device)].get();
    drain(*state, lock);
  }
  state->memory.free(data);
}

SimulatedMemory* SimulatedRuntime::memory_at(const void* address, const Lock& /*lock*/) {
  for (const auto& state : states_) {
    if (state && state->memory.contains(address)) return &state->memory;
  }
  return nullptr;
}

void* SimulatedRuntime::kernel_address(void* data) noexcept {
  const Lock lock(mutex_);
  const SimulatedMemory* const memory = memory_at(data, lock);
  return memory ? memory->kernel_address(data) : data;
}

void SimulatedRuntime::set_label(void* data, std::string_view label) noexcept {
  SimulatedMemory* memory = nullptr;
  {
    const Lock lock(mutex_);
    memory = memory_at(data, lock);
  }
  if (memory) memory->set_label(data, label);
}

void SimulatedRuntime::retire(void* data, std::size_t bytes, RuntimeStream* stream) {
  fill(data, SimulatedMemory::poison, bytes, stream);
}

void* SimulatedRuntime::allocate_pinned(std::size_t bytes) {
  constexpr std::size_t line = 64;
  const std::size_t whole = std::max<std::size_t>(1, (bytes + line - 1) / line) * line;
  auto* const data = static_cast<std::byte*>(std::aligned_alloc(line, whole));
  if (!data) return nullptr;
  const Lock lock(mutex_);
  pinned_[data] = whole;
  return data;
}

void SimulatedRuntime::free_pinned(void* data) noexcept {
  {
    Lock lock(mutex_);
    for (const auto& state : states_) {
      if (state) drain(*state, lock);
    }
    pinned_.erase(static_cast<const std::byte*>(data));
  }
  std::free(data);
}

bool SimulatedRuntime::is_pinned(const void* address, const Lock& /*lock*/) const {
  const auto* const at = static_cast<const std::byte*>(address);
  auto after = pinned_.upper_bound(at);
  if (after == pinned_.begin()) return false;
  --after;
  return at < after->first + after->second;
}

// --- tasks of streams

SimulatedTask& SimulatedRuntime::take_task(const Lock& /*lock*/) {
  SimulatedTask* task = free_tasks_;
  if (task) {
    free_tasks_ = task->next;
  } else {
    task = new SimulatedTask;
  }
  task->kind = SimulatedTask::Kind::call;
  task->fault = SimulatedTask::Fault::none;
  task->launch = 0;
  return *task;
}

void SimulatedRuntime::give_task(SimulatedTask& task) noexcept {
  task.next = std::exchange(free_tasks_, &task);
}

void SimulatedRuntime::enqueue(RuntimeStream& stream, SimulatedTask& task, Lock& lock) {
  if (stream.capture) {
    stream.capture->tasks.push_back(&task);
    return;
  }
  SimulatedDevice& device = state_of(stream.device, lock);
  stream.push(task);
  if (!waiters_.empty()) wanted_.notify_one();
  if (++device.counts.queued <= max_queued || on_worker) return;
  SimulatedWaiter waiter{.device = &device, .queued = max_queued / 2};
  waiters_.push_back(&waiter);
  wanted_.notify_one();
  done_.wait(lock, [&] { return waiter.is_done; });
}

void SimulatedRuntime::launch(RuntimeStream* stream, const char* label, const LateCall& f) {
  launch_when(stream, label, {}, f);
}

void SimulatedRuntime::launch_when(RuntimeStream* stream, const char* label,
                                   std::function<bool()> is_ready, const LateCall& f) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  expect_sound(device, lock);
  SimulatedTask& task = take_task(lock);
  try {
    task.call = task.room_for(f.bytes, f.alignment);
    f.construct(task.call, f.source);
  } catch (...) {
    give_task(task);
    throw;
  }
  task.label = label;
  task.is_ready = std::move(is_ready);
  task.run = f.run;
  task.destroy = f.destroy;
  if (!stream->capture) count_launch(device, task, lock);
  enqueue(*stream, task, lock);
}

void SimulatedRuntime::count_launch(SimulatedDevice& device, SimulatedTask& task,
                                    const Lock& /*lock*/) {
  task.launch = ++device.counts.launches;
  if (task.launch == device.error_at) task.fault = SimulatedTask::Fault::error;
  if (task.launch == device.hang_at) task.fault = SimulatedTask::Fault::hang;
}

namespace {

struct CopyBytes {
  std::byte* to;
  const std::byte* from;
  std::size_t bytes;
};

struct FillBytes {
  std::byte* to;
  unsigned char value;
  std::size_t bytes;
};

/// A task for a call without a destructor.
template <class Call>
void set_call(SimulatedTask& task, const char* label, const Call& call, void (*run)(void*)) {
  task.label = label;
  task.call = ::new (task.place) Call(call);
  task.run = run;
  task.destroy = nullptr;
}

}  // namespace

void SimulatedRuntime::copy(void* to, const void* from, std::size_t bytes, RuntimeStream* stream) {
  if (bytes == 0) return;
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  expect_sound(device, lock);
  const SimulatedMemory* const target = memory_at(to, lock);
  const SimulatedMemory* const source = memory_at(from, lock);
  const bool is_ordered = (target || is_pinned(to, lock)) && (source || is_pinned(from, lock));
  if (!is_ordered) forbid_in_capture(device, "a copy of memory that is not pinned", lock);
  SimulatedTask& task = take_task(lock);
  set_call(
      task, "copy",
      CopyBytes{target ? target->kernel_address(to) : static_cast<std::byte*>(to),
                source ? source->kernel_address(from) : static_cast<const std::byte*>(from), bytes},
      [](void* call) {
        const auto& c = *static_cast<const CopyBytes*>(call);
        std::memmove(c.to, c.from, c.bytes);
      });
  ++device.counts.copies;
  enqueue(*stream, task, lock);
  if (is_ordered) return;
  wait_for(*stream, stream->given, lock);
  expect_sound(device, lock);
}

void SimulatedRuntime::fill(void* to, unsigned char value, std::size_t bytes,
                            RuntimeStream* stream) {
  if (bytes == 0) return;
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  expect_sound(device, lock);
  const SimulatedMemory* const target = memory_at(to, lock);
  if (!target) throw DeviceError("a fill of memory that is not a simulated device's");
  SimulatedTask& task = take_task(lock);
  set_call(task, "fill", FillBytes{target->kernel_address(to), value, bytes}, [](void* call) {
    const auto& f = *static_cast<const FillBytes*>(call);
    std::memset(f.to, f.value, f.bytes);
  });
  ++device.counts.copies;
  enqueue(*stream, task, lock);
}

// --- streams and events

RuntimeStream* SimulatedRuntime::make_stream(int device) {
  const Lock lock(mutex_);
  static_cast<void>(state_of(device, lock));
  const auto& stream = streams_.emplace_back(std::make_unique<RuntimeStream>());
  stream->device = device;
  ready_.reserve(streams_.size());
  return stream.get();
}

/// The record stays: events may refer to it.
void SimulatedRuntime::destroy(RuntimeStream* stream) noexcept {
  Lock lock(mutex_);
  wait_for(*stream, stream->given, lock);
}

void SimulatedRuntime::wait_for(RuntimeStream& stream, std::uint64_t count, Lock& lock) {
  if (stream.done >= count || on_worker) return;
  SimulatedWaiter waiter{.stream = &stream, .count = count};
  ++states_[static_cast<std::size_t>(stream.device)]->counts.host_waits;
  waiters_.push_back(&waiter);
  wanted_.notify_one();
  done_.wait(lock, [&] { return waiter.is_done; });
}

void SimulatedRuntime::drain(SimulatedDevice& device, Lock& lock) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {  // more may arrive meanwhile
    RuntimeStream& stream = *streams_[s];
    if (stream.device == device.index) wait_for(stream, stream.given, lock);
  }
}

/// Counts a wait.
bool SimulatedRuntime::forgets_wait(SimulatedDevice& device, const Lock& /*lock*/) {
  return ++device.counts.waits == device.lost_wait_at;
}

void SimulatedRuntime::synchronize(RuntimeStream* stream) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  forbid_in_capture(device, "waiting for a stream", lock, stream);
  if (forgets_wait(device, lock)) return;
  wait_for(*stream, stream->given, lock);
  expect_sound(device, lock);
}

void SimulatedRuntime::synchronize_device(int index) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(index, lock);
  forbid_in_capture(device, "waiting for a device", lock);
  drain(device, lock);
  expect_sound(device, lock);
}

RuntimeEvent* SimulatedRuntime::make_event(int device, bool /*enable_timing*/) {
  const Lock lock(mutex_);
  if (free_events_.empty()) {
    events_.push_back(std::make_unique<RuntimeEvent>());
    free_events_.reserve(events_.size());
    free_events_.push_back(events_.back().get());
  }
  RuntimeEvent* const event = free_events_.back();
  free_events_.pop_back();
  *event = RuntimeEvent{.device = device};
  return event;
}

void SimulatedRuntime::destroy(RuntimeEvent* event) noexcept {
  const Lock lock(mutex_);
  event->is_gone = true;
  if (event->marks == 0) free_events_.push_back(event);
}

void SimulatedRuntime::record(RuntimeEvent* event, RuntimeStream* stream) {
  Lock lock(mutex_);
  expect_sound(state_of(stream->device, lock), lock);
  SimulatedTask& task = take_task(lock);
  task.kind = SimulatedTask::Kind::mark;
  task.event = event;
  event->graph = stream->capture;
  if (!stream->capture) {
    event->stream = stream;
    event->count = stream->given + 1;
    event->questions = 0;
    ++event->marks;
  }
  enqueue(*stream, task, lock);
}

void SimulatedRuntime::wait(RuntimeStream* stream, RuntimeEvent* event) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  expect_sound(device, lock);
  if (event->graph || stream->capture) {
    if (event->graph == stream->capture) return;  // a graph has one stream, so it is in order
    forbid_in_capture(device, "waiting for an event of another stream", lock, stream);
    throw DeviceError(
        "an event that was recorded in a capture can be waited for only in that capture");
  }
  if (forgets_wait(device, lock) || !event->stream) return;
  SimulatedTask& task = take_task(lock);
  task.kind = SimulatedTask::Kind::wait;
  task.after = event->stream;
  task.count = event->count;
  enqueue(*stream, task, lock);
}

bool SimulatedRuntime::is_over(RuntimeEvent* event) {
  const Lock lock(mutex_);
  SimulatedDevice& device = state_of(event->device, lock);
  forbid_in_capture(device, "asking for an event", lock);
  if (event->is_over()) {
    expect_sound(device, lock);
    return true;
  }
  if (forgets_wait(device, lock)) return true;
  // Repeated queries get an answer in the end. The number of tasks doubles each time: the allocator
  // queries at every allocation, and this way wakes the worker 8 instead of 170 times a step.
  constexpr std::uint64_t fewest = 16;
  if (++event->questions >= fewest && std::has_single_bit(event->questions)) {
    owed_ += static_cast<std::int64_t>(event->questions);
    wanted_.notify_one();
  }
  return false;
}

void SimulatedRuntime::synchronize(RuntimeEvent* event) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(event->device, lock);
  forbid_in_capture(device, "waiting for an event", lock);
  if (forgets_wait(device, lock) || !event->stream) return;
  SimulatedWaiter waiter{.stream = event->stream, .count = event->count};
  if (!waiter.may_go()) {
    ++device.counts.host_waits;
    waiters_.push_back(&waiter);
    wanted_.notify_one();
    done_.wait(lock, [&] { return waiter.is_done; });
  }
  expect_sound(device, lock);
}

double SimulatedRuntime::milliseconds(RuntimeEvent* from, RuntimeEvent* to) {
  const Lock lock(mutex_);
  if (!from->stream || !to->stream || !from->is_over() || !to->is_over()) {
    throw DeviceError("the time between two events is known only when both have completed");
  }
  return std::chrono::duration<double, std::milli>(to->time - from->time).count();
}

// --- graphs

void SimulatedRuntime::begin_capture(RuntimeStream* stream) {
  const Lock lock(mutex_);
  if (stream->capture) throw DeviceError("this stream is already being captured");
  stream->capture = new RuntimeGraph;
  stream->capture->device = stream->device;
  stream->capture->thread = std::this_thread::get_id();
}

RuntimeGraph* SimulatedRuntime::end_capture(RuntimeStream* stream) {
  Lock lock(mutex_);
  RuntimeGraph* const graph = std::exchange(stream->capture, nullptr);
  if (!graph) throw DeviceError("this stream is not being captured");
  if (!graph->forbidden) return graph;
  const std::string operation = graph->forbidden;
  lock.unlock();
  destroy(graph);
  throw DeviceError("the capture is lost: " + operation + " was forbidden");
}

void SimulatedRuntime::launch(RuntimeGraph* graph, RuntimeStream* stream) {
  Lock lock(mutex_);
  SimulatedDevice& device = state_of(stream->device, lock);
  expect_sound(device, lock);
  if (graph->device != stream->device) {
    throw DeviceError("a graph of " + to_string(sim_device(graph->device)) + " on a stream of " +
                      to_string(sim_device(stream->device)));
  }
  SimulatedTask& task = take_task(lock);
  task.kind = SimulatedTask::Kind::graph;
  task.label = "graph";
  task.graph = graph;
  count_launch(device, task, lock);
  enqueue(*stream, task, lock);
}

void SimulatedRuntime::destroy(RuntimeGraph* graph) noexcept {
  for (SimulatedTask* const task : graph->tasks) task->end_call();
  const Lock lock(mutex_);
  for (SimulatedTask* const task : graph->tasks) give_task(*task);
  delete graph;
}

void detail::launch_late(const char* label, const LateCall& call) {
  SimulatedRuntime::instance().launch(launch_target.queue, label, call);
}

}  // namespace lockstep
