#include <lockstep/train/strategy/sharded_strategy.hpp>

#include <optional>
#include <utility>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/sync_batch_norm.hpp>
#include <lockstep/parallel/tensor/found_inf.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/wrapper_pass.hpp>

namespace lockstep::train {
namespace {

/// The dtype in which ddp.comm_hook lets gradients travel.
std::optional<DType> reduce_dtype_of(CommHookKind hook) {
  if (hook == CommHookKind::bf16_compress) return DType::bf16;
  if (hook == CommHookKind::fp16_compress) return DType::f16;
  return std::nullopt;
}

std::unique_ptr<FullyShardedDataParallel> sharded(std::shared_ptr<nn::Module> model,
                                                  const RunPlan& plan, const RankGroups& ranks) {
  const MemoryLabel label("model and gradients");
  divide(*model, ranks);
  if (plan.ddp.sync_batch_norm) convert_sync_batchnorm(*model, *ranks.data);
  FullyShardOptions options;
  options.reshard_after_forward = plan.train.zero == 3;
  options.replicate = ranks.replicas;
  options.reduce_dtype = reduce_dtype_of(plan.ddp.comm_hook);
  return std::make_unique<FullyShardedDataParallel>(std::move(model), ranks.shards, options);
}

}  // namespace

ShardedStrategy::ShardedStrategy(std::shared_ptr<nn::Module> model, const Task& task,
                                 const RunPlan& plan, const RankGroups& ranks)
    : Strategy(model->parameter_count()),
      task_(task),
      all_(ranks.all),
      broadcasts_buffers_(plan.ddp.broadcast_buffers_each_forward),
      fsdp_(sharded(std::move(model), plan, ranks)) {
  if (ranks.tensor) {
    slabs_norm_.emplace(fsdp_->named_parameters(), fsdp_->module().state_dict(), ranks.tensor);
  }
  const MemoryLabel label("optimizer state");
  optimizer_ = optim::make_optimizer(plan.optimizer, fsdp_->trained_parameters());
  optimizer_->take_placements(fsdp_->state_dict());
}

Tensor ShardedStrategy::run(const Pass& pass) {
  if (broadcasts_buffers_) broadcast_buffers();
  return run_by(*fsdp_, all_go_forward(), task_,
                {.batch = pass.batch,
                 .random = pass.random,
                 .weight = pass.weight,
                 .loss_scale = pass.loss_scale,
                 .is_last = true,
                 .spans = pass.spans,
                 .times = pass.times});
}

bool ShardedStrategy::any_said_yes() { return any_says_yes(*all_, question_); }

void ShardedStrategy::agree_on_found_inf(optim::GradScaler& scaler) {
  lockstep::agree_on_found_inf(scaler, *optimizer_, all_);
}

optim::Clipping ShardedStrategy::clip_gradients(const optim::OptimizerOptions& options) {
  return optim::clip_gradients(options, fsdp_->named_parameters(), [&](const Tensor& norm) {
    norm.fill(slabs_norm_ ? fsdp_->grad_norm(*slabs_norm_) : fsdp_->grad_norm());
  });
}

Variable ShardedStrategy::evaluate(const Batch& batch) {
  return fsdp_->forward([&](nn::Module& model) { return task_.forward(model, batch); });
}

}  // namespace lockstep::train
