#pragma once
#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/tensor/kernels/data/index.hpp>

namespace lockstep::detail {

/// gather (functional/shape.hpp) as a map for linear_map.hpp; its result may have another shape.
struct GatherMap {
  const char* label;
  int dim;
  Tensor indices;

  void apply(const Tensor& x, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& to) {
      gather_forward(x, dim, indices, to.reshape(indices.shape()));
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& x) const {
    gather_backward(y.reshape(indices.shape()), dim, indices, accumulate, x);
  }
  [[nodiscard]] const char* name() const noexcept { return label; }
};

/// y (+)= the elements of x[N,C, ...] that max pools have chosen in each plane; indices i32 of y's
/// shape are their places in it.
inline void take_from_planes(const Tensor& x, const Tensor& indices, bool accumulate,
                             const Tensor& y) {
  const std::int64_t planes = x.size(0) * x.size(1);
  if (y.numel() == 0) return;
  const Shape flat{planes, y.numel() / planes};
  GatherMap{"max_pool", 1, indices.reshape(flat).to(DType::i64)}.apply(
      x.reshape({planes, x.numel() / planes}), accumulate, y);
}

}  // namespace lockstep::detail
