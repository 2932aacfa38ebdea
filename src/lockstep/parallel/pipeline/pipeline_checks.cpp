#include <lockstep/parallel/pipeline/pipeline_checks.hpp>

#include <algorithm>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/revocation.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/pipeline/as_input_error.hpp>
#include <lockstep/parallel/pipeline/simulation.hpp>

namespace lockstep {
namespace {

using Modules = std::vector<std::shared_ptr<nn::Module>>;

[[noreturn]] void refuse(const std::string& sentence) { throw InputError("Pipeline: " + sentence); }

void expect_fitting(const ProcessGroup& group, const PipelineSchedule& schedule,
                    const Modules& stages, bool has_loss) {
  if (schedule.ranks() != group.size()) {
    refuse(fmt::format("the schedule \"{}\" is for {} ranks, and the group has {}.", schedule.name,
                       schedule.ranks(), group.size()));
  }
  if (2 * schedule.stages() > Revocation::tag) {
    refuse(
        fmt::format("{} stages; at most {} are possible.", schedule.stages(), Revocation::tag / 2));
  }
  if (std::string_view(group.backend()) == "nccl") {
    refuse(
        "messages of an nccl group run in the order of the calls, which a pipeline does not keep. "
        "Give it the group that make_nccl_group was given.");
  }
  const auto expected = std::ranges::count(schedule.rank_of_stage, group.rank());
  if (std::ssize(stages) != expected) {
    refuse(fmt::format("{} modules were given, but the schedule \"{}\" has {} stages on this rank.",
                       stages.size(), schedule.name, expected));
  }
  if (std::ranges::find(stages, nullptr) != stages.end()) refuse("a stage's module is null.");
  if (!has_loss && schedule.rank_of_stage.back() == group.rank())
    refuse("the last stage's rank needs a loss.");
}

/// Of a schedule with backwards in two parts.
void expect_splittable(const PipelineSchedule& schedule, const Modules& stages) {
  const auto splits = [](const std::vector<PipelineAction>& actions) {
    return std::ranges::find(actions, PipelineAction::Kind::backward_input,
                             &PipelineAction::kind) != actions.end();
  };
  if (std::ranges::none_of(schedule.actions, splits)) return;
  if (std::ranges::none_of(stages, [](const auto& stage) { return is_sharded(*stage); })) return;
  refuse(fmt::format(
      "the schedule \"{}\" runs backward in two parts, but a stage's parameters are sharded "
      "(FullyShardedDataParallel) and there for whole passes only. Take one_f_one_b or "
      "interleaved_1f1b.",
      schedule.name));
}

void expect_replicas(const std::vector<std::shared_ptr<DistributedDataParallel>>& data_parallel,
                     const Modules& stages) {
  if (data_parallel.empty()) return;
  const auto fits = [](const auto& ddp, const auto& stage) {
    return ddp && &ddp->module() == stage.get();
  };
  if (!std::ranges::equal(data_parallel, stages, fits)) {
    refuse(
        "data_parallel needs a DistributedDataParallel of each of this rank's stages, in their "
        "order.");
  }
  if (std::ranges::any_of(stages, [](const auto& one) { return one->forward_is_collective(); })) {
    refuse(
        "a stage with synchronised BatchNorm cannot have replicas, which sum their gradients after "
        "the last micro-batch. Leave out sync_batch_norm.");
  }
}

/// Equal for equal schedules.
std::vector<int> numbers_of(const PipelineSchedule& schedule) {
  std::vector<int> numbers = schedule.rank_of_stage;
  for (const auto& actions : schedule.actions) {
    numbers.push_back(static_cast<int>(actions.size()));
    for (const auto& [kind, stage, microbatch] : actions)
      numbers.insert(numbers.end(), {static_cast<int>(kind), stage, microbatch});
  }
  return numbers;
}

}  // namespace

void expect_executable(ProcessGroup& group, const PipelineSchedule& schedule, const Modules& stages,
                       bool has_loss, const PipelineOptions& options) {
  agree(
      group,
      [&] {
        expect_deadlock_free(schedule);
        expect_fitting(group, schedule, stages, has_loss);
        expect_splittable(schedule, stages);
        expect_replicas(options.data_parallel, stages);
      },
      as_input_error());
  const auto all = agree(group, [&] { return numbers_of(schedule); });
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Agreed<InputError>(fmt::format(
        "Pipeline: rank {} was given another schedule than rank 0. Give all ranks the same.",
        rank));
  }
}

bool is_sharded(const nn::Module& stage) {
  for (const Variable& parameter : stage.parameters()) {
    for (const auto& hook : parameter.record()->grad_hooks) {
      if (hook.observer && hook.observer->awaits_pass()) return true;
    }
  }
  return false;
}

AgreedBatch agreed_batch(ProcessGroup& group, const Tensor* input, const Tensor* target,
                         bool says_yes) {
  const CallLabel label("rows of pipeline's batch");
  constexpr double unknown = -1.0, missing = -2.0;
  // All ranks learn the greatest of: rows of the input and of the target, whether they are missing,
  // and the answer.
  std::vector<double> numbers(5, unknown);
  numbers[4] = says_yes ? 1.0 : 0.0;
  const auto look_at = [&](const Tensor* t, std::size_t at) {
    if (!t) return;
    const bool is_there = t->defined() && t->dims() > 0;
    numbers[at] = is_there ? static_cast<double>(t->size(0)) : missing;
    if (!is_there) numbers[at + 2] = 1.0;
  };
  look_at(input, 0);
  look_at(target, 1);
  const Tensor all = Tensor::from(numbers);
  group.all_reduce(all, ReduceOp::max).wait();
  const auto agreed = all.to_vector<double>();
  for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
    if (agreed[at + 2] != 1.0) continue;
    throw Agreed<InputError>(
        at == 0 ? "Pipeline: the rank of the first stage needs the batch's input."
                : "Pipeline: the rank of the last stage needs the batch's target.");
  }
  if (agreed[1] != unknown && agreed[0] != agreed[1]) {
    throw Agreed<InputError>(
        fmt::format("Pipeline: the batch's input has {} rows on the first stage's rank, and its "
                    "target {} on the last stage's.",
                    agreed[0], agreed[1]));
  }
  return {static_cast<std::int64_t>(agreed[0]), agreed[4] == 1.0};
}

}  // namespace lockstep
