#include <algorithm>
#include <limits>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/tf32.hpp>

namespace lockstep::math {
namespace {

/// The largest power of 2, at most 256, that divides the number.
int power_of_2_in(std::uint64_t number) {
  constexpr std::uint64_t most = 256;
  const std::uint64_t bits = number | most;
  return static_cast<int>(bits & (~bits + 1));
}

int alignment_of(const Matrices& m) {
  const auto begin = reinterpret_cast<std::uintptr_t>(m.tensor.kernel_data());
  const std::uint64_t bytes = size_of(m.tensor.dtype());
  return power_of_2_in((begin + static_cast<std::uint64_t>(m.offset) * bytes) |
                       static_cast<std::uint64_t>(m.batch) * bytes);
}

/// `rows` and `columns` as the product uses them.
ColumnMajorProduct::Matrix matrix(const Matrices& m, std::int64_t rows, std::int64_t columns) {
  const std::int64_t stored_rows = m.transposed ? columns : rows;
  const std::int64_t width = m.transposed ? rows : columns;
  // Libraries require a stride of at least a row, even for a single one.
  const std::int64_t stride = stored_rows > 1 ? m.stride : std::max(m.stride, width);
  return {m.transposed, stride, m.batch, alignment_of(m)};
}

}  // namespace

ColumnMajorProduct column_major(const char* name, const ProductSize& size, const Matrices& a,
                                const Matrices& b, const Matrices& c, Epilogue epilogue,
                                const Tensor& vector, const Matrices* second) {
  ColumnMajorProduct p{.operands = a.tensor.dtype(),
                       .sums = c.tensor.dtype() == DType::f64 ? DType::f64 : DType::f32,
                       .results = c.tensor.dtype(),
                       .tf32 = a.tensor.dtype() == DType::f32 && !size.full_f32 && tf32_allowed(),
                       .rows = size.n,
                       .columns = size.m,
                       .terms = size.k,
                       .count = size.count,
                       .left = matrix(b, size.k, size.n),
                       .right = matrix(a, size.m, size.k),
                       .result = matrix(c, size.m, size.n),
                       .accumulate = size.accumulate,
                       .epilogue = epilogue};
  if (vector.defined()) {
    p.vector_alignment = power_of_2_in(reinterpret_cast<std::uintptr_t>(vector.kernel_data()));
  }
  if (second != nullptr) p.second = matrix(*second, size.m, size.n);
  for (const std::int64_t extent :
       {p.rows, p.columns, p.terms, p.count, p.left.stride, p.right.stride, p.result.stride}) {
    if (extent <= std::numeric_limits<std::int32_t>::max()) continue;
    throw ShapeError(
        std::string(name) + ": " + describe(p) +
        ": a GPU's libraries take extents and row strides below 2^31; compute it in parts");
  }
  return p;
}

}  // namespace lockstep::math
