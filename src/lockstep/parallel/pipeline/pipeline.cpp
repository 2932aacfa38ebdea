#include <lockstep/parallel/pipeline/pipeline.hpp>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/pipeline/as_input_error.hpp>
#include <lockstep/parallel/pipeline/simulation.hpp>
#include <lockstep/parallel/pipeline/stage_messages.hpp>
#include <lockstep/parallel/pipeline/tied_parameters.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

using Kind = PipelineAction::Kind;

/// The activations of a micro-batch in a stage.
struct Slot {
  Tensor arrived_input, arrived_gradient;  ///< from a stage of the same rank
  Variable input, output;
};

/// A stage of this rank.
struct Stage {
  int number = 0;
  std::shared_ptr<nn::Module> module;
  const char* name = "";  ///< for traces
  // With the stages before and after; null: there is none, or it is on this rank.
  std::unique_ptr<StageMessages> input_from, output_to, gradient_from, gradient_to;
  std::vector<Slot> slots;  ///< by micro-batch
};

/// Without parameters: the one on which modules are made.
Device device_of(const std::vector<Stage>& stages) {
  for (const Stage& stage : stages) {
    const auto parameters = stage.module->parameters();
    if (!parameters.empty()) return parameters.front().data().device();
  }
  return nn::default_device();
}

