#include <lockstep/autograd/autocast.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/parallel/shard_tree.hpp>
#include <lockstep/tensor/finite.hpp>
#include <lockstep/tensor/math/product_speed.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/agreement.hpp>
#include <lockstep/train/batch_norm_check.hpp>
#include <lockstep/train/console.hpp>
#include <lockstep/train/metrics.hpp>
#include <lockstep/train/report.hpp>
#include <lockstep/train/run_folder.hpp>
#include <lockstep/train/run_local_copies.hpp>
#include <lockstep/train/run_saves.hpp>
#include <lockstep/train/run_trace.hpp>
#include <lockstep/train/stop_agreement.hpp>

namespace lockstep::train {
namespace {

/// ": conv1.weight is not finite either", where one of the tensors is not.
std::string culprit(const StateDict& state) {
  const auto at =
      std::ranges::find_if(state, [](const auto& entry) { return !all_finite(entry.tensor); });
  return at == state.end() ? "" : fmt::format(": {} is not finite either", at->name);
}

std::unique_ptr<ReplicaCheck> make_replica_check(const std::shared_ptr<ProcessGroup>& group,
                                                 const nn::Module& model,
                                                 const optim::Optimizer& optimizer) {
  StateDict state;
  for (const auto& [name, parameter] : model.named_parameters()) {
    state.insert(name, parameter.data());
  }
  state.insert_all("optimizer/", optimizer.state_dict());
  return std::make_unique<ReplicaCheck>(group, std::move(state));
}

/// Of the whole tensors.
std::int64_t bytes_of_all_ranks(const StateDict& state) {
  std::int64_t bytes = 0;
  for (const auto& [name, tensor, placement] : state) {
    const Shape& shape = placement.sharded ? placement.global : tensor.shape();
    bytes += shape.numel() * static_cast<std::int64_t>(size_of(tensor.dtype()));
  }
  return bytes;
}

/// "test loss 0.4312  test accuracy 0.8312  "
std::string in_words(const char* set, const Evaluation& evaluation) {
  std::string text = fmt::format("{} loss {}  ", set, in_figures(evaluation.loss));
  for (const auto& [name, value] : evaluation.metrics)
    text += fmt::format("{} {} {}  ", set, name, in_figures(value));
  return text;
}

void set_speed(MetricsRow& row, double samples_per_s, const Task& task) {
  row.samples_per_s = samples_per_s;
  const auto tokens = static_cast<double>(task.tokens_a_sample());
  if (tokens > 0) row.tokens_per_s = samples_per_s * tokens;
}

/// FLOP/s of `ranks` together, and their share of what as many cores reach.
void set_flops(MetricsRow& row, std::span<const StepTimes> ranks, double wall, double peak) {
  double flops = 0;
  for (const StepTimes& times : ranks) flops += times.flops;
  if (flops == 0) return;
  row.flops_per_s = flops / wall;
  if (peak > 0) row.of_peak = row.flops_per_s / (peak * static_cast<double>(ranks.size()));
}

std::string speed_in_words(const MetricsRow& row) {
  std::string text = row.tokens_per_s >= 0 ? fmt::format("{:.0f} tokens/s", row.tokens_per_s)
                                           : fmt::format("{:.0f} samples/s", row.samples_per_s);
  if (row.of_peak >= 0)
    text +=
        fmt::format("  {:.3g} GFLOP/s, {:.0f} % of peak", row.flops_per_s / 1e9, row.of_peak * 1e2);
  return text;
}

EarlyStopping early_stopping_of(const TrainOptions& options, const Task& task) {
  const bool greater =
      options.early_stop_patience > 0 &&
      greater_is_better(task, options.early_stop_metric, "train.early_stop_metric");
  return {options.early_stop_patience, options.early_stop_min_delta, greater};
}

/// Nothing unless schedule.kind = "plateau".
std::optional<optim::ReduceLROnPlateau> plateau_of(const RunPlan& plan, const Task& task) {
  if (plan.schedule.kind != optim::ScheduleOptions::Kind::plateau) return std::nullopt;
  optim::PlateauOptions options = plan.schedule.plateau;
  options.greater_is_better = greater_is_better(task, plan.schedule.metric, "schedule.metric");
  return optim::ReduceLROnPlateau(options, plan.optimizer.lr);
}

/// checkpoint.best has to be there; which of its values are the best, the metric knows.
void choose_best(CheckpointOptions& options, const Task& task) {
  if (options.best.empty()) return;
  using Direction = CheckpointOptions::Direction;
  const bool greater = greater_is_better(task, options.best, "checkpoint.best");
  if (options.best_direction == Direction::automatic)
    options.best_direction = greater ? Direction::max : Direction::min;
}

/// Of each batch; 0: sums go over ranks. Throws InputError if the ranks cannot hold them.
std::int64_t shards_of(const TrainOptions& options, int ranks) {
  if (options.reduction == TrainOptions::Reduction::fast) return 0;
  static_cast<void>(ShardTree(options.shards).of_rank(0, ranks));
  return options.shards;
}

}  // namespace

Trainer::Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
                 std::vector<std::pair<std::string, std::string>> library_versions)
    : group_(expect_given("Trainer", "the process group", std::move(group))),
      task_(task),
      plan_(plan),
      library_versions_(std::move(library_versions)),
      batches_(task.data().train->size(), plan.train.batch_size, group_->size(),
               plan.train.drop_last, shards_of(plan.train, group_->size())),
      loader_(task.data().train,
              std::make_unique<TrainBatches>(
                  batches_, group_->rank(),
                  make_order(task.data(), plan.train.seed, task.loading().shuffle)),
              task.loading().prefetch, task.data().augmentation),
      early_stopping_(early_stopping_of(plan.train, task)),
      plateau_(plateau_of(plan, task)),
      stop_(*group_) {
  const Datasets& data = task.data();
  if (const auto& judging = judged_by(data))
    judge_.emplace(group_, task, judging, plan.eval.batch_size);
  if (data.validation && data.test) test_.emplace(group_, task, data.test, plan.eval.batch_size);
  choose_best(plan_.checkpoint, task);
  plan_.schedule = optim::fit_to_run(plan_.schedule, plan_.train.epochs, batches_.steps());
  plan_.ddp.shards = shards_of(plan_.train, group_->size());
  if (plan_.train.precision == Precision::fp16) {
    scaler_.emplace(
        optim::GradScalerOptions{.init_scale = plan_.train.loss_scale,
                                 .growth_interval = plan_.train.loss_scale_growth_steps});
  }
  if (!has_units_for(plan_.train.precision) && group_->rank() == 0) {
    log(LogLevel::warning,
        "this processor does not compute products of train.precision itself: operands are rounded "
        "and multiplied in f32, which is slower than train.precision = \"f32\"");
  }
  nn::manual_seed(plan_.train.seed);
  ddp_ = std::make_unique<DistributedDataParallel>(task_.make_model(), group_, plan_.ddp);
  optimizer_ = optim::make_optimizer(plan_.optimizer, model().trained_parameters());
  optimizer_->take_placements(model().state_dict());
  if (plan_.ddp.comm_hook == CommHookKind::post_local_sgd) {
    const LocalSgdOptions& local = plan_.ddp.local_sgd;
    averager_.emplace(ddp_->flat_values(), group_, local.period, local.start_step);
  }
  if (plan_.averaging.kind != AveragingOptions::Kind::none)
    averaging_.emplace(plan_.averaging, model());
  if (plan_.train.check_replicas_every > 0)
    replicas_ = make_replica_check(group_, model(), *optimizer_);
  state_.seed = static_cast<std::int64_t>(plan_.train.seed);
}

