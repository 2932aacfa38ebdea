#pragma once
#include <cstddef>
#include <cstdint>

#include <dnnl.hpp>

namespace lockstep::math {

/// oneDNN's matmul c[m,n] (+)= a[m,k] b[k,n], and + bias[n] for each row, of dense operands; sums
/// in f32, rounded once where c is of 16 bits. A transposed operand is the transpose of the matrix
/// in memory, whose rows are contiguous; c's rows are c_stride apart.
class DenseProduct {
 public:
  struct Shape {
    dnnl::memory::data_type operands;
    std::int64_t m, n, k, c_stride;
    bool a_transposed = false, b_transposed = false, accumulate = false, bias = false;
    dnnl::memory::data_type result = dnnl::memory::data_type::f32;  ///< of c and the bias
    friend bool operator==(const Shape&, const Shape&) = default;
  };

  explicit DenseProduct(const Shape& shape) : DenseProduct(shape, describe(shape)) {}

  [[nodiscard]] const Shape& shape() const { return shape_; }
  /// Of the shape's types; `bias` counts only if the shape has one.
  void run(const void* a, const void* b, void* c, const void* bias = nullptr);

 private:
  using Description = dnnl::matmul::primitive_desc;

  DenseProduct(const Shape& shape, const Description& description);
  static Description describe(const Shape& shape);

  Shape shape_;
  dnnl::matmul primitive_;
  dnnl::memory a_, b_, c_, bias_, scratchpad_;
  std::size_t scratchpad_bytes_;
};

/// This thread's product of a shape, made at the first call. Throws Error if oneDNN cannot.
[[nodiscard]] DenseProduct& dense_product(const DenseProduct::Shape& shape);

}  // namespace lockstep::math
