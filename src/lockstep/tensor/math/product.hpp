#pragma once
#include <cstdint>

#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep::math {

/// A stack of row-major matrices in the memory of a tensor, whatever its shape says.
struct Matrices {
  const Tensor& tensor;
  std::int64_t stride;      ///< elements between the beginnings of stored rows
  bool transposed = false;  ///< the product uses the transpose of the stored matrix
  std::int64_t offset = 0;  ///< elements before the first matrix
  std::int64_t batch = 0;   ///< elements between one and the next; 0: all are the same
};

struct ProductSize {
  std::int64_t m, n, k;
  std::int64_t count = 1;   ///< matrices in the stacks
  bool accumulate = false;  ///< add to the present values
  bool full_f32 = false;    ///< without TF32 in any case
};

/// c[m,n] (+)= a[m,k] b[k,n] for each matrix of the stacks; products with the same c are summed.
/// With `bias[n]` that is added to each row of c; then nothing accumulates. The operands are f32 or
/// f64, as c and the bias are, or both bf16 or both f16: then c and the bias are both f32 or both
/// of that type. Sums are f32 or f64; where c is of 16 bits, each product has its own c, and is
/// rounded once, together with the old c and the bias. Operands of f32 are rounded to
/// product_precision() first, on a GPU then by TF32 units where tf32.hpp allows it. Any extent may
/// be 0.
/// The one door to products: on the host gemm(), by one thread and at once; on a simulated device
/// the same, late (host_task.hpp); on a GPU the vendor's library, behind the current stream. Errors
/// begin with `name`, a static string: ShapeError for dtypes or devices that do not match, Error if
/// the library cannot compute it.
void product(const char* name, const ProductSize& size, const Matrices& a, const Matrices& b,
             const Matrices& c, const Tensor& bias = {});

/// product() of one matrix each (size.count is 1) that also overwrites row_sums[m] with the sums of
/// a's rows, in f32, rounded once. Returns false and does nothing unless one call of a GPU's
/// library computes both: not on the host, for f64, where an extent is 0 or row_sums has another
/// dtype than c. Not either where operands of f32 are rounded to product_precision() or multiplied
/// by TF32 units: the sums are of a's values. On a GPU throws as product() does.
[[nodiscard]] bool product_with_row_sums(const char* name, const ProductSize& size,
                                         const Matrices& a, const Matrices& b, const Matrices& c,
                                         const Tensor& row_sums);

/// Of one matrix each (size.count is 1, nothing accumulates), all five of one 16-bit type:
/// pre = a b + bias[n] and c = gelu(pre), by tanh, of the sums before they are rounded. Returns
/// false and does nothing unless one call of a GPU's library computes both: not on the host, nor
/// where an extent is 0 or n no multiple of 8. On a GPU throws as product() does.
[[nodiscard]] bool product_with_gelu(const char* name, const ProductSize& size, const Matrices& a,
                                     const Matrices& b, const Matrices& pre, const Matrices& c,
                                     const Tensor& bias);
/// The same of c = (a b) times the slope of gelu at pre.
[[nodiscard]] bool product_with_gelu_slope(const char* name, const ProductSize& size,
                                           const Matrices& a, const Matrices& b,
                                           const Matrices& pre, const Matrices& c);

/// The product of column-major matrices that these are for a library that sums in `sums`: as
/// row-major c is the transpose of column-major c, and (a b)^T = b^T a^T, left is b and right a.
/// `vector` is the epilogue's: a bias[n], or sums[m] of a's rows. `second` is its matrix, as c.
/// Throws ShapeError where an extent, a stride or the count is not below 2^31.
[[nodiscard]] ColumnMajorProduct column_major(const char* name, const ProductSize& size,
                                              const Matrices& a, const Matrices& b,
                                              const Matrices& c, Epilogue epilogue = Epilogue::none,
                                              const Tensor& vector = {},
                                              const Matrices* second = nullptr);

}  // namespace lockstep::math
