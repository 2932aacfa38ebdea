#pragma once
// Which rows of a batch take the same row of a table: backward passes of embeddings add up their
// gradients in one place. Private to the kernels' .cpp files.
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {

/// Rows with the same index form a chain, in their order: links(0, r) is the next one after row r
/// or -1, links(1, r) is 0 if r is the first.
template <class Space>
requires is_host_space<Space>
void link_kernel(const Space& space, const Tensor& index, std::int64_t table_rows,
                 const Tensor& links) {
  const std::int64_t rows = index.numel();
  const Tensor newest = Tensor::full({table_rows}, -1, DType::i64, index.device());
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto last = flat_view<Space, std::int64_t>(newest);
  const auto link = view<Space, std::int64_t, 2>(links);
  for_each(
      "lockstep::embedding_links", space, 1, KOKKOS_LAMBDA(std::int64_t) {
        for (std::int64_t r = 0; r < rows; ++r) {
          std::int64_t& before = last(chosen(r));
          link(0, r) = -1;
          link(1, r) = before < 0 ? 0 : 1;
          if (before >= 0) link(0, before) = r;
          before = r;
        }
      });
}

// Every row searches for the next one: more comparisons, but one thread a row.
template <class Space>
void link_kernel(const Space& space, const Tensor& index, std::int64_t /*table_rows*/,
                 const Tensor& links) {
  const std::int64_t rows = index.numel();
  links.zero();
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto link = view<Space, std::int64_t, 2>(links);
  for_each(
      "lockstep::embedding_links", space, rows, KOKKOS_LAMBDA(std::int64_t r) {
        const std::int64_t row = chosen(r);
        std::int64_t next = r + 1;
        while (next < rows && chosen(next) != row) ++next;
        link(0, r) = next < rows ? next : -1;
        if (next < rows) link(1, next) = 1;
      });
}

}  // namespace lockstep::detail