void Trainer::check(const Task& task, const RunPlan& plan, int ranks) {
  DdpOptions ddp = plan.ddp;
  ddp.shards = shards_of(plan.train, ranks);
  validate(ddp);
  if (plan.train.check_replicas_every > 0 && ddp.comm_hook == CommHookKind::post_local_sgd) {
    throw InputError(
        "train.check_replicas_every compares replicas that are meant to be equal; with "
        "ddp.comm_hook = \"post_local_sgd\" they are not. Set it to 0.");
  }
  const AveragingOptions& averaging = plan.averaging;
  if (averaging.kind != AveragingOptions::Kind::none) {
    if (ddp.comm_hook == CommHookKind::post_local_sgd) {
      throw InputError(
          "averaging.kind averages weights that all ranks have alike; with ddp.comm_hook = "
          "\"post_local_sgd\" each has its own. Use one of the two.");
    }
    if (averaging.start_epoch >= plan.train.epochs) {
      throw InputError(fmt::format(
          "averaging.start_epoch = {} leaves nothing to average of {} epochs (train.epochs). Use "
          "fewer, or averaging.kind = \"none\".",
          averaging.start_epoch, plan.train.epochs));
    }
  }
  if (plan.train.precision == Precision::fp16 && ddp.comm_hook == CommHookKind::post_local_sgd) {
    throw InputError(
        "train.precision = \"fp16\" leaves out steps whose gradients are not finite, on all ranks "
        "or "
        "none; with ddp.comm_hook = \"post_local_sgd\" each has its own. Use bf16 or f32.");
  }
  const BatchPlan batches(task.data().train->size(), plan.train.batch_size, ranks,
                          plan.train.drop_last, ddp.shards);
  if (const auto& judging = judged_by(task.data()))
    static_cast<void>(EvalPlan(judging->size(), plan.eval.batch_size, 1));
  static_cast<void>(early_stopping_of(plan.train, task));
  static_cast<void>(plateau_of(plan, task));
  CheckpointOptions checkpoint = plan.checkpoint;
  choose_best(checkpoint, task);
  const auto model = task.make_model();
  const auto optimizer = optim::make_optimizer(plan.optimizer, model->trained_parameters());
  const auto schedule = optim::fit_to_run(plan.schedule, plan.train.epochs, batches.steps());
  optim::apply_schedule(schedule, plan.optimizer.lr, 0, 0, *optimizer);
  expect_batches_normalise(task, plan, batches, *model);
}

