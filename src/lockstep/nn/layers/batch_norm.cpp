#include <lockstep/nn/layers/batch_norm.hpp>

#include <algorithm>
#include <string>

#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>

namespace lockstep::nn {
namespace {

[[maybe_unused]] const bool batch_norm_is_known = add_blocked_layer(typeid(BatchNorm2d));

}  // namespace

BatchNorm::BatchNorm(const char* layer, int least_dims, int most_dims, std::int64_t features,
                     const BatchNormOptions& options)
    : layer_(layer),
      least_dims_(least_dims),
      most_dims_(most_dims),
      features_(features),
      options_(options) {
  expect_positive(layer, "features", features);
  if (!(options.eps > 0.0) ||
      !(options.momentum.value_or(0.0) >= 0.0 && options.momentum.value_or(0.0) <= 1.0)) {
    throw InputError(std::string(layer) + ": eps must be above 0 and momentum in [0, 1], not " +
                     std::to_string(options.eps) + " and " +
                     std::to_string(options.momentum.value_or(0.0)));
  }
  if (options.affine) {
    weight_ = register_parameter("weight", Tensor::full({features}, 1.0));
    bias_ = register_parameter("bias", Tensor::zeros({features}));
  }
  if (!options.track_running_stats) return;
  statistics_.running_mean = register_buffer("running_mean", Tensor::zeros({features}));
  statistics_.running_var = register_buffer("running_var", Tensor::full({features}, 1.0));
  batches_tracked_ = register_buffer("num_batches_tracked", Tensor::zeros({}, DType::i64));
}

void BatchNorm::reset_running_stats() const {
  if (!options_.track_running_stats) return;
  statistics_.running_mean.fill(0.0);
  statistics_.running_var.fill(1.0);
  batches_tracked_.fill(0.0);
}

Variable BatchNorm::forward(const Variable& x, const Variable& residual, bool relu) {
  const int dims = plain_shape(x.data()).dims();
  if (dims < least_dims_ || dims > most_dims_) {
    throw ShapeError(std::string(layer_) + " takes an input of " + std::to_string(least_dims_) +
                     (least_dims_ == most_dims_ ? "" : " or " + std::to_string(most_dims_)) +
                     " dimensions, not " + describe(x.data()));
  }
  if (plain_shape(x.data())[1] != features_) {
    throw ShapeError(std::string(layer_) + " of " + std::to_string(features_) +
                     " features does not take " + describe(x.data()));
  }
  if (!options_.track_running_stats) {
    // PyTorch's SyncBatchNorm, too, exchanges statistics in training only.
    const BatchNormStatistics own{{}, {}, is_training() ? statistics_.exchange : nullptr};
    return batch_norm(x, weight_, bias_, own, true, 0.0, options_.eps, residual, relu);
  }
  // A rank may get no sample of a batch: statistics do not change then, unless ranks exchange them.
  const bool counts = x.data().numel() > 0 || statistics_.exchange != nullptr;
  if (is_training() && counts) batches_tracked_ += 1;
  const double momentum =
      options_.momentum ? *options_.momentum : 1.0 / std::max(1.0, batches_tracked_.item());
  return batch_norm(x, weight_, bias_, statistics_, is_training(), momentum, options_.eps, residual,
                    relu);
}

std::vector<BatchNorm*> batch_norms_of(Module& module) {
  std::vector<BatchNorm*> found;
  if (auto* const layer = dynamic_cast<BatchNorm*>(&module)) found.push_back(layer);
  for (const auto& [name, child] : module.children()) {
    for (BatchNorm* const layer : batch_norms_of(*child)) {
      if (std::ranges::find(found, layer) == found.end()) found.push_back(layer);
    }
  }
  return found;
}

}  // namespace lockstep::nn
