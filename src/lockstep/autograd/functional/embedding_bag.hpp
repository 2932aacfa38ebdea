#pragma once
#include <cstdint>

#include <lockstep/autograd/operand.hpp>
#include <lockstep/tensor/kernels/sequence/embedding_bag.hpp>

namespace lockstep {

/// Bags of rows of weight[V,D], each reduced to one -> [bags, D]: bag b holds index[offsets[b]] up
/// to the next bag's first (torch.nn.functional.embedding_bag). `index` and `offsets` are i64 or
/// i32 of one dimension, or `index` is [bags, n] and `offsets` undefined. `per_sample_weights`, of
/// the index's shape, may be undefined and goes with sums only. An empty bag gives zeros; entries
/// that are `padding_idx` (-1: none) are passed over and not counted. Throws InputError for an
/// index outside [0, V) and for offsets that do not begin with 0, fall, or go beyond the index.
[[nodiscard]] Variable embedding_bag(const Tensor& index, const Operand& weight,
                                     const Tensor& offsets = {}, BagMode mode = BagMode::mean,
                                     const Operand& per_sample_weights = {},
                                     std::int64_t padding_idx = -1);

}  // namespace lockstep