void Trainer::start_epoch(std::int64_t epoch, std::int64_t first_step) {
  // A part that eval() froze stays so, as it does where evaluation changes modes and back.
  if (!model().is_training()) model().train();
  loader_.start_epoch(epoch, first_step);
}

Evaluation Trainer::evaluate(Evaluator& evaluator) {
  const Autocast autocast(plan_.train.precision);
  if (averager_) averager_->average_now();
  ddp_->broadcast_buffers();
  const WeightAveraging::InUse averages(averaging_);
  return evaluator(model());
}

Evaluation Trainer::evaluate() {
  if (!judge_) throw InputError("there is neither a validation nor a test set to evaluate on");
  return evaluate(*judge_);
}

void Trainer::average_after_epoch() {
  if (!averaging_) return;
  averaging_->after_epoch(state_.epoch);
  if (!averaging_->has_begun() || !averaging_->wants_update_bn()) return;
  const Autocast autocast(plan_.train.precision);
  // Each rank sends its share of each batch. With reduction = "invariant" all send all, in the same
  // batches on any number of ranks.
  const bool whole = plan_.ddp.shards > 0;
  const int rank = whole ? 0 : group_->rank();
  const BatchPlan batches(batches_.samples(), batches_.batch_size(), whole ? 1 : group_->size(),
                          plan_.train.drop_last);
  Loader loader(
      task_.data().train,
      std::make_unique<TrainBatches>(
          batches, rank, make_order(task_.data(), plan_.train.seed, task_.loading().shuffle)),
      task_.loading().prefetch, task_.data().augmentation);
  loader.start_epoch(state_.epoch);
  const bool all_go_forward = model().forward_is_collective();
  averaging_->update_bn(whole ? nullptr : group_.get(), [&] {
    if (!loader.has_next()) return false;
    const Share share = batches.share(loader.next_step(), rank);
    const nn::RandomContextGuard random(
        {plan_.train.seed, static_cast<std::uint32_t>(state_.step), share.first_in_batch});
    const Batch& batch = loader.next();
    if (share.size() > 0 || all_go_forward) static_cast<void>(task_.forward(model(), batch));
    return true;
  });
}

