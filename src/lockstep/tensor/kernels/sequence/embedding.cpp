#include <lockstep/tensor/kernels/sequence/embedding.hpp>

#include <algorithm>
#include <string>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/data/segment_sums.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>

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

/// Rows with the same index form a chain, in their order: links(0, r) is the next one after row r
/// or -1, links(1, r) is 0 if r is the first.
template <class Space>
void link_kernel(const Space& space, const Tensor& index, std::int64_t table_rows,
                 const Tensor& links) {
  const std::int64_t rows = index.numel();
  const Tensor newest = Tensor::full({table_rows}, -1, DType::i64, index.device());
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto last = flat_view<Space, std::int64_t>(newest);
  const auto link = view<Space, std::int64_t, 2>(links);
  for_each("lockstep::embedding_links", space, 1, [=](std::int64_t) {
    for (std::int64_t r = 0; r < rows; ++r) {
      std::int64_t& before = last(chosen(r));
      link(0, r) = -1;
      link(1, r) = before < 0 ? 0 : 1;
      if (before >= 0) link(0, before) = r;
      before = r;
    }
  });
}

/// Gradients of the table's rows, from those of G. A chain is added up in the order of its rows, so
/// the bits do not depend on threads, and is rounded once.
template <class G, class T, class Space>
void add_chains_kernel(const Space& space, const Tensor& grad_y, const Tensor& index,
                       const Tensor& linked, std::int64_t padding_idx, const Tensor& grad_weight) {
  using Wide = SumOf<T>;
  const std::int64_t rows = index.numel(), width = grad_weight.size(1);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto links = view<Space, const std::int64_t, 2>(linked);
  const auto g = view<Space, const G, 2>(grad_y.reshape({rows, width}));
  const auto table = view<Space, T, 2>(grad_weight);
  for_each("lockstep::embedding_backward", space, rows, [=](std::int64_t r) {
    const std::int64_t row = chosen(r);
    if (row == padding_idx || links(1, r) != 0) return;
    constexpr std::int64_t strip = 64;
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
  });
}

/// The same on a GPU. A table may have few rows, so threads share out a row's sum.
template <class G, class T, class Space>
void add_segments_kernel(const Space& space, const Tensor& grad_y, const Tensor& index,
                         std::int64_t padding_idx, const Tensor& grad_weight) {
  using Wide = SumOf<T>;
  const std::int64_t rows = index.numel(), width = grad_weight.size(1);
  const auto sorted = detail::sorted_by_row(space, index);
  const auto place = flat_view<Space, const std::int64_t>(sorted.places);
  const auto g = view<Space, const G, 2>(grad_y.reshape({rows, width}));
  const auto table = view<Space, T, 2>(grad_weight);
  detail::for_each_segment_sum<Wide>(
      space, sorted, width,
      KOKKOS_LAMBDA(std::int64_t k, std::int64_t c) { return static_cast<Wide>(g(place(k), c)); },
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t c, Wide sum) {
        if (row == padding_idx) return;
        table(row, c) = static_cast<T>(static_cast<Wide>(table(row, c)) + sum);
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
  if (index.numel() == 0) return;
  const Stream& stream = current_stream(grad_weight.device());
  const auto with_dtypes = [&](const auto& kernel) {
    dispatch_stored(grad_y.dtype(), "embedding", [&]<class G>() {
      if constexpr (sizeof(G) == 2) {
        if (grad_weight.dtype() != grad_y.dtype()) return kernel.template operator()<G, SumOf<G>>();
      }
      kernel.template operator()<G, G>();
    });
  };
  if (math::device_math(grad_weight.device())) {
    return dispatch(stream, [&](const auto& space) {
      with_dtypes([&]<class G, class T>() {
        add_segments_kernel<G, T>(space, grad_y, index, padding_idx, grad_weight);
      });
    });
  }
  dispatch_to_host(stream, [&](const auto& space) {
    const Tensor links = Tensor::empty({2, index.numel()}, DType::i64, index.device());
    link_kernel(space, index, grad_weight.size(0), links);
    with_dtypes([&]<class G, class T>() {
      add_chains_kernel<G, T>(space, grad_y, index, links, padding_idx, grad_weight);
    });
  });
}

}  // namespace lockstep
