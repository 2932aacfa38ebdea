#include <lockstep/tensor/stream.hpp>

#include <array>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>
#include <lockstep/tensor/runtime/own_stream.hpp>

namespace lockstep {
namespace {

/// The streams of one device, made on demand.
struct StreamsOfDevice {
  RuntimeStream* first = nullptr;
  std::array<RuntimeStream*, Stream::streams_in_pool> pool{};
  std::size_t next = 0;
  std::vector<Stream> unowned;  // of owners that are gone
};

struct AllStreams {
  std::recursive_mutex mutex;
  std::array<StreamsOfDevice, device_slots> of_devices;

  static AllStreams& instance() {
    static auto* const streams = new AllStreams;  // they may outlive main()
    return *streams;
  }
};

}  // namespace

RuntimeStream* Stream::first_queue(Device device) {
  if (device.type == DeviceType::cuda && !has_cuda_runtime()) return nullptr;
  auto& all = AllStreams::instance();
  const std::lock_guard lock(all.mutex);
  auto& streams = all.of_devices[slot_of(device)];
  if (!streams.first) streams.first = runtime_of(device.type).make_stream(device.index);
  return streams.first;
}

Stream Stream::from_pool(Device device) {
  Stream stream;
  stream.device_ = device;
  if (device.type == DeviceType::host) return stream;
  auto& all = AllStreams::instance();
  const std::lock_guard lock(all.mutex);
  auto& streams = all.of_devices[slot_of(device)];
  RuntimeStream*& next = streams.pool[streams.next++ % streams.pool.size()];
  if (!next) next = runtime_of(device.type).make_stream(device.index);
  stream.queue_ = next;
  return stream;
}

OwnStream::OwnStream(Device device) {
  auto& all = AllStreams::instance();
  const std::lock_guard lock(all.mutex);
  auto& streams = all.of_devices[slot_of(device)];
  if (!streams.unowned.empty()) {
    stream_ = streams.unowned.back();
    streams.unowned.pop_back();
    return;
  }
  // from_pool() makes a stream for an empty place.
  RuntimeStream*& place = streams.pool[streams.next % streams.pool.size()];
  RuntimeStream* const shared = std::exchange(place, nullptr);
  try {
    stream_ = Stream::from_pool(device);
  } catch (...) {
    place = shared;
    throw;
  }
  place = shared;
  --streams.next;
}

OwnStream::~OwnStream() {
  auto& all = AllStreams::instance();
  const std::lock_guard lock(all.mutex);
  auto& streams = all.of_devices[slot_of(stream_.device())];
  streams.unowned.push_back(stream_);
}

void Stream::synchronize() const {
  if (queue_) runtime_of(device_.type).synchronize(queue_);
}

void Stream::wait(const DeviceEvent& event) const {
  if (queue_ && event.event_) runtime_of(device_.type).wait(queue_, event.event_);
}

Stream& current_stream(Device device) {
  static constinit thread_local Stream host;
  if (device.type == DeviceType::host) return host;
  static constinit thread_local std::array<Stream, device_slots> others;
  Stream& stream = others[slot_of(device)];
  if (stream.device() != device) stream = Stream(device);
  return stream;
}

StreamGuard::StreamGuard(const Stream& stream) : before_(current_stream(stream.device())) {
  current_stream(stream.device()) = stream;
}

StreamGuard::~StreamGuard() { current_stream(before_.device()) = before_; }

DeviceEvent::DeviceEvent(Device device, bool enable_timing)
    : device_(device), enable_timing_(enable_timing) {
  if (device.type != DeviceType::host)
    event_ = runtime_of(device.type).make_event(device.index, enable_timing);
}

DeviceEvent::~DeviceEvent() {
  if (event_) runtime_of(device_.type).destroy(event_);
}

void DeviceEvent::record(const Stream& stream) {
  if (stream.device() != device_) {
    throw ShapeError("an event of " + to_string(device_) + " cannot mark a stream of " +
                     to_string(stream.device()));
  }
  if (event_) runtime_of(device_.type).record(event_, stream.queue());
}

bool DeviceEvent::is_over() const { return !event_ || runtime_of(device_.type).is_over(event_); }

void DeviceEvent::synchronize() const {
  if (event_) runtime_of(device_.type).synchronize(event_);
}

double DeviceEvent::milliseconds_since(const DeviceEvent& earlier) const {
  if (!enable_timing_ || !earlier.enable_timing_) {
    throw Error("DeviceEvent: the time between events is known only with enable_timing in both");
  }
  if (!event_ || !earlier.event_) return 0;
  return runtime_of(device_.type).milliseconds(earlier.event_, event_);
}

}  // namespace lockstep
