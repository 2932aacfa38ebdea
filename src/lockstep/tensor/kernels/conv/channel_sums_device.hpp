#pragma once
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

/// sums[C] (+)= the sums of x[N, C, ...], or of an image in channel blocks, over all but C, on a
/// GPU or its stand-in: parts of each channel by teams or threads of their own, then their sums, in
/// an order that the shape determines. `sums` has x's dtype or that of its sums.
void channel_sums_on_device(const Tensor& x, bool accumulate, const Tensor& sums);

}  // namespace lockstep::detail
