#include <lockstep/tensor/kernels/sequence/embedding.hpp>

#include <algorithm>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/sequence/row_links.hpp>

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

/// Gradients of the table's rows, from those of G. A chain is added up in the order of its rows, so
/// the bits do not depend on threads, and is rounded once.
template <class G, class T, class Space>
struct ChainSums {
  using Wide = SumOf<T>;
  using From = decltype(view<Space, const G, 2>(Tensor()));
  using To = decltype(view<Space, T, 2>(Tensor()));
  using Links = decltype(view<Space, const std::int64_t, 2>(Tensor()));
  From g;
  To table;
  Links links;

  /// Adds the chain that begins at row r to `row` of the table.
  KOKKOS_FUNCTION void add(std::int64_t r, std::int64_t row, const Lanes<Space>& lanes) const {
    if constexpr (is_host_space<Space>) {
      constexpr std::int64_t strip = 64;
      const auto width = static_cast<std::int64_t>(table.extent(1));
      for (std::int64_t c = 0; c < width; c += strip) {
        const std::int64_t count = c + strip < width ? strip : width - c;
        Wide sums[strip];
        T* const to = &table(row, c);
        for (std::int64_t l = 0; l < count; ++l) sums[l] = static_cast<Wide>(to[l]);
        for (std::int64_t k = r; k >= 0; k = links(0, k)) {
          const G* const from = &g(k, c);
          for (std::int64_t l = 0; l < count; ++l) sums[l] += static_cast<Wide>(from[l]);
        }
        for (std::int64_t l = 0; l < count; ++l) to[l] = static_cast<T>(sums[l]);
      }
    } else {
      lanes.each([&](std::int64_t c) {
        Wide sum = static_cast<Wide>(table(row, c));
        for (std::int64_t k = r; k >= 0; k = links(0, k)) sum += static_cast<Wide>(g(k, c));
        table(row, c) = static_cast<T>(sum);
      });
    }
  }
};

template <class G, class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& index,
                     const Tensor& linked, std::int64_t padding_idx, const Tensor& grad_weight) {
  const std::int64_t rows = index.numel(), width = grad_weight.size(1);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto links = view<Space, const std::int64_t, 2>(linked);
  const ChainSums<G, T, Space> sums{view<Space, const G, 2>(grad_y.reshape({rows, width})),
                                    view<Space, T, 2>(grad_weight), links};
  for_each_row(
      "lockstep::embedding_backward", space, rows, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t row = chosen(r);
        if (row != padding_idx && links(1, r) == 0) sums.add(r, row, lanes);
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
    dispatch_stored(weight.dtype(), "embedding",
                    [&]<class T>() { forward_kernel<T>(space, index, weight, y); });
  });
}

void embedding_backward(const Tensor& grad_y, const Tensor& index, std::int64_t padding_idx,
                        bool accumulate, const Tensor& grad_weight) {
  if (!accumulate) grad_weight.zero();
  const Tensor links = Tensor::empty({2, index.numel()}, DType::i64, index.device());
  dispatch(current_stream(grad_weight.device()), [&](const auto& space) {
    detail::link_kernel(space, index, grad_weight.size(0), links);
    dispatch_stored(grad_y.dtype(), "embedding", [&]<class G>() {
      if (grad_weight.dtype() == grad_y.dtype()) {
        backward_kernel<G, G>(space, grad_y, index, links, padding_idx, grad_weight);
      } else {
        backward_kernel<G, SumOf<G>>(space, grad_y, index, links, padding_idx, grad_weight);
      }
    });
  });
}

}  // namespace lockstep
