#include <lockstep/parallel/pipeline/stage_executor.hpp>

#include <algorithm>
#include <span>
#include <string>

#include <fmt/format.h>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/parallel/pipeline/pipeline_checks.hpp>

namespace lockstep {
namespace {

using Kind = PipelineAction::Kind;

/// Without parameters: the one on which modules are made.
Device device_of(const std::vector<std::shared_ptr<nn::Module>>& modules) {
  for (const auto& module : modules) {
    const auto parameters = module->parameters();
    if (!parameters.empty()) return parameters.front().data().device();
  }
  return nn::default_device();
}

/// Whether replicas of any rank's stages wait for each other in forward.
bool any_is_collective(ProcessGroup& group,
                       const std::vector<std::shared_ptr<nn::Module>>& modules) {
  const bool mine = std::ranges::any_of(modules, [](const auto& module) {
    return is_sharded(*module) || module->forward_is_collective();
  });
  return all_reduce_scalar(group, mine ? 1.0 : 0.0, ReduceOp::max) > 0.0;
}

}  // namespace

StageExecutor::StageExecutor(std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule,
                             const std::vector<std::shared_ptr<nn::Module>>& modules,
                             PipelineLoss loss)
    : group_(std::move(group)),
      schedule_(std::move(schedule)),
      loss_of_(std::move(loss)),
      device_(device_of(modules)),
      runs_empty_(any_is_collective(*group_, modules)) {
  auto module = modules.begin();
  for (int stage = 0; stage < schedule_.stages(); ++stage) {
    if (has_stage(stage)) stages_.push_back(make_stage(stage, *module++));
  }
}

StageExecutor::Stage StageExecutor::make_stage(int number,
                                               std::shared_ptr<nn::Module> module) const {
  Stage stage;
  stage.number = number;
  stage.module = std::move(module);
  stage.name = trace_name(fmt::format("stage {}", number));
  stage.slots.resize(static_cast<std::size_t>(schedule_.microbatches));
  const auto messages = [&](int neighbour, int receiver, bool forward) {
    if (neighbour < 0 || neighbour > last_stage() || has_stage(neighbour))
      return std::unique_ptr<StageMessages>();
    // Labels and tags are those of the stage that receives.
    const char* const what =
        trace_name(fmt::format("stage {} {}, micro-batch", receiver, forward ? "fwd" : "bwd"));
    return std::make_unique<StageMessages>(*group_, rank_of(neighbour),
                                           2 * receiver + (forward ? 0 : 1), what, forward);
  };
  stage.input_from = messages(number - 1, number, true);
  stage.gradient_to = messages(number - 1, number - 1, false);
  stage.output_to = messages(number + 1, number + 1, true);
  stage.gradient_from = messages(number + 1, number, false);
  return stage;
}

const StageExecutor::Stage& StageExecutor::stage(int number) const {
  return *std::ranges::find(stages_, number, &Stage::number);
}

StageExecutor::Stage& StageExecutor::own(int number) {
  return *std::ranges::find(stages_, number, &Stage::number);
}

double StageExecutor::share_of(const Microbatch& microbatch) const {
  if (microbatch.rows() == 0) return 0.0;
  return static_cast<double>(microbatch.rows()) / static_cast<double>(batch_.rows);
}

std::vector<Microbatch> StageExecutor::order_of(int stage, bool forward) const {
  std::vector<Microbatch> order;
  for (const auto& action : schedule_.actions[static_cast<std::size_t>(rank_of(stage))]) {
    const bool sends = forward
                           ? action.kind == Kind::forward
                           : action.kind == Kind::backward || action.kind == Kind::backward_input;
    const Microbatch& microbatch = microbatches_[static_cast<std::size_t>(action.microbatch)];
    if (sends && action.stage == stage && runs(microbatch)) order.push_back(microbatch);
  }
  return order;
}

void StageExecutor::begin() {
  microbatches_ = cut_into_microbatches(batch_.rows, schedule_.microbatches);
  losses_.clear();
  outputs_.assign(microbatches_.size(), {});
  for (Stage& stage : stages_) {
    if (stage.input_from) stage.input_from->begin(order_of(stage.number - 1, true), device_);
    if (stage.gradient_from && batch_.records)
      stage.gradient_from->begin(order_of(stage.number + 1, false), device_);
  }
}

void StageExecutor::run(const Batch& batch) {
  batch_ = batch;
  begin();
  const GradModeGuard mode(batch_.records);
  for (const auto& action : schedule_.actions[static_cast<std::size_t>(group_->rank())]) {
    const Microbatch& microbatch = microbatches_[static_cast<std::size_t>(action.microbatch)];
    if (!runs(microbatch) || (action.kind != Kind::forward && !batch_.records)) continue;
    action_ = &action;
    Stage& stage = own(action.stage);
    const TraceScope scope("pipeline", name_of(action.kind), stage.name, action.microbatch);
    switch (action.kind) {
      case Kind::forward:
        forward(stage, microbatch);
        break;
      case Kind::backward:
      case Kind::backward_input:
        backward(stage, microbatch, action.kind == Kind::backward_input);
        break;
      case Kind::backward_weight: {
        const auto rest = std::move(stage.slots[static_cast<std::size_t>(action.microbatch)].rest);
        if (rest) rest->run_rest();
        break;
      }
    }
  }
  action_ = nullptr;
  for (Stage& stage : stages_) {
    if (stage.output_to) stage.output_to->finish();
    if (stage.gradient_to) stage.gradient_to->finish();
  }
  if (batch_.rows == 0 && runs_empty_) forget_shapes();  // leading extents were guessed
  batch_.input = batch_.target = batch_.loss_scale = {};
}

std::string StageExecutor::position() const { return action_ ? to_string(*action_) : ""; }

void StageExecutor::forward(Stage& stage, const Microbatch& microbatch) {
  const auto number = static_cast<std::size_t>(microbatch.number);
  Stage::Slot& slot = stage.slots[number];
  Tensor x = stage.number == 0  ? batch_.input.slice(microbatch.begin, microbatch.end)
             : stage.input_from ? stage.input_from->receive(microbatch)
                                : std::exchange(slot.arrived_input, {});
  const Variable in(std::move(x), batch_.records && stage.number > 0);
  std::optional<nn::RandomContextGuard> draws;
  if (batch_.random) {
    nn::RandomContext context = *batch_.random;
    context.first_sample += microbatch.begin;
    draws.emplace(context);
  }
  Variable out = (*stage.module)(in);
  if (stage.number == last_stage()) {
    if (batch_.keeps_output) {
      if (microbatch.rows() > 0) outputs_[number] = out.data();
      return;
    }
    out = loss_of_rows(out, microbatch);
  } else if (stage.output_to) {
    stage.output_to->send(out.data(), microbatch);
  } else {
    own(stage.number + 1).slots[number].arrived_input = out.data();
  }
  if (!batch_.records) return;
  if (stage.gradient_from) stage.gradient_from->learn(out.data(), microbatch);
  slot.input = in;
  slot.output = std::move(out);
}

Variable StageExecutor::loss_of_rows(const Variable& output, const Microbatch& microbatch) {
  if (microbatch.rows() == 0) return sum(output);  // a root for backward, which adds zeros
  Variable loss =
      loss_of_(output, batch_.target.slice(microbatch.begin, microbatch.end), microbatch);
  losses_.emplace_back(share_of(microbatch), loss.data());
  return loss;
}

void StageExecutor::backward(Stage& stage, const Microbatch& microbatch, bool splits) {
  const auto number = static_cast<std::size_t>(microbatch.number);
  Stage::Slot& slot = stage.slots[number];
  const Variable in = std::exchange(slot.input, {});
  const Variable out = std::exchange(slot.output, {});
  Tensor gradient;  // of the loss: its seed
  if (stage.number < last_stage()) {
    gradient = stage.gradient_from ? stage.gradient_from->receive(microbatch)
                                   : std::exchange(slot.arrived_gradient, {});
  }
  double seed = batch_.weight * share_of(microbatch);
  if (stage.number == last_stage() && batch_.loss_scale.defined()) {
    if (batch_.loss_scale.device() == Device{}) {
      seed *= batch_.loss_scale.item();
    } else {
      gradient = seed_on_device(out, seed);
    }
  }
  if (!out.requires_grad()) {
    // Without parameters that are trained, here and before.
  } else if (splits) {
    slot.rest = std::make_unique<SplitBackward>(out, gradient, seed, in);
  } else if (gradient.defined()) {
    lockstep::backward(std::span(&out, 1), std::span(&gradient, 1));
  } else {
    out.backward(seed);
  }
  if (stage.number == 0) return;
  Tensor handed_on = in.grad().defined() ? in.grad().to(in.data().dtype())
                                         : Tensor::zeros(in.shape(), in.data().dtype(), device_);
  if (stage.gradient_to) {
    stage.gradient_to->send(handed_on, microbatch);
  } else {
    own(stage.number - 1).slots[number].arrived_gradient = std::move(handed_on);
  }
}

Tensor StageExecutor::seed_on_device(const Variable& loss, double seed) const {
  const Tensor factor = batch_.loss_scale.to(DType::f64);  // rounded once, like the loss
  factor *= seed;
  return factor.to(loss.data().dtype()).reshape(loss.shape());
}

double StageExecutor::waited_s() const noexcept {
  double seconds = 0.0;
  for (const Stage& stage : stages_) {
    for (const auto* messages :
         {&stage.input_from, &stage.output_to, &stage.gradient_from, &stage.gradient_to}) {
      if (*messages) seconds += (*messages)->waited_s();
    }
  }
  return seconds;
}

double StageExecutor::loss() const {
  double sum = 0.0;
  for (const auto& [share, value] : losses_) sum += share * value.item();
  return sum;
}

Tensor StageExecutor::output() const {
  std::int64_t rows = 0;
  Tensor like;
  for (const Tensor& one : outputs_) {
    if (!one.defined()) continue;
    rows += one.size(0);
    like = one;
  }
  if (!like.defined()) return {};
  Tensor whole = Tensor::empty(like.shape().with_leading(rows), like.dtype(), like.device());
  rows = 0;
  for (const Tensor& one : outputs_) {
    if (!one.defined()) continue;
    whole.slice(rows, rows + one.size(0)).copy_from(one);
    rows += one.size(0);
  }
  return whole;
}

void StageExecutor::forget_shapes() noexcept {
  for (Stage& stage : stages_) {
    for (auto* messages :
         {&stage.input_from, &stage.output_to, &stage.gradient_from, &stage.gradient_to}) {
      if (*messages) (*messages)->forget_shape();
    }
  }
}

}  // namespace lockstep