struct Trainer::Reporting {
  RunSaves& saves;
  RunLocalCopies& copies;
  MetricsFile& metrics;
  Console& console;
  const std::string& deck;
  StepTimes last_report;  ///< clock at the last "step" line
  StepTimes epoch_start;
  StepTimes first_step;  ///< of this process: it sets libraries up
  Outcome outcome;
};

Outcome Trainer::run(const RunFolder& folder, MetricsFile& metrics, Console& console,
                     const std::string& deck,
                     const std::optional<std::filesystem::path>& resumed_from) {
  RunSaves saves(*group_, plan_.checkpoint, folder.checkpoints(), plan_.group.timeout,
                 folder.expectation());
  const StateDict model_state = model().state_dict(), slots = optimizer_state();
  // First: who is killed after another branch was moved aside is not to find its copies.
  RunLocalCopies copies(*group_, plan_.checkpoint, folder.checkpoints(),
                        bytes_of_all_ranks(model_state) + bytes_of_all_ranks(slots));
  saves.begin(state_.step, resumed_from, model_state, slots);
  agree(*group_, [&] {
    if (group_->rank() == 0) folder.write_in([&] { metrics.begin(); });
  });
  Reporting reporting{saves, copies, metrics, console, deck, {}, {}, {}, {}};
  folder_ = &folder;
  if (group_->rank() == 0) peak_flops_ = product_speed(plan_.train.precision) * math_threads();
  ddp_->ask_along([this] { return own_reason_to_stop() != StopReason::none; });
  std::optional<RunTrace> trace;
  if (plan_.train.trace) trace.emplace(*group_, model());
  clock_.start();
  double training_wall = 0;
  StopReason stopped = StopReason::none;
  while (!is_over()) {
    reporting.epoch_start = reporting.last_report = clock_.totals();
    stopped = train_epoch(reporting);
    training_wall += (clock_.totals() - reporting.epoch_start).wall;
    if (stopped != StopReason::none) break;
    finish_epoch(reporting);
    const bool last = saves_checkpoints() && is_over();
    if (last || saves.is_due(state_)) save(saves, deck, last ? Due::last : Due::now);
    if (!last && copies.is_due(state_.step)) copy(copies, deck);
  }
  if (stopped == StopReason::none) test(reporting);
  folder_ = nullptr;
  agree(*group_, [&] { folder.expect_there(); });
  save_last(saves, deck, stopped != StopReason::none);
  copies.end();
  Outcome& outcome = reporting.outcome;
  if (trace) outcome.trace = write_trace(*trace, folder, stopped);  // last: it matters least
  if (stopped == StopReason::none && test_) {
    expect_finite("test", outcome.test->loss,
                  saves_checkpoints() ? "The weights themselves are finite, and saved."
                                      : "The weights themselves are finite.");
  }
  outcome.stopped = stopped;
  outcome.early_stopping = early_stopping_.is_over();
  outcome.checkpoint = saves.newest();
  outcome.epochs = state_.epoch;
  outcome.steps = state_.step;
  if (plan_.ddp.comm_hook != CommHookKind::all_reduce && ddp_->stats().traffic.replaced > 0) {
    outcome.comm_hook = {ddp_->comm_hook().name(), ddp_->stats().traffic};
  }
  StepTimes mine = clock_.totals();
  const double wall = all_reduce_scalar(*group_, training_wall, ReduceOp::max);
  outcome.samples_per_s = wall > 0 ? static_cast<double>(mine.samples) / wall : 0.0;
  mine.wall = training_wall;
  outcome.times = times_of_all(*group_, mine - reporting.first_step);
  return outcome;
}

