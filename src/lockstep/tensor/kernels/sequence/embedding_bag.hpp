#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

enum class BagMode : std::uint8_t { sum, mean, max };

/// Bags of entries, one after the other: bag b is index[offsets[b]] up to the next bag's first.
struct Bags {
  Tensor index;    ///< i64 [entries], rows of the table
  Tensor offsets;  ///< i64 [bags]
  BagMode mode = BagMode::mean;
  Tensor per_sample_weights;      ///< [entries], factors of the rows in a sum; or undefined
  std::int64_t padding_idx = -1;  ///< entries that are this are passed over; -1: none
};

/// Throws ShapeError for other dtypes and shapes, and for weights without BagMode::sum. Throws
/// InputError, with the position, for an index outside weight[V, D], for offsets that do not start
/// at 0, decrease, or exceed the entries, and for a padding_idx outside [-1, V). For a device it
/// waits and copies both.
void check_embedding_bag(const Bags& bags, const Tensor& weight);

/// y[bags, D] = the sum, mean or maximum of weight[V, D]'s rows in each bag; of an empty one 0.
/// `chosen`, of y's shape, gets for a maximum the row it comes from (the first among equals; -1 in
/// an empty bag), else it is undefined. f32 or f64.
void embedding_bag_forward(const Bags& bags, const Tensor& weight, const Tensor& y,
                           const Tensor& chosen);

/// grad_weight (+)= what grad_y is to each row, entries in their order.
void embedding_bag_backward_weight(const Bags& bags, const Tensor& grad_y, const Tensor& chosen,
                                   bool accumulate, const Tensor& grad_weight);

/// grad[entries] (+)= the product of each entry's row and its bag's grad_y.
void embedding_bag_backward_per_sample_weights(const Bags& bags, const Tensor& grad_y,
                                               const Tensor& weight, bool accumulate,
                                               const Tensor& grad);

}  // namespace lockstep
