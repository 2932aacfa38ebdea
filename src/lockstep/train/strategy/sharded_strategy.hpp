#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {

/// train.zero = 2 and 3: each rank keeps a share of the parameters, gradients and optimizer state
/// (FullyShardedDataParallel). Gradients are summed after every pass of train.accumulate, so that
/// none is kept whole.
class ShardedStrategy final : public Strategy {
 public:
  /// Collective over `ranks.shards` and `ranks.replicas`. `task` must live as long.
  ShardedStrategy(std::shared_ptr<nn::Module> model, const Task& task, const RunPlan& plan,
                  const RankGroups& ranks);

  [[nodiscard]] nn::Module& model() const noexcept override { return fsdp_->module(); }
  [[nodiscard]] std::vector<nn::NamedParameter> named_parameters() const override {
    return fsdp_->named_parameters();
  }
  [[nodiscard]] optim::Optimizer& optimizer() const noexcept override { return *optimizer_; }
  [[nodiscard]] StateDict state_dict() const override { return fsdp_->state_dict(); }
  void load_state_dict(const StateDict& state) override { fsdp_->load_state_dict(state); }
  [[nodiscard]] bool all_go_forward() const override { return true; }
  [[nodiscard]] GradientSumStats stats() const override { return fsdp_->stats(); }

  void zero_grad() override { fsdp_->zero_grad(); }
  Tensor run(const Pass& pass) override;
  void ask_along(std::function<bool()> question) override { question_ = std::move(question); }
  [[nodiscard]] bool any_said_yes() override;
  void agree_on_found_inf(optim::GradScaler& scaler) override;
  [[nodiscard]] optim::Clipping clip_gradients(const optim::OptimizerOptions& options) override;
  void broadcast_buffers() override { fsdp_->broadcast_buffers(); }
  [[nodiscard]] Variable evaluate(const Batch& batch) override;

 private:
  const Task& task_;
  std::shared_ptr<ProcessGroup> all_;
  bool broadcasts_buffers_;  ///< before each forward
  std::unique_ptr<FullyShardedDataParallel> fsdp_;
  std::optional<TensorParallelGradNorm> slabs_norm_;  ///< of a model of parts of tensors
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::function<bool()> question_;
};

}  // namespace lockstep::train
