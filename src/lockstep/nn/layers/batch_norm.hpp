#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional/batch_norm.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// Options of BatchNorm; the defaults are those of PyTorch.
struct BatchNormOptions {
  double eps = 1e-5;
  /// How much of a batch's statistics enters the running ones; none: they are the mean of all
  /// batches' (PyTorch's momentum=None).
  std::optional<double> momentum = 0.1;
  bool affine = true;  ///< weight and bias; without them ones and zeros
  /// Whether to keep running statistics; without them evaluation too uses the batch's statistics.
  bool track_running_stats = true;
};

/// Normalizes each channel: in training by the batch's statistics, which also update the running
/// ones; in evaluation by the running ones. Parameters weight[C] (ones) and bias[C] (zeros) if
/// affine, buffers running_mean[C] (zeros), running_var[C] (ones) and num_batches_tracked (i64
/// scalar) if track_running_stats.
class BatchNorm : public Module {
 public:
  [[nodiscard]] const Variable& weight() const noexcept { return weight_; }  ///< if affine
  Variable forward(const Variable& x) override { return forward(x, {}, false); }
  /// Fused relu(norm(x) + residual): `residual` is like x or undefined. Images may be in channel
  /// blocks; the result is as x.
  Variable forward(const Variable& x, const Variable& residual, bool relu);

  /// From now on the samples of all these ranks are one batch in training, as in PyTorch's
  /// SyncBatchNorm (parallel/sync_batch_norm.hpp makes one of a group); null: this rank's are.
  /// Evaluation, also without running statistics, is each rank's own. Returns the previous setting.
  std::shared_ptr<const StatisticsExchange> set_exchange(
      std::shared_ptr<const StatisticsExchange> exchange) {
    return std::exchange(statistics_.exchange, std::move(exchange));
  }
  [[nodiscard]] bool has_exchange() const noexcept { return statistics_.exchange != nullptr; }
  [[nodiscard]] bool forward_is_collective() const override {
    return has_exchange() && is_training();
  }

  /// The running statistics of a new layer; nothing without track_running_stats.
  void reset_running_stats() const;
  /// Sets BatchNormOptions::momentum; returns the previous value.
  std::optional<double> set_momentum(std::optional<double> momentum) {
    return std::exchange(options_.momentum, momentum);
  }

 protected:
  /// `layer` is the concrete layer's name; it takes inputs of `least_dims` to `most_dims`.
  /// Throws InputError for features < 1, momentum outside [0, 1] or eps not positive.
  BatchNorm(const char* layer, int least_dims, int most_dims, std::int64_t features,
            const BatchNormOptions& options);

 private:
  const char* layer_;
  int least_dims_, most_dims_;
  std::int64_t features_;
  BatchNormOptions options_;
  Variable weight_, bias_;
  BatchNormStatistics statistics_;
  Tensor batches_tracked_;
};

/// x[N, C] or x[N, C, L].
class BatchNorm1d : public BatchNorm {
 public:
  explicit BatchNorm1d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm1d", 2, 3, features, options) {}
};

/// x[N, C, H, W].
class BatchNorm2d : public BatchNorm {
 public:
  explicit BatchNorm2d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm2d", 4, 4, features, options) {}
};

/// x[N, C, D, H, W].
class BatchNorm3d : public BatchNorm {
 public:
  explicit BatchNorm3d(std::int64_t features, const BatchNormOptions& options = {})
      : BatchNorm("BatchNorm3d", 5, 5, features, options) {}
};

/// Every BatchNorm within `module`, in the order of its modules, each once.
[[nodiscard]] std::vector<BatchNorm*> batch_norms_of(Module& module);

}  // namespace lockstep::nn
