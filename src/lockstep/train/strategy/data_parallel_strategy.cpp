#include <lockstep/train/strategy/data_parallel_strategy.hpp>

#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/tensor/found_inf.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/wrapper_pass.hpp>

namespace lockstep::train {
namespace {

std::unique_ptr<DistributedDataParallel> replicated(std::shared_ptr<nn::Module> model,
                                                    const RunPlan& plan, const RankGroups& ranks) {
  const MemoryLabel label("model and gradients");
  divide(*model, ranks);
  return std::make_unique<DistributedDataParallel>(std::move(model), ranks.data, plan.ddp);
}

}  // namespace

DataParallelStrategy::DataParallelStrategy(std::shared_ptr<nn::Module> model, const Task& task,
                                           const RunPlan& plan, const RankGroups& ranks)
    : Strategy(model->parameter_count()),
      task_(task),
      tensor_group_(ranks.tensor),
      ddp_(replicated(std::move(model), plan, ranks)),
      optimizer_(plan, {.ddps = {ddp_.get()},
                        .trained = ddp_->module().trained_parameters(),
                        .state = ddp_->state_dict(),
                        .whole = {}}) {
  if (tensor_group_) divided_norm_.emplace(ddp_->module(), tensor_group_);
}

bool DataParallelStrategy::all_go_forward() const { return model().forward_is_collective(); }

void DataParallelStrategy::for_each_shard(const std::function<void(std::int64_t shard)>& body) {
  ddp_->for_each_shard(body);
}

Tensor DataParallelStrategy::run(const Pass& pass) {
  return run_by(*ddp_, all_go_forward(), task_, pass);
}

bool DataParallelStrategy::any_said_yes() {
  const bool data_ranks_say_yes = ddp_->any_said_yes();
  if (!tensor_group_) return data_ranks_say_yes;
  return any_says_yes(*tensor_group_, [&] { return data_ranks_say_yes; });
}

void DataParallelStrategy::agree_on_found_inf(optim::GradScaler& scaler) {
  if (tensor_group_) lockstep::agree_on_found_inf(scaler, optimizer(), tensor_group_);
}

optim::Clipping DataParallelStrategy::clip_gradients(const optim::OptimizerOptions& options) {
  const auto& parameters = optimizer_.parameters();
  if (!divided_norm_) return optim::clip_gradients(options, parameters);
  return optim::clip_gradients(options, parameters,
                               [&](const Tensor& norm) { norm.fill(divided_norm_->norm()); });
}

Variable DataParallelStrategy::evaluate(const Batch& batch) {
  return task_.forward(model(), batch);
}

}  // namespace lockstep::train
