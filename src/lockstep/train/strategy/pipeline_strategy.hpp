#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <lockstep/parallel/pipeline/pipeline.hpp>
#include <lockstep/parallel/pipeline/pipeline_state.hpp>
#include <lockstep/parallel/pipeline/stages_of.hpp>
#include <lockstep/parallel/tensor/grad_norm.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/strategy/replica_optimizer.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep {
class Dataset;
}

namespace lockstep::train {

/// mesh.pp: each rank holds some layers, and a batch passes through them in micro-batches
/// (Pipeline). Copies of a stage sum their gradients (DistributedDataParallel); with train.zero = 1
/// they share out the optimizer.
class PipelineStrategy final : public Strategy {
 public:
  /// Collective over `ranks.all`. `task` must live as long.
  PipelineStrategy(const std::shared_ptr<nn::Module>& model, const Task& task, const RunPlan& plan,
                   const RankGroups& ranks);
  ~PipelineStrategy() override;

  [[nodiscard]] nn::Module& model() const noexcept override { return *model_; }
  [[nodiscard]] std::vector<nn::NamedParameter> named_parameters() const override {
    return pipeline_->named_parameters();
  }
  [[nodiscard]] optim::Optimizer& optimizer() const noexcept override {
    return optimizer_->optimizer();
  }
  [[nodiscard]] StateDict state_dict() const override { return pipeline_->state_dict(); }
  void load_state_dict(const StateDict& state) override { pipeline_->load_state_dict(state); }
  [[nodiscard]] StateDict optimizer_state_dict() const override;
  void load_optimizer_state_dict(const StateDict& state) override;
  [[nodiscard]] bool all_go_forward() const override { return true; }
  [[nodiscard]] GradientSumStats stats() const override;

  void zero_grad() override;
  Tensor run(const Pass& pass) override;
  void ask_along(std::function<bool()> question) override { question_ = std::move(question); }
  [[nodiscard]] bool any_said_yes() override { return any_says_yes(*all_, question_); }
  void agree_on_found_inf(optim::GradScaler& scaler) override;
  [[nodiscard]] optim::Clipping clip_gradients(const optim::OptimizerOptions& options) override;
  void before_update() override { optimizer_->before_update(); }
  void after_update() override { optimizer_->after_update(); }
  void broadcast_buffers() override;
  [[nodiscard]] Variable evaluate(const Batch& batch) override;

 private:
  const Task& task_;
  std::shared_ptr<ProcessGroup> all_;
  PipelineStages stages_;                                           ///< only those of this rank
  std::shared_ptr<nn::Module> model_;                               ///< a list of them
  std::vector<std::shared_ptr<DistributedDataParallel>> replicas_;  ///< of each of them, or empty
  std::unique_ptr<Pipeline> pipeline_;
  std::optional<TensorParallelGradNorm> slabs_norm_;  ///< of stages of parts of tensors
  std::optional<ReplicaOptimizer> optimizer_;
  std::optional<PipelineState> slots_;
  std::function<bool()> question_;
  const Batch* batch_ = nullptr;  ///< of the pass in progress
};

/// Throws InputError if the model cannot be cut into the stages of mesh.pp, or the task's forward
/// does more than the stages compute. Local.
void expect_stages_fit(const Task& task, const RunPlan& plan, std::int64_t pp,
                       const std::shared_ptr<nn::Module>& model);

}  // namespace lockstep::train
