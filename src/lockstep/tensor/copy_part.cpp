#include <lockstep/tensor/copy_part.hpp>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// Copies the rectangle of `from` that begins at offsets[dim, ...].
void copy_rectangle(const Tensor& from, const Shape& offsets, int dim, const Tensor& to) {
  const std::int64_t begin = offsets[dim];
  bool is_run = true;  // of the memory
  for (int d = 1; d < to.dims(); ++d) is_run = is_run && to.size(d) == from.size(d);
  if (is_run) return to.copy_from(from.slice(begin, begin + to.size(0)));
  for (std::int64_t i = 0; i < to.size(0); ++i) {
    copy_rectangle(from[begin + i], offsets, dim + 1, to[i]);
  }
}

}  // namespace

void copy_part(const Tensor& whole, const Placement& placement, const Tensor& part) {
  if (!placement.sharded) return part.copy_from(whole);
  const Shape all = placement.by_parts(whole.shape()), mine = placement.by_parts(part.shape()),
              offsets = placement.rectangle_offsets();
  bool fits = whole.shape() == placement.global && whole.dtype() == part.dtype() &&
              mine.dims() == all.dims() && offsets.dims() == all.dims();
  for (int d = 0; fits && d < all.dims(); ++d) {
    fits = offsets[d] >= 0 && offsets[d] + mine[d] <= all[d];
  }
  if (!fits) {
    throw ShapeError("copy_part: " + describe(part) + " at " + to_string(placement.offsets) +
                     " is not a part of " + describe(whole) + ", whose placement is that of " +
                     to_string(placement.global));
  }
  if (part.numel() > 0) copy_rectangle(whole.reshape(all), offsets, 0, part.reshape(mine));
}

}  // namespace lockstep
