#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/agreed_error.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/epoch_order.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/parallel/shard_sum.hpp>
#include <lockstep/tensor/kernels/loss/loss.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/math/product_speed.hpp>
#include <lockstep/train/parameter_update.hpp>
#include <lockstep/train/parts/library_parts.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/report/run_report.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_states.hpp>
#include <lockstep/train/run/stop_agreement.hpp>
#include <lockstep/train/step_graph.hpp>
#include <lockstep/train/strategy/pipeline_strategy.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/batch_norm_check.hpp>
#include <lockstep/train/task/evaluation.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// The metric in checkpoint.best must exist; it knows whether larger values are better.
void choose_best(CheckpointOptions& options, const Task& task) {
  if (options.best.empty()) return;
  using Direction = CheckpointOptions::Direction;
  const bool greater = greater_is_better(task, options.best, "checkpoint.best");
  if (options.best_direction == Direction::automatic)
    options.best_direction = greater ? Direction::max : Direction::min;
}

/// Shards of each batch; 0: sums go over ranks. Throws InputError if the ranks cannot share them.
std::int64_t shards_of(const TrainOptions& options, int ranks) {
  if (options.reduction == TrainOptions::Reduction::fast) return 0;
  static_cast<void>(ShardTree(options.shards).of_rank(0, ranks));
  return options.shards;
}

BatchPlan batches_of(const Task& task, const RunPlan& plan, int ranks) {
  return {task.data().train->size(), plan.train.batch_size, ranks, plan.train.drop_last,
          plan.ddp.shards};
}

/// Fills in values that the deck leaves to the task and the number of ranks.
RunPlan as_carried_out(RunPlan plan, const Task& task, int ranks) {
  plan.ddp.shards = shards_of(plan.train, ranks);
  choose_best(plan.checkpoint, task);
  return plan;
}

TrainingParts all_parts(const RunPlan& plan, const std::shared_ptr<ParameterUpdate>& update,
                        const TrainingParts& callers) {
  TrainingParts parts = library_parts(plan);
  parts.push_back(update);
  parts.insert(parts.end(), callers.begin(), callers.end());
  return parts;
}

/// Bytes of a Batch of `samples` samples.
std::size_t bytes_of_batch(const Dataset& data, std::int64_t samples) {
  const auto elements = [](const Shape& shape) { return static_cast<std::size_t>(shape.numel()); };
  std::size_t bytes =
      static_cast<std::size_t>(samples) *
      (elements(data.sample_shape()) * size_of(data.input_dtype()) +
       elements(data.target_shape()) * size_of(data.target_dtype()) + sizeof(std::int64_t));
  for (const auto& other : data.others()) bytes += bytes_of_batch(*other, samples);
  return bytes;
}

/// Memory in use from the first step to the last. Throws InputError if run.device_memory is less.
void expect_room_on_device(const Task& task, const RunPlan& plan, const BatchPlan& batches,
                           const nn::Module& model, const optim::Optimizer& optimizer) {
  if (plan.device == Device{} || plan.run.device_memory == 0) return;
  std::size_t loaded = bytes_of_batch(*task.data().train, batches.largest_share(0));
  for (const auto& data : {task.data().validation, task.data().test}) {
    if (data) loaded += bytes_of_batch(*data, std::min(data->size(), plan.eval.batch_size));
  }
  std::size_t bytes = model.state_dict().bytes() + optimizer.state_dict().bytes() +
                      static_cast<std::size_t>(task.loading().prefetch) * loaded;
  for (const auto& parameter : model.trained_parameters())
    bytes += parameter.variable.data().bytes();
  const auto needed = static_cast<std::int64_t>(bytes);
  if (needed <= plan.run.device_memory) return;
  throw InputError(fmt::format(
      "run.device_memory = {} is less than the {} of the model's parameters, gradients and "
      "optimizer state and of {} batches of each data set; activations take memory too. Raise it, "
      "or use a smaller model or smaller batches.",
      format_bytes(plan.run.device_memory), format_bytes(needed), task.loading().prefetch));
}

