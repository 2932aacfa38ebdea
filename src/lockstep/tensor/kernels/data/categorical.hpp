#pragma once
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep {

/// y[...] (i64) = for each row of probabilities p[..., C] one of the C categories, drawn with the
/// row's (its weights need not add up to 1). Row i of all rows takes the first two words of Philox
/// block (0, first_sample + i, step, stream) under key.seed as one number with 53 bits. f32 or f64.
/// Throws InputError for a row without a positive finite sum, or with a negative weight; on a
/// device such a row gets 0, and expect_right_indices (index_check.hpp) throws.
void sample_categories(const Tensor& p, const RandomKey& key, const Tensor& y);

}  // namespace lockstep
