#pragma once
#include <array>
#include <initializer_list>
#include <span>

#include <lockstep/tensor/shape.hpp>

namespace lockstep {

/// Dimensions by number, 0 the outermost and negative ones counted from the end; stored in place,
/// like Shape.
class Dims {
 public:
  Dims() = default;
  /// Throws ShapeError for more than Shape::max_dims of them.
  Dims(std::initializer_list<int> dims) : Dims(std::span(dims.begin(), dims.size())) {}
  explicit Dims(std::span<const int> dims);

  [[nodiscard]] int size() const noexcept { return size_; }
  [[nodiscard]] int operator[](int i) const { return dims_[static_cast<std::size_t>(i)]; }
  [[nodiscard]] const int* begin() const noexcept { return dims_.data(); }
  [[nodiscard]] const int* end() const noexcept { return dims_.data() + size_; }

 private:
  std::array<int, Shape::max_dims> dims_{};
  int size_ = 0;
};

/// The dimension `d` of `shape`, counted from the front; 0 for 0 and -1 of a scalar, as in PyTorch.
/// Throws ShapeError if there is no such dimension.
[[nodiscard]] int resolve_dim(const Shape& shape, int d);

/// The same dimensions counted from the front; all of them if `dims` is empty. Throws ShapeError
/// for one that does not exist or comes twice.
[[nodiscard]] Dims resolve_dims(const Shape& shape, const Dims& dims);

/// `shape` with another extent of dimension `dim`, which is counted from the front.
[[nodiscard]] Shape with_extent(const Shape& shape, int dim, std::int64_t extent);

/// `dims` dimensions of extent 1, except dimension `dim`.
[[nodiscard]] Shape with_one_extent(int dims, int dim, std::int64_t extent);

}  // namespace lockstep
