#include <lockstep/nn/layers/embedding.hpp>

#include <string>
#include <utility>

#include <lockstep/autograd/functional/embedding.hpp>
#include <lockstep/autograd/functional/embedding_bag.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/partition.hpp>

namespace lockstep::nn {
namespace {

/// The initial table of both layers.
Tensor new_table(const char* layer, std::int64_t num_embeddings, std::int64_t embedding_dim,
                 std::int64_t padding_idx) {
  expect_positive(layer, "num_embeddings", num_embeddings);
  expect_positive(layer, "embedding_dim", embedding_dim);
  if (padding_idx < -1 || padding_idx >= num_embeddings) {
    throw InputError(std::string(layer) + ": padding_idx must be a row of the " +
                     std::to_string(num_embeddings) + ", or -1 for none, not " +
                     std::to_string(padding_idx));
  }
  Tensor rows = normal({num_embeddings, embedding_dim}, 1.0);
  if (padding_idx >= 0) rows.slice(padding_idx, padding_idx + 1).zero();
  return rows;
}

}  // namespace

Embedding::Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim,
                     std::int64_t padding_idx)
    : weight_(register_parameter(
          "weight", new_table("Embedding", num_embeddings, embedding_dim, padding_idx))),
      padding_idx_(padding_idx) {}

Embedding::Embedding(Tensor table)
    : weight_(register_parameter("weight", std::move(table))), padding_idx_(-1) {}

Variable Embedding::forward(const Variable& index) {
  if (const Partition* const ranks = partition())
    return ranks->embedding(index.data(), weight_, padding_idx_);
  return embedding(index.data(), weight_, padding_idx_);
}

EmbeddingBag::EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim, BagMode mode,
                           std::int64_t padding_idx)
    : weight_(register_parameter(
          "weight", new_table("EmbeddingBag", num_embeddings, embedding_dim, padding_idx))),
      mode_(mode),
      padding_idx_(padding_idx) {}

Variable EmbeddingBag::forward(const Variable& index) { return forward(index.data(), {}); }

Variable EmbeddingBag::forward(const Tensor& index, const Tensor& offsets,
                               const Variable& per_sample_weights) {
  return embedding_bag(index, weight_, offsets, mode_, per_sample_weights, padding_idx_);
}

}  // namespace lockstep::nn
