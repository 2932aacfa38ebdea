#pragma once
#include <type_traits>
#include <utility>

#include <lockstep/tensor/half.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/stream.hpp>
#include <lockstep/tensor/view.hpp>

namespace lockstep {

/// Initialises Kokkos if nobody has; it is finalised at exit only if we initialised it.
/// Thread-safe.
void ensure_kokkos();

#ifdef KOKKOS_ENABLE_CUDA
namespace detail {
/// Kokkos' instance for a stream, made once.
[[nodiscard]] Kokkos::Cuda cuda_space(const Stream& stream);
}  // namespace detail
#endif

/// Calls f(space) with the execution space of `stream`'s device: the one place where a kernel
/// template meets its device. `f` is a generic callable that launches kernels on that space. For a
/// simulated device that is the host's space: for_each hands the kernels to the stream.
template <class F>
void dispatch(const Stream& stream, F&& f) {
  ensure_kokkos();
  const detail::LaunchScope scope(stream);
#ifdef KOKKOS_ENABLE_CUDA
  if (stream.device().type == DeviceType::cuda) {
    std::forward<F>(f)(detail::cuda_space(stream));
    return;
  }
#endif
  std::forward<F>(f)(Kokkos::DefaultHostExecutionSpace());
}

/// Calls f.template operator()<float>() or <double>() for a floating dtype; throws ShapeError for
/// others, naming the operation.
template <class F>
void dispatch_floating(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::f32:
      std::forward<F>(f).template operator()<float>();
      return;
    case DType::f64:
      std::forward<F>(f).template operator()<double>();
      return;
    default:
      throw ShapeError(std::string(operation) + " takes f32 or f64 tensors, not " +
                       std::string(name_of(dtype)));
  }
}

/// The same for the operands of a product, <BFloat16> and <Float16> too.
template <class F>
void dispatch_operands(DType dtype, const char* operation, F&& f) {
  switch (dtype) {
    case DType::bf16:
      std::forward<F>(f).template operator()<BFloat16>();
      return;
    case DType::f16:
      std::forward<F>(f).template operator()<Float16>();
      return;
    default:
      dispatch_floating(dtype, operation, std::forward<F>(f));
  }
}

/// What products of T are summed and returned in.
template <class T>
using SumOf = std::conditional_t<sizeof(T) == 2, float, T>;

}  // namespace lockstep
