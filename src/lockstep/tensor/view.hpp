#pragma once
// The only header that includes Kokkos. Included by kernels (ours and users'), never by other
// headers.
#include <Kokkos_Core.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/runtime/launch.hpp>
#include <lockstep/tensor/tensor.hpp>

#ifndef KOKKOS_ENABLE_SERIAL
#error "Lockstep needs a Kokkos with its serial host space: configure it with Kokkos_ENABLE_SERIAL"
#endif

namespace lockstep {

/// The space of host kernels: the calling thread. Kokkos' default may be OpenMP, and every rank and
/// every thread of a rank would start its threads.
using HostExecutionSpace = Kokkos::Serial;

#ifdef KOKKOS_ENABLE_CUDA
inline constexpr bool kokkos_has_cuda = true;
#else
inline constexpr bool kokkos_has_cuda = false;
#endif

namespace detail {
/// Throws ShapeError unless the tensor is `wanted`, fits, and is on the device that this thread
/// launches to, one that `kernels` take: those of the host, which simulated devices run too, or
/// CUDA's.
void expect_elements(const Tensor& tensor, DType wanted, int dims, bool fits, DeviceType kernels);

template <class T, int N>
struct AddPointers {
  using type = typename AddPointers<T*, N - 1>::type;
};
template <class T>
struct AddPointers<T, 0> {
  using type = T;
};
}  // namespace detail

template <class Space>
inline constexpr bool is_host_space =
    Kokkos::SpaceAccessibility<Kokkos::HostSpace, typename Space::memory_space>::accessible;

namespace detail {
/// The address of a tensor's elements for kernels, after checks that it fits a kernel in Space and
/// is on the device that this thread launches to.
template <class Space, class T>
T* elements(const Tensor& tensor, int dims, bool fits) {
  constexpr DeviceType kernels = is_host_space<Space> ? DeviceType::host : DeviceType::cuda;
  const bool is_of_host = kernels == DeviceType::host && tensor.device().type == DeviceType::host &&
                          launch_target.device.type == DeviceType::host;
  if (!fits || !tensor.defined() || tensor.dtype() != dtype_of<T> || !is_of_host) [[unlikely]] {
    expect_elements(tensor, dtype_of<T>, dims, fits, kernels);
  }
  return static_cast<T*>(tensor.kernel_data());
}

template <class Space, class T, int N>
using View = Kokkos::View<typename AddPointers<T, N>::type, Kokkos::LayoutRight,
                          typename Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
}  // namespace detail

/// An unmanaged row-major Kokkos View of rank N over a tensor's elements:
///   auto x = view<Space, const float, 2>(t);   x(row, column)
/// Throws ShapeError if dtype, number of dimensions or device does not match, and for an image in
/// channel blocks, whose dimensions have another meaning.
template <class Space, class T, int N>
auto view(const Tensor& tensor) {
  const bool fits = tensor.dims() == N && tensor.layout() == Layout::plain;
  auto* data = detail::elements<Space, T>(tensor, N, fits);
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    return detail::View<Space, T, N>(data, static_cast<std::size_t>(tensor.size(D))...);
  }
  (std::make_integer_sequence<int, N>{});
}

/// All elements of a tensor as one dimension, in memory order: for elementwise kernels, in any
/// layout.
template <class Space, class T>
auto flat_view(const Tensor& tensor) {
  return detail::View<Space, T, 1>(detail::elements<Space, T>(tensor, 1, true),
                                   static_cast<std::size_t>(tensor.numel()));
}

}  // namespace lockstep
