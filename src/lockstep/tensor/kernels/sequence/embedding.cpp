#include <lockstep/tensor/kernels/sequence/embedding.hpp>

#include <algorithm>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

std::string no_row(const IndexCheck& check, std::int64_t i, std::int64_t index) {
  return "embedding: index " + std::to_string(index) + ", number " + std::to_string(i) + " of " +
         to_string(check.indices) + ", is outside the table's rows [0, " +
         std::to_string(check.count) + ")";
}

template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& index, const Tensor& weight,
                    const Tensor& y) {
  const std::int64_t rows = index.numel(), width = weight.size(1);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto table = view<Space, const T, 2>(weight);
  const auto out = view<Space, T, 2>(y.reshape({rows, width}));
  for_each_row(
      "lockstep::embedding_forward", space, rows, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t row = chosen(r);
        lanes.each([&](std::int64_t c) { out(r, c) = table(row, c); });
      });
}

// Each strip of columns is handled by one thread, which adds the rows in order. So the bits do not
// depend on the number of threads, even for repeated indices.
template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& index,
                     std::int64_t padding_idx, const Tensor& grad_weight) {
  constexpr std::int64_t columns = 16;
  const std::int64_t rows = index.numel(), width = grad_weight.size(1);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto g = view<Space, const T, 2>(grad_y.reshape({rows, width}));
  const auto table = view<Space, T, 2>(grad_weight);
  for_each(
      "lockstep::embedding_backward", space, (width + columns - 1) / columns,
      KOKKOS_LAMBDA(std::int64_t strip) {
        const std::int64_t begin = strip * columns;
        const std::int64_t end = begin + columns < width ? begin + columns : width;
        for (std::int64_t r = 0; r < rows; ++r) {
          const std::int64_t row = chosen(r);
          if (row == padding_idx) continue;
          for (std::int64_t c = begin; c < end; ++c) table(row, c) += g(r, c);
        }
      });
}

}  // namespace

Shape embedding_shape(const Tensor& index, const Tensor& weight, std::int64_t padding_idx) {
  if (index.dtype() != DType::i64 || weight.dims() != 2 || !is_floating(weight.dtype()) ||
      index.dims() + 1 > Shape::max_dims) {
    throw ShapeError("embedding of index " + describe(index) + " in weight " + describe(weight) +
                     ": it takes an i64 index and a floating weight [rows, width]");
  }
  const std::int64_t rows = weight.size(0);
  if (padding_idx < -1 || padding_idx >= rows) {
    throw InputError("embedding: padding_idx " + std::to_string(padding_idx) +
                     " is not a row of weight " + describe(weight) + "; -1 means none");
  }
  std::array<std::int64_t, Shape::max_dims> extents{};
  std::ranges::copy(index.shape(), extents.begin());
  extents[static_cast<std::size_t>(index.dims())] = weight.size(1);
  return Shape(
      std::span<const std::int64_t>(extents.data(), static_cast<std::size_t>(index.dims() + 1)));
}

Tensor right_rows(const Tensor& index, const Tensor& weight) {
  return right_indices({.count = weight.size(0), .sentence = no_row, .indices = index.shape()},
                       index, 0);
}

void embedding_forward(const Tensor& index, const Tensor& weight, const Tensor& y) {
  dispatch(current_stream(weight.device()), [&](const auto& space) {
    dispatch_floating(weight.dtype(), "embedding",
                      [&]<class T>() { forward_kernel<T>(space, index, weight, y); });
  });
}

void embedding_backward(const Tensor& grad_y, const Tensor& index, std::int64_t padding_idx,
                        bool accumulate, const Tensor& grad_weight) {
  if (!accumulate) grad_weight.zero();
  dispatch(current_stream(grad_weight.device()), [&](const auto& space) {
    dispatch_floating(grad_weight.dtype(), "embedding", [&]<class T>() {
      backward_kernel<T>(space, grad_y, index, padding_idx, grad_weight);
    });
  });
}

}  // namespace lockstep
