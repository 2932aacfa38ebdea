#pragma once
// Runs host routines for tensors of a simulated device too: calls of oneDNN or the BLAS, and loops
// over addresses that no GPU would run.
#include <cstdint>
#include <initializer_list>
#include <tuple>
#include <type_traits>

#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// A host routine's view of a tensor: the address of its elements, and their description. It owns
/// nothing, so that work which runs late keeps no memory from being used again. Of no tensor:
/// defined() is false.
class HostArray {
 public:
  HostArray() = default;
  explicit HostArray(const Tensor& t) noexcept
      : data_(t.kernel_data()), shape_(t.shape()), dtype_(t.dtype()) {}

  [[nodiscard]] bool defined() const noexcept { return data_ != nullptr; }
  [[nodiscard]] void* data() const noexcept { return data_; }
  [[nodiscard]] const Shape& shape() const noexcept { return shape_; }
  [[nodiscard]] int dims() const noexcept { return shape_.dims(); }
  [[nodiscard]] std::int64_t size(int d) const { return shape_[d]; }
  [[nodiscard]] std::int64_t numel() const noexcept { return shape_.numel(); }
  [[nodiscard]] DType dtype() const noexcept { return dtype_; }

 private:
  void* data_ = nullptr;
  Shape shape_;
  DType dtype_ = DType::f32;
};

namespace detail {
/// The device of the defined tensors; at least one must be defined. Throws ShapeError, naming the
/// operation, if they are on several.
[[nodiscard]] Device common_device(const char* name, std::initializer_list<const Tensor*> tensors);
/// The same, and throws for a GPU or its stand-in (MathStandIn).
[[nodiscard]] Device device_of_task(const char* name, std::initializer_list<const Tensor*> tensors);

template <class F, class... Tensors>
[[gnu::noinline]] void hand_over_task(const char* name, const F& f, const Tensors&... tensors) {
  static_assert(std::is_trivially_destructible_v<std::decay_t<F>>,
                "a task must own nothing: pass its tensors as arguments");
  const LaunchScope scope(current_stream(device_of_task(name, {&tensors...})));
  const auto late = [f, arrays = std::tuple(HostArray(tensors)...), precision = product_precision(),
                     threads = math_threads()] {
    const PrecisionGuard precision_of_caller(precision);
    const MathThreadsGuard threads_of_caller(threads);
    std::apply(f, arrays);
  };
  launch_late(name, LateCall::of(late));
}
}  // namespace detail

/// f(HostArray(tensors)...): at once for tensors of the host; behind the current stream of a
/// simulated device, and then late. So f must capture other values by value, capture no tensor, and
/// allocate its own host memory. Throws ShapeError for tensors of several devices, and for a GPU,
/// which has no such kernel: the sentence begins with `name`, a static string. An undefined tensor
/// is an array that is not defined.
template <class F, class... Tensors>
void host_task(const char* name, const F& f, const Tensors&... tensors) {
  if (((tensors.device().type == DeviceType::host) && ...)) {
    f(HostArray(tensors)...);
  } else {
    detail::hand_over_task(name, f, tensors...);
  }
}

}  // namespace lockstep
