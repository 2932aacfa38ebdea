#include <lockstep/tensor/dims.hpp>

#include <algorithm>
#include <numeric>
#include <string>

#include <lockstep/base/error.hpp>

namespace lockstep {

Dims::Dims(std::span<const int> dims) : size_(static_cast<int>(dims.size())) {
  if (dims.size() > dims_.size()) {
    throw ShapeError("a tensor has at most " + std::to_string(Shape::max_dims) +
                     " dimensions: " + std::to_string(dims.size()) + " were named");
  }
  std::ranges::copy(dims, dims_.begin());
}

int resolve_dim(const Shape& shape, int d) {
  if (shape.dims() == 0 && (d == 0 || d == -1)) return 0;
  static_cast<void>(shape[d]);  // throws if there is no such dimension
  return d < 0 ? d + shape.dims() : d;
}

Dims resolve_dims(const Shape& shape, const Dims& dims) {
  std::array<int, Shape::max_dims> resolved{};
  int size = 0;
  if (dims.size() == 0) {
    size = shape.dims();
    std::iota(resolved.begin(), resolved.begin() + size, 0);
  }
  for (const int d : dims) {
    const int dim = resolve_dim(shape, d);
    if (std::find(resolved.begin(), resolved.begin() + size, dim) != resolved.begin() + size) {
      throw ShapeError("dimension " + std::to_string(d) + " of shape " + to_string(shape) +
                       " is named twice");
    }
    resolved[static_cast<std::size_t>(size++)] = dim;
  }
  return Dims(std::span<const int>(resolved.data(), static_cast<std::size_t>(size)));
}

Shape with_extent(const Shape& shape, int dim, std::int64_t extent) {
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::ranges::copy(shape, extents.begin());
  extents[static_cast<std::size_t>(dim)] = extent;
  return Shape(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(shape.dims())));
}

Shape with_one_extent(int dims, int dim, std::int64_t extent) {
  std::array<std::int64_t, Shape::max_dims> ones{};
  ones.fill(1);
  const Shape shape(std::span<const std::int64_t>(ones.data(), static_cast<std::size_t>(dims)));
  return with_extent(shape, dim, extent);
}

}  // namespace lockstep
