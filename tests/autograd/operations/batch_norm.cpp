#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>

#include "operations.hpp"

namespace lockstep::test {
namespace {

/// One set of running statistics a thread and operation: fixed, since every pass starts anew.
Variable training(const Variable& x, const Inputs& v, const Variable& residual, bool relu) {
  thread_local BatchNormStatistics statistics;
  const DType dtype = v[1].data().dtype() == DType::f64 ? DType::f64 : DType::f32;
  const Device device = x.data().device();
  if (!statistics.running_mean.defined() || statistics.running_mean.shape() != v[1].shape() ||
      statistics.running_mean.dtype() != dtype || statistics.running_mean.device() != device) {
    statistics = {Tensor::zeros(v[1].shape(), dtype, device),
                  Tensor::full(v[1].shape(), 1.0, dtype, device)};
  }
  return batch_norm(x, v[1], v[2], statistics, true, 0.1, 1e-5, residual, relu);
}

}  // namespace

Operations batch_norm_operations() {
  return {{"batch_norm_blocks",
           {{4, 32, 8, 8}, {32}, {32}, {4, 32, 8, 8}},
           [](const Inputs& v) {
             const bool fits =
                 fits_channel_blocks(v[0].shape(), v[0].data().dtype(), v[0].data().device());
             const Variable x = fits ? to_channel_blocks(v[0]) : v[0];
             return from_channel_blocks(training(x, v, v[3], true));
           }},
          {"batch_norm",
           {{8, 20, 9, 9}, {20}, {20}},
           [](const Inputs& v) { return training(v[0], v, {}, false); }},
          {"batch_norm_without_affine_or_running_statistics",
           {{8, 20, 9, 9}},
           [](const Inputs& v) { return batch_norm(v[0], {}, {}, {}, true); }},
          {"batch_norm_rows",
           {{64, 51}, {51}, {51}},
           [](const Inputs& v) { return training(v[0], v, {}, true); }},
          {"batch_norm_residual_relu",
           {{4, 16, 8, 8}, {16}, {16}, {4, 16, 8, 8}},
           [](const Inputs& v) { return training(v[0], v, v[3], true); }}};
}

}  // namespace lockstep::test
