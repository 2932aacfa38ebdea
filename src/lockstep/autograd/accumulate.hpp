#pragma once
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// `compute(to)` for a kernel that overwrites its output; with `accumulate`, adds the computed
/// values to `to`.
template <class Compute>
void accumulate_into(const Tensor& to, bool accumulate, const Compute& compute) {
  if (!accumulate) return compute(to);
  const Tensor part = Tensor::empty_like(to);
  compute(part);
  add_scaled(part, 1.0, to);
}

}  // namespace lockstep
