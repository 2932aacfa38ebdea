#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/parallel/gradient_sum.hpp>
#include <lockstep/parallel/held_gradients.hpp>
#include <lockstep/parallel/shard_gradients.hpp>

namespace lockstep {

/// A step's results beside gradients, independent of the ranks that hold the shards: the loss, and
/// the module's buffers. Each shard's forward starts from the buffers at the step's beginning. The
/// step ends with the mean of the buffers over the shards with samples, so BatchNorm's running
/// statistics move by the mean of the shards' statistics.
class ShardBuffers {
 public:
  /// `buffers` are on one device, the model's. Collective, since memory of the group is allocated.
  /// The host waits for none of the following operations.
  ShardBuffers(ProcessGroup& group, const ShardTree& tree, std::vector<Tensor> buffers,
               Device device);

  /// Call before each forward: the first one of a step copies the buffers. Local.
  void forward_begins();
  /// The current shard has samples; its part of the loss over the batch is f64 [1]. Local.
  void add_loss(const Tensor& part);
  /// The current shard is complete, and not this rank's last. Local.
  void keep();
  /// This rank's last shard is complete: returns when loss and buffers are final, the same bits on
  /// all ranks. Collective.
  void finish(ProcessGroup& group);
  /// The step has failed: restores the buffers of its beginning. Local.
  void forget();

  /// Loss of the last step, f64 [1], if there was one.
  [[nodiscard]] const Tensor& loss() const noexcept { return loss_; }

 private:
  void write_current();
  void restore();

  std::vector<Tensor> buffers_, before_;  ///< now; at the step's beginning
  Tensor sum_;                            ///< f64: shards with samples, loss, the buffers' elements
  Tensor numbers_;                        ///< its first two
  std::vector<Tensor> places_;            ///< places of the buffers in it
  std::unique_ptr<ShardSum> over_shards_;
  bool in_step_ = false;
  bool has_samples_ = false;  ///< the current shard
  bool had_samples_ = false;  ///< a shard of this step
  Tensor shard_loss_;         ///< f64 [1]
  Tensor loss_;
};

/// Sums over the shards of a batch, in one order whatever ranks hold them. A rank computes its
/// shards one after the other. The parameters' earlier gradients are held aside meanwhile, and
/// added at the end.
class ShardedGradientSum final : public GradientSum {
 public:
  /// `buffers` are the model's, which is on `device`. Throws InputError if the group's ranks cannot
  /// hold `shards`. Collective.
  ShardedGradientSum(std::shared_ptr<ProcessGroup> group, std::int64_t shards,
                     std::vector<Tensor> buffers, Device device);

  void prepare(std::vector<Bucket> buckets, PassObserver* observer) override;
  [[nodiscard]] std::int64_t parts() const noexcept override { return own_.size(); }
  [[nodiscard]] std::int64_t first_part() const noexcept override { return own_.first; }
  [[nodiscard]] double equal_share() const override {
    return 1.0 / static_cast<double>(tree_.shards());
  }
  [[nodiscard]] bool at_first_part() const noexcept override { return next_ == own_.first; }
  [[nodiscard]] bool keeps_part() const noexcept override { return next_ + 1 < own_.last; }
  void expect_context() const override;

  void forward_begins() override { buffers_.forward_begins(); }
  [[nodiscard]] GradSink* pass_begins(std::span<const Variable> roots,
                                      std::span<const Tensor> gradients, double seed,
                                      bool weighted) override;
  void scale_part(double factor) override;
  void keep_part(double factor) override;
  void forget_part() noexcept override { current().forget(); }
  void finish() override;
  void give_up() override;
  [[nodiscard]] bool give_up_parts() override;
  void zero_grad() override;
  [[nodiscard]] GradientSumStats stats() const noexcept override;

 private:
  ShardedGradientSum(std::shared_ptr<ProcessGroup> group, const ShardTree& tree,
                     std::shared_ptr<ShardHook> hook, std::vector<Tensor> buffers, Device device);
  [[nodiscard]] ShardGradients& current() {
    return kept_[static_cast<std::size_t>(next_ - own_.first)];
  }
  void add_back();

  ShardTree tree_;
  ShardRange own_;
  std::int64_t next_;  ///< the current shard, or that of the next pass
  std::shared_ptr<ShardHook> hook_;
  ShardBuffers buffers_;
  std::vector<ShardGradients> kept_;  ///< this rank's shards but the last
  HeldGradients held_;
  bool is_held_aside_ = false;
};

}  // namespace lockstep
