#include <lockstep/nn/layers/embedding.hpp>

#include <string>

#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::int64_t padding_idx)
    : padding_idx_(padding_idx) {
  expect_positive("Embedding", "num_embeddings", num_embeddings);
  expect_positive("Embedding", "embedding_dim", embedding_dim);
  if (padding_idx < -1 || padding_idx >= num_embeddings) {
    throw InputError("Embedding: padding_idx must be a row of the " +
                     std::to_string(num_embeddings) + ", or -1 for none, not " +
                     std::to_string(padding_idx));
  }
  const Tensor rows = normal({num_embeddings, embedding_dim}, 1.0);
  if (padding_idx >= 0) rows.slice(padding_idx, padding_idx + 1).zero();
  weight_ = register_parameter("weight", rows);
}

Variable Embedding::forward(const Variable& index) {
  return embedding(index.data(), weight_, padding_idx_);
}

}  // namespace lockstep::nn
