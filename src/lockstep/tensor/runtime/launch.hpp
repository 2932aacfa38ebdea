#pragma once
#include <cstddef>
#include <new>

#include <lockstep/tensor/stream.hpp>

namespace lockstep {

/// A call of something that is copied to where it runs, and destroyed there.
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

/// Where what this thread launches goes.
struct LaunchTarget {
  Device device{};                 ///< of its tensors
  RuntimeStream* queue = nullptr;  ///< of a simulated device; null: it is run at once
};
extern thread_local constinit LaunchTarget launch_target;

/// Throws ShapeError if this build computes nothing on the stream's device.
[[nodiscard]] LaunchTarget target_of(const Stream& stream);

/// While it lives, this thread's kernels go to `stream`.
class LaunchScope {
 public:
  explicit LaunchScope(const Stream& stream) : before_(launch_target) {
    launch_target = stream.device().type == DeviceType::host ? LaunchTarget{} : target_of(stream);
  }
  ~LaunchScope() { launch_target = before_; }
  LaunchScope(const LaunchScope&) = delete;
  LaunchScope& operator=(const LaunchScope&) = delete;

 private:
  LaunchTarget before_;
};

/// Gives a call to the simulated stream that is this thread's target. `label` is static.
void launch_late(const char* label, const LateCall& call);

}  // namespace detail
}  // namespace lockstep
