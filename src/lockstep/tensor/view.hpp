#pragma once
// The only place where Kokkos enters. Included by kernels (ours and users'), never by other
// headers.
#include <Kokkos_Core.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

namespace detail {
[[noreturn]] void view_mismatch(const Tensor& tensor, DType wanted, int dims, bool host);

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

/// An unmanaged row-major Kokkos View of rank N over a tensor's elements:
///   auto x = view<Space, const float, 2>(t);   x(row, column)
/// Throws ShapeError if dtype, number of dimensions or device does not match.
template <class Space, class T, int N>
auto view(const Tensor& tensor) {
  using View = Kokkos::View<typename detail::AddPointers<T, N>::type, Kokkos::LayoutRight,
                            typename Space::memory_space, Kokkos::MemoryTraits<Kokkos::Unmanaged>>;
  constexpr bool host = is_host_space<Space>;
  if (!tensor.defined() || tensor.dtype() != dtype_of<T> || tensor.dims() != N ||
      (tensor.device().type == DeviceType::host) != host) {
    detail::view_mismatch(tensor, dtype_of<T>, N, host);
  }
  auto* data = static_cast<T*>(tensor.data());
  return [&]<int... D>(std::integer_sequence<int, D...>) {
    return View(data, static_cast<std::size_t>(tensor.size(D))...);
  }
  (std::make_integer_sequence<int, N>{});
}

/// All elements of a tensor as one dimension.
template <class Space, class T>
auto flat_view(const Tensor& tensor) {
  return view<Space, T, 1>(tensor.reshape({tensor.numel()}));
}

}  // namespace lockstep
