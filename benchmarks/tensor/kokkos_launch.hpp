#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::bench {

/// Sets the first element of x, of f32 on a GPU, `launches` times by Kokkos' own parallel_for.
/// Returns false on other devices, whose kernels Kokkos does not launch.
[[nodiscard]] bool launch_by_kokkos(const Tensor& x, int launches);

}  // namespace lockstep::bench
