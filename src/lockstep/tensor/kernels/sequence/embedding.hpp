#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// index.shape + [D] for a table weight[V, D] and i64 `index` of any shape. Throws ShapeError for
/// other dtypes and shapes; InputError for a padding_idx outside [-1, V).
[[nodiscard]] Shape embedding_shape(const Tensor& index, const Tensor& weight,
                                    std::int64_t padding_idx);

/// The index to compute with; all elements are in [0, V): on the host `index` itself, else
/// InputError names the position. On a device row 0 replaces a wrong one, and the error is thrown
/// when the host waits (index_check.hpp).
[[nodiscard]] Tensor right_rows(const Tensor& index, const Tensor& weight);

/// y[..., D] = weight[index[...], D]. One floating dtype.
void embedding_forward(const Tensor& index, const Tensor& weight, const Tensor& y);

/// grad_weight[v] (+)= the sum of grad_y's rows whose index is v, in the order of the rows and
/// rounded once; row `padding_idx` gets nothing. grad_weight has the dtype of grad_y, or is f32 if
/// that has 16 bits.
void embedding_backward(const Tensor& grad_y, const Tensor& index, std::int64_t padding_idx,
                        bool accumulate, const Tensor& grad_weight);

}  // namespace lockstep
