#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

namespace lockstep::nn {

/// index[...] (i64 or i32) -> [..., embedding_dim]; parameter weight[num_embeddings,
/// embedding_dim], normal with standard deviation 1. Row `padding_idx` (-1: none) begins as zeros
/// and gets no gradient.
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::int64_t padding_idx = -1);
  /// With this table.
  explicit Embedding(Tensor table);
  Variable forward(const Variable& index) override;

  [[nodiscard]] const Variable& weight() const noexcept { return weight_; }

 private:
  Variable weight_;
  std::int64_t padding_idx_;
};

/// Bags of rows of weight[num_embeddings, embedding_dim], each reduced to one (embedding_bag in
/// autograd/functional/linear.hpp). The parameter begins as Embedding's.
class EmbeddingBag : public Module {
 public:
  EmbeddingBag(std::int64_t num_embeddings, std::int64_t embedding_dim,
               BagMode mode = BagMode::mean, std::int64_t padding_idx = -1);
  /// Bags of equal length: index[bags, n] (i64) -> [bags, embedding_dim].
  Variable forward(const Variable& index) override;
  /// index[entries] in bags that begin at offsets[bags]; or offsets undefined, as above.
  Variable forward(const Tensor& index, const Tensor& offsets,
                   const Variable& per_sample_weights = {});

 private:
  Variable weight_;
  BagMode mode_;
  std::int64_t padding_idx_;
};

}  // namespace lockstep::nn
