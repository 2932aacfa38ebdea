#include <lockstep/tensor/stream.hpp>

#include <array>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {
namespace {

/// The streams of one device, made when they are asked for.
struct StreamsOfDevice {
  RuntimeStream* first = nullptr;
  std::array<RuntimeStream*, Stream::streams_in_pool> pool{};
  std::size_t next = 0;
};

struct AllStreams {
  std::mutex mutex;
  std::array<StreamsOfDevice, device_slots> of_devices;

  static AllStreams& instance() {
    static auto* const streams = new AllStreams;  // they may outlive main()
    return *streams;
  }
};

RuntimeStream* make_first([[maybe_unused]] Device device) {
#ifdef KOKKOS_ENABLE_CUDA
  if (device.type == DeviceType::cuda) {
    ensure_kokkos(device);
    const Kokkos::Cuda space;
    if (space.cuda_device() == device.index) {
      return reinterpret_cast<RuntimeStream*>(space.cuda_stream());
    }
  }
#endif
  return runtime_of(device.type).make_stream(device.index);
}

}  // namespace

RuntimeStream* Stream::first_queue(Device device) {
  if (device.type == DeviceType::cuda && !has_cuda_runtime()) return nullptr;
  auto& all = AllStreams::instance();
  const std::lock_guard lock(all.mutex);
  auto& streams = all.of_devices[slot_of(device)];
  if (!streams.first) streams.first = make_first(device);
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

void Stream::synchronize() const {
  if (queue_) runtime_of(device_.type).synchronize(queue_);
}

void Stream::wait(const DeviceEvent& event) const {
  if (queue_ && event.event_) runtime_of(device_.type).wait(queue_, event.event_);
}

Stream& current_stream(Device device) {
  thread_local Stream host;
  if (device.type == DeviceType::host) return host;
  thread_local std::array<Stream, device_slots> others;
  Stream& stream = others[slot_of(device)];
  if (stream.device() != device) stream = Stream(device);
  return stream;
}

StreamGuard::StreamGuard(const Stream& stream) : before_(current_stream(stream.device())) {
  current_stream(stream.device()) = stream;
}

StreamGuard::~StreamGuard() { current_stream(before_.device()) = before_; }

DeviceEvent::DeviceEvent(Device device) : device_(device) {
  if (device.type != DeviceType::host) event_ = runtime_of(device.type).make_event(device.index);
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
  if (!event_ || !earlier.event_) return 0;
  return runtime_of(device_.type).milliseconds(earlier.event_, event_);
}

namespace detail {

thread_local constinit LaunchTarget launch_target;

LaunchTarget target_of(const Stream& stream) {
  if (stream.device().type == DeviceType::sim) return {stream.device(), stream.queue()};
#ifdef KOKKOS_ENABLE_CUDA
  return {stream.device(), nullptr};
#else
  throw ShapeError("this build has no CUDA, so it computes nothing on " +
                   to_string(stream.device()) + ": move its tensors to the host first");
#endif
}

#ifdef KOKKOS_ENABLE_CUDA
Kokkos::Cuda cuda_space(const Stream& stream) {
  const Kokkos::Cuda first;
  auto* const queue = reinterpret_cast<cudaStream_t>(stream.handle());
  if (queue == first.cuda_stream()) return first;
  static std::mutex mutex;
  static auto& made = *new std::map<cudaStream_t, Kokkos::Cuda>;
  const std::lock_guard lock(mutex);
  return made.try_emplace(queue, queue).first->second;
}
#endif

}  // namespace detail

#ifdef KOKKOS_ENABLE_CUDA
namespace {

void initialize_kokkos(Device device) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) count = 0;  // which is left as it was
  if (device.index >= count) {
    throw Error(
        "there is no " + to_string(device) + ": CUDA finds " + std::to_string(count) + " devices" +
        (status != cudaSuccess ? std::string(" (") + cudaGetErrorString(status) + ")" : "") +
        ". Run on the host, or where the driver shows this process a GPU.");
  }
#if KOKKOS_VERSION < 30700
  Kokkos::InitArguments settings;
  settings.device_id = device.index;
#else
  const auto settings = Kokkos::InitializationSettings().set_device_id(device.index);
#endif
  Kokkos::initialize(settings);
}

}  // namespace
#endif

void ensure_kokkos([[maybe_unused]] Device device) {
#ifdef KOKKOS_ENABLE_CUDA
  if (device.type != DeviceType::cuda) return;
#endif
  static std::once_flag once;
  std::call_once(once, [&] {
    if (Kokkos::is_initialized()) return;
#ifdef KOKKOS_ENABLE_CUDA
    initialize_kokkos(device);
#else
    Kokkos::initialize();
#endif
    std::atexit([] {
      if (Kokkos::is_initialized()) Kokkos::finalize();
    });
  });
}

}  // namespace lockstep
