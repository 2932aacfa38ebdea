#include <lockstep/autograd/functional/expand.hpp>

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include <lockstep/autograd/functional/sum_map.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/broadcast.hpp>

namespace lockstep {
namespace {

/// `shape` with leading ones, with as many dimensions as `full`.
Shape aligned(const Shape& shape, const Shape& full) {
  std::array<std::int64_t, Shape::max_dims> extents{};
  const int missing = full.dims() - shape.dims();
  for (int d = 0; d < full.dims(); ++d) {
    extents[static_cast<std::size_t>(d)] = d < missing ? 1 : shape[d - missing];
  }
  return Shape(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(full.dims())));
}

void expect_broadcast(const char* operation, const Variable& x, const Shape& shape,
                      const Shape& full) {
  if (broadcasts_to(shape, full)) return;
  throw ShapeError(std::string(operation) + " of " + describe(x.data()) + ": " + to_string(shape) +
                   " cannot be broadcast to " + to_string(full));
}

}  // namespace

Variable expand(const Variable& input, const Shape& shape) {
  if (shape == input.shape()) return input;
  expect_broadcast("expand", input, input.shape(), shape);
  return natively(
      [&](const Variable& x) {
        return linear_map<detail::SumMap, true>(
            detail::SumMap{"expand", aligned(x.shape(), shape), 1.0}, x,
            Tensor::empty(shape, x.data().dtype(), x.data().device()));
      },
      input);
}

Variable sum_to_size(const Variable& input, const Shape& shape) {
  if (shape == input.shape()) return input;
  expect_broadcast("sum_to_size", input, shape, input.shape());
  return natively(
      [&](const Variable& x) {
        return linear_map(detail::SumMap{"sum_to_size", aligned(shape, x.shape()), 1.0}, x,
                          Tensor::empty(shape, x.data().dtype(), x.data().device()));
      },
      input);
}

}  // namespace lockstep
