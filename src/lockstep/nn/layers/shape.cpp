#include <lockstep/nn/layers/shape.hpp>

#include <span>
#include <string>
#include <vector>

#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/tensor/dims.hpp>

namespace lockstep::nn {
namespace {

[[maybe_unused]] const bool identity_is_known = add_blocked_layer(typeid(Identity));

}  // namespace

Variable Identity::forward(const Variable& x) { return x; }

Variable Flatten::forward(const Variable& x) { return flatten(x, 1); }

Variable Unflatten::forward(const Variable& x) {
  const Shape& shape = x.shape();
  const int cut = resolve_dim(shape, dim_);
  std::vector<std::int64_t> extents;
  for (int d = 0; d < shape.dims(); ++d) {
    if (d != cut) {
      extents.push_back(shape[d]);
    } else {
      extents.insert(extents.end(), sizes_.begin(), sizes_.end());
    }
  }
  if (sizes_.numel() != shape[cut]) {
    throw ShapeError("Unflatten of dimension " + std::to_string(dim_) + " of " +
                     describe(x.data()) + " into " + to_string(sizes_) +
                     ": their product must be the dimension's extent");
  }
  return reshape(x, Shape(std::span<const std::int64_t>(extents)));
}

}  // namespace lockstep::nn
