#pragma once
// group_norm on a GPU or its stand-in: a team a group of a sample, which reads and writes 16 bytes
// at a time; no atomics. Private to group_norm.cpp, which chooses by device and whose contracts
// these are.
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep::detail {

void group_norm_device_forward(const Tensor& x, std::int64_t groups, const Tensor& weight,
                               const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                               const Tensor& rstd);

/// What the sums and the gradient by x read; rows are the groups of all samples.
struct GroupNormRows {
  Tensor grad_y, x;
  std::int64_t groups;
  Tensor mean, rstd;
};

void group_norm_device_sums(const GroupNormRows& rows, const Tensor& sums, const Tensor& products);

void group_norm_device_backward(const GroupNormRows& rows, const Tensor& weight, const Tensor& sums,
                                const Tensor& products, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep::detail
