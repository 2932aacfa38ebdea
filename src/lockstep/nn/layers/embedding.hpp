#pragma once
#include <cstdint>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// index[...] (i64) -> [..., embedding_dim]; parameter weight[num_embeddings, embedding_dim],
/// normal with standard deviation 1. Row `padding_idx` (-1: none) begins as zeros and gets no
/// gradient.
class Embedding : public Module {
 public:
  Embedding(std::int64_t num_embeddings, std::int64_t embedding_dim, std::int64_t padding_idx = -1);
  Variable forward(const Variable& index) override;

 private:
  Variable weight_;
  std::int64_t padding_idx_;
};

}  // namespace lockstep::nn