std::optional<std::filesystem::path> Trainer::write_trace(RunTrace& trace, const RunFolder& folder,
                                                          StopReason stopped) const {
  const std::filesystem::path file = folder.file("trace/trace.json");
  try {
    trace.write(file);
    return file;
  } catch (const AgreedError& error) {
    if (stopped == StopReason::none) throw;
    // What was saved is to be gone on from: a scheduler looks at the exit code.
    if (group_->rank() == 0) log(LogLevel::error, error.what());
    return std::nullopt;
  }
}

StopReason Trainer::own_reason_to_stop() const {
  if (!folder_) return StopReason::none;
  return std::max(requested_stop(), folder_->stop_reason(seconds_since(step_start_)));
}

void Trainer::ask_whether_to_stop() {
  if (folder_) stop_.ask(own_reason_to_stop());
}

StopReason Trainer::train_epoch(Reporting& reporting) {
  start_epoch(state_.epoch, state_.position);
  step_start_ = Clock::now();
  ask_whether_to_stop();
  while (stop_.answer() == StopReason::none && loader_.has_next()) {
    const Share share = batches_.share(loader_.next_step(), group_->rank());
    state_.metrics.clear();
    const double sum = step();
    if (replicas_ && state_.step % plan_.train.check_replicas_every == 0) compare_replicas();
    double& first_step_s = reporting.outcome.first_step_s;
    if (std::isnan(first_step_s)) {
      first_step_s = seconds_since_process_start();
      reporting.first_step = clock_.totals();
    }
    if (state_.step % plan_.log.every_steps == 0) report_steps(reporting, sum, share);
    reporting.saves.look();
    if (!loader_.has_next()) continue;
    if (reporting.saves.is_due(state_)) save(reporting.saves, reporting.deck);
    if (reporting.copies.is_due(state_.step)) copy(reporting.copies, reporting.deck);
  }
  return stop_.answer();
}

double Trainer::add_times(MetricsRow& row, const StepTimes& mine) {
  const std::vector<StepTimes> ranks = times_of_all(*group_, mine);
  row.times = spread_over_ranks(ranks);
  row.has_times = true;
  row.slowest = slowest_rank(ranks);
  const double wall = spread_of(ranks, &StepTimes::wall).max;
  set_flops(row, ranks, wall, peak_flops_);
  return wall;
}

void Trainer::report_steps(Reporting& reporting, double step_loss, const Share& share) {
  const auto now = clock_.totals();
  const auto since = now - reporting.last_report;
  reporting.last_report = now;
  MetricsRow row{.kind = "step", .step = state_.step, .epoch = state_.epoch + 1};
  const double wall = add_times(row, since);
  row.loss =
      all_reduce_scalar(*group_, step_loss, ReduceOp::sum) / static_cast<double>(share.batch_size);
  row.lr = optimizer_->lr();
  row.grad_norm = grad_norm_;
  row.seconds = wall;
  set_speed(row, static_cast<double>(since.samples) / wall, task_);
  if (group_->rank() != 0) return;
  reporting.metrics.append(row);
  const std::int64_t total = plan_.train.epochs * steps_an_epoch();
  const double left = static_cast<double>(total - state_.step) *
                      static_cast<double>(share.batch_size) / row.samples_per_s;
  reporting.console.progress(fmt::format("epoch {}/{}  step {}/{}  loss {}  {}  {:.0f} s left",
                                         row.epoch, plan_.train.epochs, state_.step, total,
                                         in_figures(row.loss), speed_in_words(row), left));
}