void expect_executable(const PipelineSchedule& schedule, const ProcessGroup& group,
                       const std::vector<std::shared_ptr<nn::Module>>& stages, bool has_loss) {
  expect_deadlock_free(schedule);
  const auto refuse = [](const std::string& sentence) {
    throw InputError("Pipeline: " + sentence);
  };
  if (schedule.ranks() != group.size()) {
    refuse(fmt::format("the schedule \"{}\" is for {} ranks, and the group has {}.", schedule.name,
                       schedule.ranks(), group.size()));
  }
  if (2 * schedule.stages() > message_tags) {
    refuse(fmt::format("{} stages; at most {} are possible.", schedule.stages(), message_tags / 2));
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
  for (const auto& actions : schedule.actions) {
    if (std::ranges::none_of(actions, [](const auto& one) { return one.kind > Kind::backward; }))
      continue;
    refuse(
        fmt::format("the schedule \"{}\" runs backward in two parts, which only the simulation "
                    "knows. Take one_f_one_b or interleaved_1f1b.",
                    schedule.name));
  }
}

void expect_replicas(const std::vector<std::shared_ptr<DistributedDataParallel>>& data_parallel,
                     const std::vector<std::shared_ptr<nn::Module>>& stages) {
  if (data_parallel.empty()) return;
  const auto fits = [](const auto& ddp, const auto& stage) {
    return ddp && &ddp->module() == stage.get();
  };
  if (!std::ranges::equal(data_parallel, stages, fits)) {
    throw InputError(
        "Pipeline: data_parallel needs a DistributedDataParallel of each of this rank's stages, in "
        "their order.");
  }
  if (std::ranges::any_of(stages, [](const auto& one) { return one->forward_is_collective(); })) {
    throw InputError(
        "Pipeline: a stage with synchronised BatchNorm cannot have replicas, which sum their "
        "gradients after the last micro-batch. Leave out sync_batch_norm.");
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

struct Pipeline::Parts {
  std::shared_ptr<ProcessGroup> group;
  PipelineSchedule schedule;
  Loss loss_of;
  std::vector<Stage> stages;
  Device device;
  std::vector<std::shared_ptr<DistributedDataParallel>> data_parallel;
  std::optional<TiedParameters> tied;  ///< there once the constructor ends
  std::optional<nn::RandomContext> random;
  bool syncs = true;       ///< outside no_sync()
  bool has_summed = true;  ///< gradients that are there are the same wherever they are summed
  bool failed = false;

  // Of the running call:
  Tensor input, target;
  std::vector<Microbatch> microbatches;
  bool records = false;  ///< step()
  double weight = 1.0;
  std::vector<std::pair<double, Tensor>> losses;  ///< with their weights
  std::vector<Tensor> outputs;                    ///< of forward()
  bool keeps_outputs = false;

  [[nodiscard]] int rank_of(int stage) const {
    return schedule.rank_of_stage[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool is_last(const Stage& stage) const {
    return stage.number + 1 == schedule.stages();
  }
  [[nodiscard]] bool is_here(int stage) const { return rank_of(stage) == group->rank(); }
  [[nodiscard]] Stage& stage_here(int number) {
    return *std::ranges::find(stages, number, &Stage::number);
  }
  [[nodiscard]] std::int64_t rows() const noexcept {
    return microbatches.empty() ? 0 : microbatches.back().end;
  }
  [[nodiscard]] const Microbatch& microbatch(int number) const {
    return microbatches[static_cast<std::size_t>(number)];
  }

  void add_stage(int number, std::shared_ptr<nn::Module> module);
  [[nodiscard]] std::int64_t agreed_rows(const Tensor& in, const Tensor& goal, bool needs_target);
  [[nodiscard]] std::vector<Microbatch> order_of(int stage, bool forward) const;
  void run(const Tensor& in, const Tensor& goal, bool needs_target);
  void run_actions();
  void forward(Stage& stage, const Microbatch& microbatch);
  void backward(Stage& stage, const Microbatch& microbatch);
  void train_on(const Tensor& in, const Tensor& goal);
  [[nodiscard]] double mean_loss();
};

void Pipeline::Parts::add_stage(int number, std::shared_ptr<nn::Module> module) {
  Stage stage;
  stage.number = number;
  stage.module = std::move(module);
  stage.name = trace_name(fmt::format("stage {}", number));
  stage.slots.resize(static_cast<std::size_t>(schedule.microbatches));
  const auto messages = [&](int neighbour, int receiver, bool forward) {
    if (neighbour < 0 || neighbour == schedule.stages() || is_here(neighbour))
      return std::unique_ptr<StageMessages>();
    // Labels and tags are those of the stage that receives.
    const char* const what =
        trace_name(fmt::format("stage {} {}, micro-batch", receiver, forward ? "fwd" : "bwd"));
    return std::make_unique<StageMessages>(*group, rank_of(neighbour),
                                           2 * receiver + (forward ? 0 : 1), what, forward);
  };
  stage.input_from = messages(number - 1, number, true);
  stage.gradient_to = messages(number - 1, number - 1, false);
  stage.output_to = messages(number + 1, number + 1, true);
  stage.gradient_from = messages(number + 1, number, false);
  stages.push_back(std::move(stage));
}

std::int64_t Pipeline::Parts::agreed_rows(const Tensor& in, const Tensor& goal, bool needs_target) {
  const CallLabel label("rows of pipeline's batch");
  constexpr double none = -std::numeric_limits<double>::max();
  const auto rows_of = [](const char* what, const Tensor& t) {
    if (!t.defined() || t.dims() == 0)
      throw InputError(
          fmt::format("Pipeline: this rank has the {} stage and needs the batch's {}, "
                      "which is missing or has no rows.",
                      what == std::string_view("input") ? "first" : "last", what));
    return t.size(0);
  };
  std::optional<std::int64_t> input_rows, target_rows;
  const auto failure = failure_of([&] {
    if (is_here(0)) input_rows = rows_of("input", in);
    if (needs_target && is_here(schedule.stages() - 1)) target_rows = rows_of("target", goal);
  });
  // The largest and the negative of the smallest number of rows.
  std::array<double, 3> numbers{failure ? 1.0 : 0.0, none, none};
  for (const auto& rows : {input_rows, target_rows}) {
    if (!rows) continue;
    numbers[1] = std::max(numbers[1], static_cast<double>(*rows));
    numbers[2] = std::max(numbers[2], -static_cast<double>(*rows));
  }
  const Tensor all = Tensor::from(std::span<const double>(numbers), {3});
  group->all_reduce(all, ReduceOp::max).wait();
  const auto agreed = all.to_vector<double>();
  if (agreed[0] != 0.0 || agreed[1] != -agreed[2]) {
    agree(
        *group,
        [&] {
          if (failure) throw InputError(failure->message);
          if (agreed[0] != 0.0) return;
          throw InputError(
              fmt::format("Pipeline: the batch's input and target have {} and {} rows, "
                          "or the other way round; they must have the same.",
                          -agreed[2], agreed[1]));
        },
        as_input_error());
  }
  return static_cast<std::int64_t>(agreed[1]);
}

std::vector<Microbatch> Pipeline::Parts::order_of(int stage, bool forward) const {
  std::vector<Microbatch> order;
  for (const auto& action : schedule.actions[static_cast<std::size_t>(rank_of(stage))]) {
    if (action.stage != stage || (action.kind == Kind::forward) != forward) continue;
    if (microbatch(action.microbatch).rows() > 0) order.push_back(microbatch(action.microbatch));
  }
  return order;
}

void Pipeline::Parts::run(const Tensor& in, const Tensor& goal, bool needs_target) {
  if (failed) {
    throw Error(
        "Pipeline: an earlier call ended with an exception, so this pipeline cannot go on: its "
        "ranks may have got to different places. Make another one, on a new group.");
  }
  const std::int64_t n = agreed_rows(in, goal, needs_target), m = schedule.microbatches;
  failed = true;  // until the end
  input = in;
  target = goal;
  microbatches.clear();
  for (std::int64_t k = 0; k < m; ++k)
    microbatches.push_back({static_cast<int>(k), n * k / m, n * (k + 1) / m});
  losses.clear();
  outputs.assign(static_cast<std::size_t>(m), {});
  run_actions();
  input = target = {};
  failed = false;
}

void Pipeline::Parts::run_actions() {
  const GradModeGuard mode(records);
  for (Stage& stage : stages) {
    if (stage.input_from) stage.input_from->begin(order_of(stage.number - 1, true), device);
    if (stage.gradient_from && records)
      stage.gradient_from->begin(order_of(stage.number + 1, false), device);
  }
  for (const auto& action : schedule.actions[static_cast<std::size_t>(group->rank())]) {
    const Microbatch& part = microbatch(action.microbatch);
    if (part.rows() == 0) continue;
    Stage& stage = stage_here(action.stage);
    const bool is_forward = action.kind == Kind::forward;
    if (!is_forward && !records) continue;
    const TraceScope scope("pipeline", is_forward ? "forward" : "backward", stage.name,
                           action.microbatch);
    if (is_forward) {
      forward(stage, part);
    } else {
      backward(stage, part);
    }
  }
  for (Stage& stage : stages) {
    if (stage.output_to) stage.output_to->finish();
    if (stage.gradient_to) stage.gradient_to->finish();
  }
}

void Pipeline::Parts::forward(Stage& stage, const Microbatch& part) {
  Slot& slot = stage.slots[static_cast<std::size_t>(part.number)];
  Tensor x = stage.number == 0  ? input.slice(part.begin, part.end)
             : stage.input_from ? stage.input_from->receive(part)
                                : std::exchange(slot.arrived_input, {});
  const Variable in(std::move(x), records && stage.number > 0);
  std::optional<nn::RandomContextGuard> draws;
  if (random) {
    draws.emplace(nn::RandomContext{random->seed, random->step, random->first_sample + part.begin});
  }
  Variable out = (*stage.module)(in);
  if (is_last(stage)) {
    if (keeps_outputs) {
      outputs[static_cast<std::size_t>(part.number)] = out.data();
      return;
    }
    out = loss_of(out, target.slice(part.begin, part.end));
    const double share = static_cast<double>(part.rows()) / static_cast<double>(rows());
    losses.emplace_back(share, out.data());
  } else if (stage.output_to) {
    stage.output_to->send(out.data(), part);
  } else {
    stage_here(stage.number + 1).slots[static_cast<std::size_t>(part.number)].arrived_input =
        out.data();
  }
  if (!records) return;
  if (stage.gradient_from) stage.gradient_from->learn(out.data(), part);
  slot.input = in;
  slot.output = std::move(out);
}

void Pipeline::Parts::backward(Stage& stage, const Microbatch& part) {
  const auto number = static_cast<std::size_t>(part.number);
  Slot& slot = stage.slots[number];
  const Variable in = std::exchange(slot.input, {});
  const Variable out = std::exchange(slot.output, {});
  if (is_last(stage)) {
    if (out.requires_grad())
      out.backward(weight * static_cast<double>(part.rows()) / static_cast<double>(rows()));
  } else {
    const Tensor gradient = stage.gradient_from ? stage.gradient_from->receive(part)
                                                : std::exchange(slot.arrived_gradient, {});
    if (out.requires_grad()) lockstep::backward(std::span(&out, 1), std::span(&gradient, 1));
  }
  if (stage.number == 0) return;
  Tensor gradient = in.grad().defined() ? in.grad().to(in.data().dtype())
                                        : Tensor::zeros(in.shape(), in.data().dtype(), device);
  if (stage.gradient_to) {
    stage.gradient_to->send(gradient, part);
  } else {
    stage_here(stage.number - 1).slots[number].arrived_gradient = std::move(gradient);
  }
}

void Pipeline::Parts::train_on(const Tensor& in, const Tensor& goal) {
  tied->begin(has_summed);
  {
    std::vector<std::unique_ptr<DistributedDataParallel::NoSync>> local;
    for (const auto& ddp : data_parallel)
      local.push_back(std::make_unique<DistributedDataParallel::NoSync>(*ddp));
    run(in, goal, true);
  }
  has_summed = syncs;
  if (!syncs) return;
  failed = true;
  for (const auto& ddp : data_parallel) ddp->backward({}, 0.0);
  tied->sum();
  failed = false;
}

double Pipeline::Parts::mean_loss() {
  double sum = 0.0;
  for (const auto& [share, value] : losses) sum += share * value.item();
  const CallLabel label("loss of the pipeline");
  const Tensor loss = Tensor::full({}, sum, DType::f64);
  group->broadcast(loss, rank_of(schedule.stages() - 1)).wait();
  return loss.item();
}

Pipeline::Pipeline(std::vector<std::shared_ptr<nn::Module>> stages,
                   std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule, Loss loss,
                   const PipelineOptions& options)
    : parts_(std::make_unique<Parts>()) {
  if (!group) throw InputError("Pipeline: the group is a null pointer.");
  agree(
      *group,
      [&] {
        expect_executable(schedule, *group, stages, static_cast<bool>(loss));
        expect_replicas(options.data_parallel, stages);
      },
      as_input_error());
  const auto all = agree(*group, [&] { return numbers_of(schedule); });
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all[0]) continue;
    throw Agreed<InputError>(fmt::format(
        "Pipeline: rank {} was given another schedule than rank 0. Give all ranks the same.",
        rank));
  }
  parts_->group = std::move(group);
  parts_->schedule = std::move(schedule);
  parts_->loss_of = std::move(loss);
  auto module = stages.begin();
  for (int stage = 0; stage < parts_->schedule.stages(); ++stage) {
    if (parts_->is_here(stage)) parts_->add_stage(stage, std::move(*module++));
  }
  parts_->device = device_of(parts_->stages);
  parts_->data_parallel = options.data_parallel;
  const auto find = [this](const StageParameter& wanted) {
    for (const auto& [name, variable] :
         parts_->stage_here(wanted.stage).module->named_parameters()) {
      if (name == wanted.name) return variable;
    }
    return Variable();
  };
  parts_->tied.emplace(*parts_->group, parts_->schedule.rank_of_stage, find, options.tied);
}

Pipeline::~Pipeline() = default;

Pipeline::NoSync::NoSync(Pipeline& pipeline) noexcept
    : pipeline_(pipeline), before_(std::exchange(pipeline.parts_->syncs, false)) {}

Pipeline::NoSync::~NoSync() { pipeline_.parts_->syncs = before_; }

void Pipeline::set_random_context(const std::optional<nn::RandomContext>& context) {
  parts_->random = context;
}

double Pipeline::step(const Tensor& input, const Tensor& target, double weight) {
  parts_->records = true;
  parts_->keeps_outputs = false;
  parts_->weight = weight;
  parts_->train_on(input, target);
  return parts_->mean_loss();
}

double Pipeline::evaluate(const Tensor& input, const Tensor& target) {
  parts_->records = false;
  parts_->keeps_outputs = false;
  parts_->run(input, target, true);
  return parts_->mean_loss();
}

Tensor Pipeline::forward(const Tensor& input) {
  parts_->records = false;
  parts_->keeps_outputs = true;
  parts_->run(input, {}, false);
  std::vector<Tensor> outputs = std::exchange(parts_->outputs, {});
  std::erase_if(outputs, [](const Tensor& one) { return !one.defined(); });
  if (outputs.empty()) return {};
  std::int64_t rows = 0;
  for (const Tensor& one : outputs) rows += one.size(0);
  const Tensor& first = outputs.front();
  Tensor whole = Tensor::empty(first.shape().with_leading(rows), first.dtype(), first.device());
  rows = 0;
  for (const Tensor& one : outputs) {
    whole.slice(rows, rows + one.size(0)).copy_from(one);
    rows += one.size(0);
  }
  return whole;
}

void Pipeline::forget_shapes() noexcept {
  for (Stage& stage : parts_->stages) {
    for (auto* messages :
         {&stage.input_from, &stage.output_to, &stage.gradient_from, &stage.gradient_to}) {
      if (*messages) (*messages)->forget_shape();
    }
  }
}

std::vector<nn::NamedParameter> Pipeline::named_parameters() const {
  std::vector<nn::NamedParameter> all;
  std::set<std::string> names;
  for (const bool numbered : {false, true}) {
    all.clear();
    names.clear();
    for (const Stage& stage : parts_->stages) {
      const std::string prefix = numbered ? fmt::format("stage{}.", stage.number) : "";
      for (const auto& [name, variable] : stage.module->named_parameters()) {
        const auto is_it = [record = variable.record()](const nn::NamedParameter& one) {
          return one.variable.record() == record;
        };
        if (std::ranges::any_of(all, is_it)) continue;
        all.push_back({prefix + name, variable});
        names.insert(prefix + name);
      }
    }
    if (names.size() == all.size()) break;
  }
  return all;
}

const PipelineSchedule& Pipeline::schedule() const noexcept { return parts_->schedule; }
bool Pipeline::has_first_stage() const noexcept { return parts_->is_here(0); }
bool Pipeline::has_last_stage() const noexcept {
  return parts_->is_here(parts_->schedule.stages() - 1);
}
void Pipeline::train(bool on) {
  for (const Stage& stage : parts_->stages) stage.module->train(on);
}
void Pipeline::close() { parts_->tied->close(); }

}  // namespace lockstep
