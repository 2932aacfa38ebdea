#include <lockstep/autograd/functional/embedding.hpp>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/linear_map.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/sequence/embedding.hpp>

namespace lockstep {
namespace {

/// Maps the weight to its rows. The transpose skips rows of `padding_idx`.
struct EmbeddingMap {
  Tensor index;
  std::int64_t padding_idx;

  void apply(const Tensor& weight, bool accumulate, const Tensor& y) const {
    accumulate_into(y, accumulate, [&](const Tensor& rows) {
      if (padding_idx < 0) return embedding_forward(index, weight, rows);
      const Tensor without = weight.clone();
      without.slice(padding_idx, padding_idx + 1).zero();
      embedding_forward(index, without, rows);
    });
  }
  void transpose(const Tensor& y, bool accumulate, const Tensor& weight) const {
    embedding_backward(y, index, padding_idx, accumulate, weight);
  }
  [[nodiscard]] static const char* name() noexcept { return "embedding"; }
};

}  // namespace

Variable embedding(const Tensor& given, const Variable& weight, std::int64_t padding_idx) {
  const Tensor index = as_indices(given);
  const Tensor& table = weight.data();
  Tensor y =
      Tensor::empty(embedding_shape(index, table, padding_idx), table.dtype(), table.device());
  Tensor rows = right_rows(index, table);
  embedding_forward(rows, table, y);
  return record<LinearMapNode<EmbeddingMap>>(std::move(y), {&weight},
                                             EmbeddingMap{std::move(rows), padding_idx});
}

}  // namespace lockstep
