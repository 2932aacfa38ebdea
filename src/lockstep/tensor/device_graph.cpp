#include <lockstep/tensor/device_graph.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/runtime/own_stream.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {
namespace {

constexpr std::size_t numbers_bytes = std::size_t{64} << 10U, numbers_alignment = 64;

thread_local DeviceGraph* captured_now = nullptr;

Device expect_device(Device device) {
  if (device.type != DeviceType::host) return device;
  throw InputError("DeviceGraph: the host has no graphs; capture work of a device");
}

Tensor bytes_on(Device device) {
  const MemoryLabel label("numbers of a graph");
  return Tensor::zeros({static_cast<std::int64_t>(numbers_bytes)}, DType::u8, device);
}

/// While it lives, this thread captures `graph`.
class Capturing {
 public:
  explicit Capturing(DeviceGraph& graph) { captured_now = &graph; }
  ~Capturing() { captured_now = nullptr; }
  Capturing(const Capturing&) = delete;
  Capturing& operator=(const Capturing&) = delete;
};

}  // namespace

struct DeviceGraph::State {
  explicit State(Device of)
      : device(of),
        runtime(runtime_of(of.type)),
        allocator(CachingAllocator::of(of)),
        stream(of),
        before(of),
        after(of),
        replayed(of),
        numbers(bytes_on(of)),
        host(numbers_bytes) {
    for (std::size_t i = 0; i < sent_at_once; ++i) sent.emplace_back(of);
  }

  /// Pinned memory on its way to the device.
  struct Sent {
    explicit Sent(Device device)
        : bytes(Tensor::empty({static_cast<std::int64_t>(numbers_bytes)}, DType::u8)
                    .pin_memory(device.type)),
          arrived(device) {}
    Tensor bytes;
    DeviceEvent arrived;
  };
  static constexpr std::size_t sent_at_once = 4;

  void wait_for_replays() const noexcept {
    try {
      replayed.synchronize();
    } catch (const DeviceError&) {  // the device executes nothing any more
      return;
    }
  }

  void forget() noexcept {
    if (graph) {
      wait_for_replays();
      runtime.destroy(std::exchange(graph, nullptr));
    }
    used = 0;
    before_each.clear();
    after_each.clear();
    allocator.set_pool(stream.get().queue(), CachingAllocator::Pool::shared);
  }

  void send_numbers(const Stream& to) {
    if (used == 0) return;
    Sent& next = sent[next_sent];
    next_sent = (next_sent + 1) % sent_at_once;
    next.arrived.synchronize();
    std::memcpy(next.bytes.data(), host.data(), used);
    runtime.copy(numbers.data(), next.bytes.data(), used, to.queue());
    next.arrived.record(to);
  }

  Device device;
  DeviceRuntime& runtime;
  CachingAllocator& allocator;
  OwnStream stream;
  DeviceEvent before, after;  // order warm_up()
  DeviceEvent replayed;
  Tensor numbers;  // on the device
  std::vector<std::byte> host;
  std::size_t used = 0;  // bytes of both
  std::deque<Sent> sent;
  std::size_t next_sent = 0;
  std::vector<std::function<void()>> before_each, after_each;
  RuntimeGraph* graph = nullptr;
};

DeviceGraph::DeviceGraph(Device device) : state_(std::make_unique<State>(expect_device(device))) {}

DeviceGraph::~DeviceGraph() { state_->forget(); }

Device DeviceGraph::device() const noexcept { return state_->device; }

bool DeviceGraph::is_captured() const noexcept { return state_->graph != nullptr; }

DeviceGraph* DeviceGraph::capturing() noexcept { return captured_now; }

void DeviceGraph::warm_up(const std::function<void()>& work) {
  State& s = *state_;
  s.forget();
  const Stream caller = current_stream(s.device);
  s.before.record(caller);
  s.stream.get().wait(s.before);
  const auto join = [&] {
    s.after.record(s.stream.get());
    caller.wait(s.after);
  };
  try {
    const StreamGuard guard(s.stream.get());
    work();
  } catch (...) {
    join();
    throw;
  }
  join();
}

void DeviceGraph::capture(const std::function<void()>& work) {
  using Pool = CachingAllocator::Pool;
  if (captured_now) throw Error("DeviceGraph: this thread captures a graph already");
  State& s = *state_;
  s.forget();
  RuntimeStream* const queue = s.stream.get().queue();
  s.allocator.set_pool(queue, Pool::recording);
  std::exception_ptr problem;
  try {
    s.runtime.begin_capture(queue);
    try {
      const Capturing scope(*this);
      const StreamGuard guard(s.stream.get());
      work();
    } catch (...) {
      problem = std::current_exception();
    }
    s.graph = s.runtime.end_capture(queue);
  } catch (...) {  // it tells of the loss, `problem` of the reason
    if (!problem) problem = std::current_exception();
  }
  if (problem) {
    s.forget();
    std::rethrow_exception(problem);
  }
  s.allocator.set_pool(queue, Pool::sealed);
}

void DeviceGraph::replay() {
  State& s = *state_;
  if (!s.graph) throw Error("DeviceGraph: nothing to replay: call capture() first");
  for (const auto& f : s.before_each) f();
  const Stream& stream = current_stream(s.device);
  s.send_numbers(stream);
  s.runtime.launch(s.graph, stream.queue());
  s.replayed.record(stream);
  for (const auto& f : s.after_each) f();
}

DeviceGraph::Numbers DeviceGraph::numbers(std::size_t bytes) {
  State& s = *state_;
  const std::size_t begin = s.used, end = begin + (bytes + numbers_alignment - 1) /
                                                      numbers_alignment * numbers_alignment;
  if (end > numbers_bytes) {
    throw Error("DeviceGraph: the numbers that the host changes between replays take more than " +
                std::to_string(numbers_bytes) + " bytes: capture less work in one graph");
  }
  s.used = end;
  return {static_cast<std::byte*>(s.numbers.kernel_data()) + begin, s.host.data() + begin};
}

void DeviceGraph::before_replay(std::function<void()> f) {
  state_->before_each.push_back(std::move(f));
}

void DeviceGraph::after_replay(std::function<void()> f) {
  state_->after_each.push_back(std::move(f));
}

}  // namespace lockstep
