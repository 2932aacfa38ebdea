#include <lockstep/train/strategy/strategy.hpp>

#include <fmt/format.h>

#include <initializer_list>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/data_parallel_strategy.hpp>
#include <lockstep/train/strategy/pipeline_strategy.hpp>
#include <lockstep/train/strategy/sharded_strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

Strategy::~Strategy() = default;

StateDict Strategy::state_dict() const { return model().state_dict(); }

std::vector<nn::NamedParameter> Strategy::named_parameters() const {
  return model().named_parameters();
}

void Strategy::load_state_dict(const StateDict& state) { model().load_state_dict(state); }

StateDict Strategy::optimizer_state_dict() const { return optimizer().state_dict(); }

void Strategy::load_optimizer_state_dict(const StateDict& state) {
  optimizer().load_state_dict(state);
}

void Strategy::for_each_shard(const std::function<void(std::int64_t shard)>& body) { body(0); }

namespace {

/// Refuses the first of `others` that is set.
struct Other {
  bool is_set;
  const char* name;
};
void refuse(const std::string& what, std::initializer_list<Other> others) {
  for (const Other& other : others) {
    if (!other.is_set) continue;
    throw InputError(
        fmt::format("{}, which {} does not support. Leave out one of the two.", what, other.name));
  }
}

}  // namespace

void expect_strategy_fits(const RunPlan& plan, const MeshOptions& sizes) {
  const std::int64_t zero = plan.train.zero;
  if (sizes.fsdp > 1 && zero < 2) {
    throw InputError(fmt::format(
        "mesh.fsdp = {} are ranks that share out parameters, gradients and optimizer state. Say so "
        "by train.zero = 3, or 2, or use mesh.dp.",
        sizes.fsdp));
  }
  const Other invariant{plan.train.reduction == TrainOptions::Reduction::invariant,
                        "train.reduction = \"invariant\""},
      power_sgd{plan.ddp.comm_hook == CommHookKind::power_sgd, "ddp.comm_hook = \"power_sgd\""},
      local_sgd{ranks_go_apart(plan), "ddp.comm_hook = \"post_local_sgd\""};
  if (sizes.pp > 1) {
    refuse(fmt::format("mesh.pp = {} gives each rank some of the layers", sizes.pp),
           {{zero == 2, "train.zero = 2"},
            {zero == 3, "train.zero = 3"},
            {sizes.cp > 1, "mesh.cp"},
            {plan.ddp.sync_batch_norm, "ddp.sync_batch_norm"},
            {plan.ddp.broadcast_buffers_each_forward, "ddp.broadcast_buffers_each_forward"},
            invariant,
            power_sgd,
            local_sgd});
  }
  if (zero == 0) return;
  refuse(fmt::format("train.zero = {} gives each rank a share of the optimizer's state", zero),
         {local_sgd,
          {plan.train.check_replicas_every > 0, "train.check_replicas_every"},
          {zero == 1 && plan.train.precision == Precision::fp16, "train.precision = \"fp16\""}});
  if (zero >= 2) {
    refuse(fmt::format("train.zero = {} leaves no rank with whole gradients", zero),
           {invariant, power_sgd});
  }
}

std::unique_ptr<Strategy> make_strategy(const Task& task, const RunPlan& plan,
                                        const RankGroups& ranks) {
  nn::manual_seed(plan.train.seed);
  const nn::DeviceGuard on_device(plan.device);
  std::shared_ptr<nn::Module> model;
  {
    const MemoryLabel label("model and gradients");
    model = task.make_model();
  }
  if (ranks.stages) return std::make_unique<PipelineStrategy>(std::move(model), task, plan, ranks);
  if (plan.train.zero >= 2)
    return std::make_unique<ShardedStrategy>(std::move(model), task, plan, ranks);
  return std::make_unique<DataParallelStrategy>(std::move(model), task, plan, ranks);
}

bool any_says_yes(ProcessGroup& group, const std::function<bool()>& question) {
  if (!question) return false;
  return all_reduce_scalar(group, question() ? 1.0 : 0.0, ReduceOp::max) > 0.0;
}

}  // namespace lockstep::train