void Trainer::finish_epoch(Reporting& reporting) {
  const auto epoch = clock_.totals() - reporting.epoch_start;
  MetricsRow row{.kind = "epoch", .step = state_.step, .epoch = state_.epoch + 1};
  const double wall = add_times(row, epoch);
  const auto samples = std::min(batches_.samples(), steps_an_epoch() * batches_.batch_size());
  row.loss = all_reduce_scalar(*group_, epoch_loss_, ReduceOp::sum) / static_cast<double>(samples);
  row.lr = optimizer_->lr();
  row.seconds = wall;
  set_speed(row, static_cast<double>(epoch.samples) / wall, task_);
  ++state_.epoch;
  state_.position = 0;
  epoch_loss_ = 0;
  average_after_epoch();

  const auto start = Clock::now();
  std::optional<Evaluation> found;
  if (judge_) found = evaluate();
  reporting.outcome.train_loss = row.loss;
  if (found) {
    (task_.data().validation ? reporting.outcome.validation : reporting.outcome.test) = found;
    state_.metrics = found->metrics;
    state_.metrics.emplace_back("loss", found->loss);
    const auto deciding = std::ranges::find(state_.metrics, plan_.train.early_stop_metric,
                                            &std::pair<std::string, double>::first);
    if (deciding != state_.metrics.end()) early_stopping_.see(deciding->second);
    if (plateau_) {
      plateau_->step(std::ranges::find(state_.metrics, plan_.schedule.metric,
                                       &std::pair<std::string, double>::first)
                         ->second);
    }
  }
  if (group_->rank() == 0) report_epoch(reporting, row, found, seconds_since(start));
  if (found) {
    expect_finite(judging_set(), found->loss,
                  "Nothing was saved of it: earlier checkpoints are as they were.");
  }
}

void Trainer::expect_finite(const char* set, double loss, const char* what_of_saves) const {
  if (std::isfinite(loss) || plan_.train.on_nan == TrainOptions::OnNan::ignore) return;
  throw AgreedError(fmt::format("the {} loss is {} after step {} (epoch {}){}. {} {}", set, loss,
                                state_.step, state_.epoch, culprit(model().state_dict()),
                                remedy_for_not_finite, what_of_saves),
                    ExitCode::failure);
}

void Trainer::report_epoch(Reporting& reporting, const MetricsRow& row,
                           const std::optional<Evaluation>& evaluation, double seconds) const {
  reporting.metrics.append(row);
  std::string found;
  if (evaluation) {
    reporting.metrics.append({.kind = "eval",
                              .step = row.step,
                              .epoch = row.epoch,
                              .loss = evaluation->loss,
                              .set = judging_set(),
                              .metrics = evaluation->metrics,
                              .seconds = seconds});
    found = in_words(judging_set(), *evaluation);
  }
  reporting.console.say(fmt::format("epoch {}/{}  train loss {}  {}{}", row.epoch,
                                    plan_.train.epochs, in_figures(row.loss), found,
                                    speed_in_words(row)));
  if (!early_stopping_.is_over()) return;
  reporting.console.say(
      fmt::format("early stopping: {} {} has not become better than {} for {} epochs "
                  "(train.early_stop_patience)",
                  judging_set(), plan_.train.early_stop_metric,
                  early_stopping_.best() ? in_figures(*early_stopping_.best()) : "nan",
                  early_stopping_.epochs_without()));
}

void Trainer::test(Reporting& reporting) {
  if (!test_) return;
  const auto start = Clock::now();
  const Evaluation found = evaluate(*test_);
  reporting.outcome.test = found;
  if (group_->rank() != 0) return;
  reporting.console.say(fmt::format("after epoch {}  {}", state_.epoch, in_words("test", found)));
  const bool known = std::ranges::any_of(reporting.metrics.rows(), [&](const MetricsRow& row) {
    return row.kind == "eval" && row.set == "test" && row.step == state_.step;
  });
  if (known) return;  // the run had nothing left to do
  reporting.metrics.append({.kind = "eval",
                            .step = state_.step,
                            .epoch = state_.epoch,
                            .loss = found.loss,
                            .metrics = found.metrics,
                            .seconds = seconds_since(start)});
}

}  // namespace lockstep::train
