#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

// Gram-Schmidt over the rows of a [rows, columns], f32 or f64, on any device:
// from the first row to the last, each row's components along the earlier ones are subtracted and
// its length is set to 1, twice, so that nearly parallel rows become orthogonal to rounding too.
// Sums are made in double, in an order that depends on the shape alone. A row of which only
// rounding errors remain is in the span of the earlier ones and is lost. NaN spreads. On a GPU one
// block of threads computes all rows: 2 rows^2 passes over a row.

namespace lockstep {

/// Lost rows become zero. Throws ShapeError for other dtypes or dimensions.
void orthonormalize_rows(const Tensor& a);

/// Says which random numbers: word c mod 4 of Philox block (c / 4, draw, step, stream) for column
/// c, each lost row being another draw.
struct RandomRows {
  std::uint64_t seed = 0;
  std::uint32_t stream = 0, step = 0;
};

/// Random rows replace lost ones, so the rows are always orthonormal. Throws ShapeError as above,
/// and if there are more rows than columns.
void orthonormalize_rows(const Tensor& a, const RandomRows& random);

}  // namespace lockstep
