#pragma once
#include <functional>
#include <memory>
#include <optional>

#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/strategy/replica_optimizer.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {

/// Every rank holds the whole model, or with mesh.tp and mesh.cp its part of it, with all gradients
/// (DistributedDataParallel). With train.zero = 1 ranks share out the optimizer.
class DataParallelStrategy final : public Strategy {
 public:
  /// Collective over `ranks.data`. `task` must live as long.
  DataParallelStrategy(std::shared_ptr<nn::Module> model, const Task& task, const RunPlan& plan,
                       const RankGroups& ranks);

  [[nodiscard]] nn::Module& model() const noexcept override { return ddp_->module(); }
  [[nodiscard]] optim::Optimizer& optimizer() const noexcept override {
    return optimizer_.optimizer();
  }
  [[nodiscard]] bool all_go_forward() const override;
  [[nodiscard]] GradientSumStats stats() const override { return ddp_->stats(); }
  [[nodiscard]] DistributedDataParallel* ddp() const noexcept override { return ddp_.get(); }

  void zero_grad() override { ddp_->zero_grad(); }
  void for_each_shard(const std::function<void(std::int64_t shard)>& body) override;
  Tensor run(const Pass& pass) override;
  void ask_along(std::function<bool()> question) override { ddp_->ask_along(std::move(question)); }
  [[nodiscard]] bool any_said_yes() override;
  void agree_on_found_inf(optim::GradScaler& scaler) override;
  [[nodiscard]] optim::Clipping clip_gradients(const optim::OptimizerOptions& options) override;
  void before_update() override { optimizer_.before_update(); }
  void after_update() override { optimizer_.after_update(); }
  void broadcast_buffers() override { ddp_->broadcast_buffers(); }
  [[nodiscard]] Variable evaluate(const Batch& batch) override;

 private:
  const Task& task_;
  std::shared_ptr<ProcessGroup> tensor_group_;  ///< null unless ranks hold parts of tensors
  std::unique_ptr<DistributedDataParallel> ddp_;
  std::optional<TensorParallelGradNorm> divided_norm_;  ///< with tensor_group_
  ReplicaOptimizer optimizer_;
};

}  // namespace lockstep::train
