#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <optional>
#include <utility>

#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// A callable that is copied to the place where it runs, and destroyed there.
struct LateCall {
  std::size_t bytes, alignment;
  void (*construct)(void* place, const void* source);
  void (*run)(void* call);
  void (*destroy)(void* call) noexcept;
  const void* source;

  template <class F>
  [[nodiscard]] static LateCall of(const F& f) noexcept {
    return {
        sizeof(F),
        alignof(F),
        [](void* place, const void* source) { ::new (place) F(*static_cast<const F*>(source)); },
        [](void* call) { (*static_cast<F*>(call))(); },
        [](void* call) noexcept { static_cast<F*>(call)->~F(); },
        &f};
  }
};

namespace detail {

/// The destination of this thread's launches.
struct LaunchTarget {
  Device device{};                 ///< of its tensors
  RuntimeStream* queue = nullptr;  ///< of a simulated device; null: it is run at once
};
// Read by every kernel: initial-exec makes that two instructions and no call.
[[gnu::tls_model("initial-exec")]] extern thread_local constinit LaunchTarget launch_target;

/// Throws ShapeError if this build computes nothing on the stream's device.
[[nodiscard]] LaunchTarget target_of(const Stream& stream);

/// While it lives, this thread's kernels go to `stream`. On the host it only looks whether they do.
class LaunchScope {
 public:
  explicit LaunchScope(const Stream& stream) {
    if (stream.device().type != launch_target.device.type ||
        launch_target.device.type != DeviceType::host) [[unlikely]] {
      before_ = std::exchange(launch_target, target_of(stream));
    }
  }
  ~LaunchScope() {
    if (before_) [[unlikely]] {
      launch_target = *before_;
    }
  }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  std::optional<LaunchTarget> before_;
};

/// Whether a tool of Kokkos' (KOKKOS_PROFILE_LIBRARY) is told of host kernels: known when Kokkos is
/// initialised.
extern constinit std::atomic<bool> kernels_are_profiled;
/// Reports the start of a kernel; returns the number for end_profiled().
[[nodiscard]] std::uint64_t begin_profiled(const char* label);
void end_profiled(std::uint64_t id);

/// Gives a call to the simulated stream that is this thread's target. `label` is static.
void launch_late(const char* label, const LateCall& call);

}  // namespace detail
}  // namespace lockstep
