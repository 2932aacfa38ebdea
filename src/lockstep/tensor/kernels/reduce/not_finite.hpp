#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// `found`, f32 [1] on x's device, becomes 1 if an element of x is an infinity or not a number, and
/// stays as it is otherwise. The host does not wait.
void find_not_finite(const Tensor& x, const Tensor& found);

/// g *= 1 / scale, and then find_not_finite(g, found), in one pass. g is f32 or f64, scale f32 [],
/// all on one device.
void unscale(const Tensor& g, const Tensor& scale, const Tensor& found);

}  // namespace lockstep