/// While it lives, the model is the one that the parts choose for evaluation.
class InEvaluation {
 public:
  InEvaluation(const Training& training, const TrainingParts& parts)
      : training_(training), parts_(parts) {
    for (const auto& part : parts_) part->before_evaluation(training_);
  }
  ~InEvaluation() {
    for (auto part = parts_.rbegin(); part != parts_.rend(); ++part)
      (*part)->after_evaluation(training_);
  }
  InEvaluation(const InEvaluation&) = delete;
  InEvaluation& operator=(const InEvaluation&) = delete;

 private:
  const Training& training_;
  const TrainingParts& parts_;
};

}  // namespace

/// While it lives, the training has a run folder, metrics and a deck.
class Trainer::InRun {
 public:
  InRun(Training& training, const RunFolder& folder, const MetricsFile& metrics,
        const std::string& deck)
      : training_(training) {
    training_.folder = &folder;
    training_.metrics = &metrics;
    training_.deck = &deck;
  }
  ~InRun() {
    training_.folder = nullptr;
    training_.metrics = nullptr;
    training_.deck = nullptr;
  }
  InRun(const InRun&) = delete;
  InRun& operator=(const InRun&) = delete;

 private:
  Training& training_;
};

Trainer::Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
                 std::vector<std::pair<std::string, std::string>> library_versions,
                 const TrainingParts& parts)
    : ranks_(make_rank_groups(std::move(group), plan.mesh)),
      task_(task),
      plan_(std::make_unique<const RunPlan>(as_carried_out(plan, task, ranks_.batch->size()))),
      library_versions_(std::move(library_versions)),
      batches_(batches_of(task, *plan_, ranks_.batch->size())),
      loader_(std::make_unique<Loader>(
          task.data().train,
          std::make_unique<TrainBatches>(
              batches_, ranks_.batch->rank(),
              make_order(task.data(), plan.train.seed, task.loading().shuffle)),
          task.loading().prefetch, task.data().augmentation, plan.device)),
      strategy_(make_strategy(task, *plan_, ranks_)),
      update_(std::make_shared<ParameterUpdate>(*plan_)),
      parts_(all_parts(*plan_, update_, parts)),
      callers_parts_(parts.size()),
      figures_(plan.device),
      graph_(
          std::make_unique<StepGraph>(*plan_, *task.data().train, ranks_.all->size(), *strategy_)),
      training_{ranks_.all,
                ranks_.data,
                task_,
                *plan_,
                batches_,
                *strategy_,
                strategy_->model(),
                strategy_->optimizer(),
                state_},
      stop_(std::make_unique<StopAgreement>(*ranks_.all)) {
  expect_names(parts);
  const Datasets& data = task.data();
  if (const auto& judging = judged_by(data))
    judge_ = std::make_unique<Evaluator>(ranks_, task, judging, plan.eval.batch_size, plan.device);
  if (data.validation && data.test)
    test_ = std::make_unique<Evaluator>(ranks_, task, data.test, plan.eval.batch_size, plan.device);
  if (plan_->device == Device{} && !has_units_for(plan_->train.precision) &&
      ranks_.all->rank() == 0) {
    log(LogLevel::warning,
        "this processor does not compute products of train.precision itself: operands are rounded "
        "and multiplied in f32, which is slower than train.precision = \"f32\"");
  }
  state_.seed = static_cast<std::int64_t>(plan_->train.seed);
  for (const auto& part : parts_) part->begin(training_);
}

Trainer::~Trainer() = default;

nn::Module& Trainer::model() const noexcept { return strategy_->model(); }

const optim::Optimizer& Trainer::optimizer() const noexcept { return strategy_->optimizer(); }

StateDict Trainer::state_dict() const { return strategy_->state_dict(); }

std::int64_t Trainer::parameter_count() const { return strategy_->parameter_count(); }

