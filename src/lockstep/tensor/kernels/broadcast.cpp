#include <lockstep/tensor/kernels/broadcast.hpp>

#include <algorithm>

#include <lockstep/base/error.hpp>

namespace lockstep {

Shape broadcast_shape(const char* operation, const Tensor& a, const Tensor& b) {
  const int dims = std::max(a.dims(), b.dims());
  std::array<std::int64_t, Shape::max_dims> extents{};
  bool fits = a.dtype() == b.dtype() && a.device() == b.device();
  for (int d = 1; d <= dims; ++d) {
    const std::int64_t of_a = d <= a.dims() ? a.size(-d) : 1;
    const std::int64_t of_b = d <= b.dims() ? b.size(-d) : 1;
    fits = fits && (of_a == of_b || of_a == 1 || of_b == 1);
    extents[static_cast<std::size_t>(dims - d)] = of_a == 1 ? of_b : of_a;
  }
  if (!fits) {
    throw ShapeError(std::string(operation) + " of " + describe(a) + " and " + describe(b) +
                     ": operands have one dtype and device, and extents that are equal or 1, "
                     "counted from the last dimension");
  }
  return Shape(std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(dims)));
}

bool broadcasts_to(const Shape& shape, const Shape& full) {
  bool fits = shape.dims() <= full.dims();
  for (int d = 1; fits && d <= shape.dims(); ++d) fits = shape[-d] == 1 || shape[-d] == full[-d];
  return fits;
}

}  // namespace lockstep
