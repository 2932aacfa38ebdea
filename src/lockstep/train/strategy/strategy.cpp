#include <lockstep/train/strategy/strategy.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/run/rank_groups.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/data_parallel_strategy.hpp>
#include <lockstep/train/strategy/sharded_strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {

Strategy::~Strategy() = default;

StateDict Strategy::state_dict() const { return model().state_dict(); }

std::vector<nn::NamedParameter> Strategy::named_parameters() const {
  return model().named_parameters();
}

void Strategy::load_state_dict(const StateDict& state) { model().load_state_dict(state); }

void Strategy::for_each_shard(const std::function<void(std::int64_t shard)>& body) { body(0); }

namespace {

void refuse_with_zero(const RunPlan& plan, const char* why, const char* other) {
  throw InputError(
      fmt::format("train.zero = {} {}, which {} does not support. Leave out one of the two.",
                  plan.train.zero, why, other));
}

}  // namespace

void expect_strategy_fits(const RunPlan& plan, const MeshOptions& sizes) {
  if (sizes.fsdp > 1 && plan.train.zero < 2) {
    throw InputError(fmt::format(
        "mesh.fsdp = {} are ranks that share out parameters, gradients and optimizer state. Say so "
        "by train.zero = 3, or 2, or use mesh.dp.",
        sizes.fsdp));
  }
  if (plan.train.zero == 0) return;
  const char* const other = ranks_go_apart(plan) ? "ddp.comm_hook = \"post_local_sgd\""
                            : plan.train.check_replicas_every > 0 ? "train.check_replicas_every"
                            : sizes.tp > 1                        ? "mesh.tp"
                                                                  : nullptr;
  if (other) refuse_with_zero(plan, "gives each rank a share of the optimizer's state", other);
  if (plan.train.zero == 1) {
    if (plan.train.precision == Precision::fp16)
      refuse_with_zero(plan, "updates a part on each rank", "train.precision = \"fp16\"");
    return;
  }
  const char* const whole =
      plan.train.reduction == TrainOptions::Reduction::invariant ? "train.reduction = \"invariant\""
      : plan.ddp.comm_hook == CommHookKind::power_sgd            ? "ddp.comm_hook = \"power_sgd\""
      : sizes.fsdp > 1 && sizes.dp > 1                           ? "mesh.dp beside mesh.fsdp"
                                                                 : nullptr;
  if (whole) refuse_with_zero(plan, "leaves no rank with whole gradients", whole);
}

std::unique_ptr<Strategy> make_strategy(const Task& task, const RunPlan& plan,
                                        const RankGroups& ranks) {
  nn::manual_seed(plan.train.seed);
  const nn::DeviceGuard on_device(plan.device);
  std::shared_ptr<nn::Module> model;
  {
    const MemoryLabel label("model and gradients");
    model = task.make_model();
    divide(*model, ranks);
  }
  if (plan.train.zero >= 2)
    return std::make_unique<ShardedStrategy>(std::move(model), task, plan, ranks);
  return std::make_unique<DataParallelStrategy>(std::move(model), task, plan, ranks);
}

}  // namespace lockstep::train