void Trainer::check(const Task& task, const RunPlan& plan, int ranks, const TrainingParts& parts) {
  const auto shares = static_cast<int>(parts_of_batch(plan.mesh, ranks));
  DdpOptions ddp = plan.ddp;
  ddp.shards = shards_of(plan.train, shares);
  validate(ddp);
  expect_names(parts);
  for (const auto& part : all_parts(plan, std::make_shared<ParameterUpdate>(plan), parts))
    part->check(task, plan);
  const MeshOptions mesh = fitted(plan.mesh, ranks);
  expect_strategy_fits(plan, mesh);
  const RunPlan carried_out = as_carried_out(plan, task, shares);
  if (const auto& judging = judged_by(task.data()))
    static_cast<void>(EvalPlan(judging->size(), plan.eval.batch_size, 1));
  const nn::SkipInit for_names_and_shapes;
  const auto model = task.make_model();
  if (mesh.pp > 1) expect_stages_fit(task, plan, mesh.pp, model);
  divide_for_check(plan, mesh, *task.data().train, *model);
  validate(carried_out.ddp, *model);
  const auto optimizer = optim::make_optimizer(plan.optimizer, model->trained_parameters());
  if (plan.train.zero > 0 && !optimizer->is_elementwise()) {
    throw InputError(
        "train.zero gives each rank a part to update, but this optimizer.kind looks at whole "
        "parameters. Use one that updates element by element, such as sgd or adamw.");
  }
  const BatchPlan batches = batches_of(task, carried_out, shares);
  const auto schedule = optim::make_schedule(plan.schedule, plan.train.epochs, batches.steps());
  optim::apply_schedule(*schedule, optimizer->initial_lr(), 0, 0, *optimizer);
  expect_batches_normalise(task, plan, batches, *model);
  if (mesh.pp == 1 && plan.train.zero == 0)
    expect_room_on_device(task, plan, batches, *model, *optimizer);
}

Outcome Trainer::run(const RunFolder& folder, MetricsFile& metrics, Console& console,
                     const std::string& deck,
                     const std::optional<std::filesystem::path>& resumed_from) {
  const InRun in_run(training_, folder, metrics, deck);
  RunStates states(
      training_, parts_, [&] { return contents(deck); }, resumed_from);
  agree(*ranks_.all, [&] {
    if (ranks_.all->rank() == 0) folder.write_in([&] { metrics.begin(); });
  });
  RunReport report(training_, parts_, clock_, metrics, console);
  strategy_->ask_along([this] { return own_reason_to_stop() != StopReason::none; });
  for (const auto& part : parts_) part->start_run(training_);
  clock_.start();
  double training_wall = 0;
  Outcome& outcome = report.outcome();
  if (lacks_evaluation()) {
    if (const auto found = report_evaluation(*judge_, judging_set(task_.data()), report, states)) {
      take(*found);
      states.after_epoch(is_over());
    } else {
      outcome.stopped = stop_->answer();
    }
  }
  while (outcome.stopped == StopReason::none && !is_over()) {
    outcome.stopped = planned_stop();
    if (outcome.stopped != StopReason::none) break;
    const double wall_before = clock_.totals().wall;
    outcome.stopped = train_epoch(report, states);
    training_wall += clock_.totals().wall - wall_before;
    if (outcome.stopped != StopReason::none) break;
    outcome.stopped = finish_epoch(report, states);
    if (outcome.stopped == StopReason::none) states.after_epoch(is_over());
  }
  if (outcome.stopped == StopReason::stop_after_steps && state_.position > 0 && judge_ &&
      !report_evaluation(*judge_, judging_set(task_.data()), report, states))
    outcome.stopped = stop_->answer();
  if (test_ && outcome.stopped == StopReason::none &&
      !report_evaluation(*test_, "test", report, states))
    outcome.stopped = stop_->answer();
  const bool stopped = outcome.stopped != StopReason::none;
  agree(*ranks_.all, [&] { folder.expect_there(); });
  states.finish(stopped);
  outcome.checkpoint = states.newest();
  report.finish(training_wall);
  for (const auto& part : parts_) part->end_run(training_, outcome);
  return outcome;
}

StopReason Trainer::train_epoch(RunReport& report, RunStates& states) {
  report.start_epoch();
  start_epoch(state_.epoch, state_.position);
  step_start_ = Clock::now();
  ask_whether_to_stop();
  while (stop_->answer() == StopReason::none && loader_->has_next() &&
         planned_stop() == StopReason::none) {
    state_.metrics.clear();
    report.step(take_step(false));
    states.after_step(!loader_->has_next());
  }
  if (stop_->answer() != StopReason::none) return stop_->answer();
  return loader_->has_next() ? planned_stop() : StopReason::none;
}

StopReason Trainer::planned_stop() const noexcept {
  const RunOptions& run = plan_->run;
  if (run.stop_after_epochs > 0 && state_.epoch >= run.stop_after_epochs)
    return StopReason::stop_after_epochs;
  if (run.stop_after_steps > 0 && state_.step >= run.stop_after_steps)
    return StopReason::stop_after_steps;
  return StopReason::none;
}

StopReason Trainer::finish_epoch(RunReport& report, RunStates& states) {
  const MetricsRow row = report.epoch(epoch_loss_);
  ++state_.epoch;
  state_.position = 0;
  epoch_loss_ = 0;
  for (const auto& part : parts_) part->after_epoch(training_);

  const auto start = Clock::now();
  std::optional<Evaluation> found;
  if (judge_) found = evaluate_until_stop(*judge_, states);
  report.epoch_finished(row, found, seconds_since(start));
  if (found) take(*found);
  return judge_ && !found ? stop_->answer() : StopReason::none;
}

void Trainer::take(const Evaluation& found) {
  state_.metrics = found.metrics;
  state_.metrics.emplace_back("loss", found.loss);
  for (const auto& part : parts_) part->evaluated(training_, found);
}

bool Trainer::lacks_evaluation() const noexcept {
  return judge_ && state_.epoch > 0 && state_.position == 0 && state_.metrics.empty();
}

bool Trainer::is_over() const {
  return state_.epoch >= plan_->train.epochs ||
         std::ranges::any_of(parts_, [](const auto& part) { return part->is_over(); });
}

void Trainer::start_epoch(std::int64_t epoch, std::int64_t first_step) {
  // A module that the task put into eval() stays so, also where evaluation changes modes and back.
  if (!model().is_training()) model().train();
  loader_->start_epoch(epoch, first_step);
}

Evaluation Trainer::evaluate() {
  if (!judge_) throw InputError("there is neither a validation nor a test set");
  return evaluate(*judge_, [] { return true; }).value();
}

std::optional<Evaluation> Trainer::evaluate_until_stop(Evaluator& evaluator, RunStates& states) {
  step_start_ = Clock::now();
  try {
    return evaluate(evaluator, [this] {
      if (stop_->answer() != StopReason::none) return false;
      ask_whether_to_stop();
      step_start_ = Clock::now();
      return true;
    });
  } catch (const AgreedError& error) {
    states.finish(true);
    const AgreedFailure& failure = error;
    const std::string_view said = error.what();
    throw AgreedError(failure, fmt::format("{}{} The training up to this evaluation is saved: "
                                           "mend the cause and go on with --resume.",
                                           said, said.ends_with('.') ? "" : "."));
  }
}

std::optional<Evaluation> Trainer::report_evaluation(Evaluator& evaluator, const char* set,
                                                     RunReport& report, RunStates& states) {
  const auto start = Clock::now();
  auto found = evaluate_until_stop(evaluator, states);
  if (found) report.evaluated(set, *found, seconds_since(start));
  return found;
}

std::optional<Evaluation> Trainer::evaluate(Evaluator& evaluator,
                                            const std::function<bool()>& goes_on) {
  const Autocast autocast(plan_->train.precision);
  const LayoutGuard layout(plan_->run.layout);
  strategy_->broadcast_buffers();
  const InEvaluation in_evaluation(training_, parts_);
  return evaluator(
      model(), [this](const Batch& batch) { return strategy_->evaluate(batch); },
      strategy_->all_go_forward(), goes_on);
}

StopReason Trainer::own_reason_to_stop() const {
  if (!training_.folder) return StopReason::none;
  return std::max(requested_stop(), training_.folder->stop_reason(seconds_since(step_start_)));
}

void Trainer::ask_whether_to_stop() {
  if (training_.folder) stop_->ask(own_reason_to_stop());
}

}  // namespace lockstep::train
