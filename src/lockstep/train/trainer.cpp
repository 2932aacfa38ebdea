#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/metadata.hpp>
#include <lockstep/checkpoint/writer.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/train/agreement.hpp>
#include <lockstep/train/console.hpp>
#include <lockstep/train/metrics.hpp>
#include <lockstep/train/report.hpp>
#include <lockstep/train/run_folder.hpp>
#include <lockstep/train/stop_request.hpp>

namespace lockstep::train {
namespace {

std::string loss_name(int rank) { return "loss." + std::to_string(rank); }

std::int64_t count_of(const TrainState& state, const std::string& name) {
  const auto at = std::ranges::find(state.counts, name, [](const auto& c) { return c.first; });
  return at == state.counts.end() ? -1 : at->second;
}

double combined(double a, double b, ReduceOp op) {
  if (op == ReduceOp::sum) return a + b;
  if (std::isnan(a) || std::isnan(b)) return std::nan("");  // std::max would lose one of them
  return op == ReduceOp::max ? std::max(a, b) : std::min(a, b);
}

/// "test accuracy 0.8312  "
std::string in_words(const NamedFigures& metrics) {
  std::string text;
  for (const auto& [name, value] : metrics)
    text += fmt::format("test {} {}  ", name, in_figures(value));
  return text;
}

}  // namespace

Trainer::Trainer(std::shared_ptr<ProcessGroup> group, const Task& task, const RunPlan& plan,
                 std::vector<std::pair<std::string, std::string>> library_versions)
    : group_(std::move(group)),
      task_(task),
      plan_(plan),
      library_versions_(std::move(library_versions)),
      batches_(task.data().train->size(), plan.train.batch_size, group_->size(),
               plan.train.drop_last),
      eval_batches_(task.data().test->size(), plan.eval.batch_size, group_->size()),
      loader_(task.data().train,
              std::make_unique<TrainBatches>(batches_, group_->rank(), plan.train.seed,
                                             task.loading().shuffle),
              task.loading().prefetch, task.data().augmentation),
      eval_loader_(task.data().test, std::make_unique<EvalBatches>(eval_batches_, group_->rank()),
                   task.loading().prefetch) {
  plan_.schedule = optim::fit_to_run(plan_.schedule, plan_.train.epochs, batches_.steps());
  nn::manual_seed(plan_.train.seed);
  ddp_ = std::make_unique<DistributedDataParallel>(task_.make_model(), group_, plan_.ddp);
  optimizer_ = optim::make_optimizer(plan_.optimizer, model().named_parameters());
  state_.seed = static_cast<std::int64_t>(plan_.train.seed);
}

void Trainer::check(const Task& task, const RunPlan& plan) {
  const BatchPlan batches(task.data().train->size(), plan.train.batch_size, 1,
                          plan.train.drop_last);
  const EvalPlan eval(task.data().test->size(), plan.eval.batch_size, 1);
  const auto optimizer =
      optim::make_optimizer(plan.optimizer, task.make_model()->named_parameters());
  const auto schedule = optim::fit_to_run(plan.schedule, plan.train.epochs, batches.steps());
  optim::apply_schedule(schedule, plan.optimizer.lr, 0, 0, *optimizer);
}

void Trainer::restore(const CheckpointContents& checkpoint) {
  const TrainState& saved = checkpoint.train;
  const auto contradiction = [](const char* key, std::int64_t now, std::int64_t then) {
    throw InputError(fmt::format(
        "the deck says {} = {}, but the checkpoint was written with {}, so the run cannot go "
        "on where it stopped. Use --set {}={}, or start a new run without --resume.",
        key, now, then, key, then));
  };
  if (saved.seed != state_.seed) contradiction("train.seed", state_.seed, saved.seed);
  if (saved.position > 0) {
    const std::int64_t batch_size = count_of(saved, "batch_size");
    if (batch_size != plan_.train.batch_size)
      contradiction("train.batch_size", plan_.train.batch_size, batch_size);
    const std::int64_t samples = count_of(saved, "samples");
    if (samples != batches_.samples()) {
      throw InputError(fmt::format(
          "the checkpoint was written in the middle of an epoch of {} samples, but the data set "
          "now has {}. Use the same data, or a checkpoint from the end of an epoch.",
          samples, batches_.samples()));
    }
  }
  try {
    model().load_state_dict(checkpoint.model);
    optimizer_->load_state_dict(checkpoint.optimizer);
  } catch (const Error& error) {
    throw CheckpointError(fmt::format(
        "the checkpoint is of another model or optimizer than the deck's: {}", error.what()));
  }
  state_ = saved;
  epoch_loss_ = 0;
  const auto ranks_then = static_cast<std::int64_t>(saved.sums.size());
  for (const auto& [name, sum] : saved.sums) {
    if (ranks_then == group_->size() ? name == loss_name(group_->rank()) : group_->rank() == 0)
      epoch_loss_ += sum;
  }
}

void Trainer::start_epoch(std::int64_t epoch, std::int64_t first_step) {
  model().train();
  loader_.start_epoch(epoch, first_step);
}

double Trainer::step() {
  const auto start = Clock::now();
  const double data_before = loader_.seconds_waited(), communication_before = ddp_->wait_seconds(),
               work_before = ddp_->work_seconds();

  const Share share = batches_.share(loader_.next_step(), group_->rank());
  const Batch& batch = loader_.next();
  const nn::RandomContextGuard random(
      {plan_.train.seed, static_cast<std::uint32_t>(state_.step), share.first_in_batch});
  optim::apply_schedule(plan_.schedule, plan_.optimizer.lr, state_.epoch, state_.step, *optimizer_);

  optimizer_->zero_grad();
  Variable loss;
  if (batch.size() > 0) loss = task_.loss(ddp_->forward(Variable(batch.inputs())), batch);
  ddp_->backward(loss, static_cast<double>(share.size()) / static_cast<double>(share.batch_size));
  grad_norm_ = optim::clip_gradients(plan_.optimizer, optimizer_->parameters());
  optimizer_->step();

  const double mean = loss.defined() ? loss.data().item() : 0.0;
  if (!std::isfinite(mean) && plan_.train.on_nan == TrainOptions::OnNan::stop) {
    throw NonFiniteLoss(fmt::format(
        "the loss is {} at step {} (epoch {}). Lower optimizer.lr, look at the data, or go on "
        "regardless with --set 'train.on_nan=\"ignore\"'. The last checkpoint is from before.",
        mean, state_.step + 1, state_.epoch + 1));
  }
  ++state_.step;
  ++state_.position;
  const double sum = mean * static_cast<double>(share.size());
  epoch_loss_ += sum;
  clock_.add_step(seconds_since(start),
                  {.communication = ddp_->wait_seconds() - communication_before,
                   .data = loader_.seconds_waited() - data_before,
                   .communication_work = ddp_->work_seconds() - work_before,
                   .samples = share.batch_size});
  return sum;
}

Trainer::Evaluation Trainer::evaluate() {
  const NoGradGuard no_grad;
  ddp_->broadcast_buffers();
  model().eval();
  // Loss and figures of each batch stand in a row of their own, so that the sum over ranks adds
  // zeros only, and the batches are combined in one order.
  const std::vector<Metric> metrics = task_.metrics();
  const std::size_t width = 1 + metrics.size();
  std::vector<double> rows(static_cast<std::size_t>(eval_batches_.batches()) * width);
  eval_loader_.start_epoch(0);
  while (eval_loader_.has_next()) {
    const auto number =
        static_cast<std::size_t>(eval_batches_.batch_of(group_->rank(), eval_loader_.next_step()));
    const auto row = std::span(rows).subspan(number * width, width);
    const Batch& batch = eval_loader_.next();
    const Variable output = model().forward(Variable(batch.inputs()));
    row[0] = task_.loss(output, batch).data().item() * static_cast<double>(batch.size());
    task_.measure(output.data(), batch, row.subspan(1));
  }
  model().train();
  const Tensor all_rows = Tensor::from(rows, {std::ssize(rows)});
  group_->all_reduce(all_rows, ReduceOp::sum).wait();
  rows = all_rows.to_vector<double>();
  const auto over_batches = [&](std::size_t column, ReduceOp op) {
    double total = rows[column];
    for (std::size_t at = column + width; at < rows.size(); at += width)
      total = combined(total, rows[at], op);
    return total;
  };
  Evaluation result;
  result.loss = over_batches(0, ReduceOp::sum) / static_cast<double>(task_.data().test->size());
  for (std::size_t m = 0; m < metrics.size(); ++m) {
    result.metrics.emplace_back(metrics[m].name,
                                metrics[m].value(over_batches(1 + m, metrics[m].combine)));
  }
  return result;
}

CheckpointContents Trainer::contents(const std::string& deck) {
  CheckpointContents contents{model().state_dict(), optimizer_->state_dict(), state_, deck,
                              library_versions_};
  const Tensor sums = Tensor::empty({group_->size(), 1}, DType::f64);
  group_->all_gather(Tensor::from(std::vector<double>{epoch_loss_}, {1}), sums).wait();
  contents.train.sums.clear();
  int rank = 0;
  for (const double sum : sums.to_vector<double>())
    contents.train.sums.emplace_back(loss_name(rank++), sum);
  contents.train.counts = {{"batch_size", plan_.train.batch_size}, {"samples", batches_.samples()}};
  return contents;
}

bool Trainer::save(const RunFolder& folder, const std::string& deck) {
  const auto path = checkpoint_path(folder.checkpoints(), state_.step);
  ddp_->broadcast_buffers();  // every rank writes its part of the state
  try {
    const SaveReport report = CheckpointWriter().save(*group_, path, contents(deck));
    log(LogLevel::debug,
        fmt::format("saved {} ({:.1f} MB in {:.0f} ms)", path.string(),
                    static_cast<double>(report.bytes) / 1e6, report.seconds * 1e3));
  } catch (const CheckpointError& error) {
    last_save_failure_ = error.what();
    if (group_->rank() == 0) log(LogLevel::error, fmt::format("{} The run goes on.", error.what()));
    return false;
  }
  last_save_failure_.clear();
  if (group_->rank() == 0) prune_checkpoints(folder.checkpoints(), plan_.checkpoint.keep);
  return true;
}

struct Trainer::Reporting {
  const RunFolder& folder;
  MetricsFile& metrics;
  Console& console;
  const std::string& deck;
  StepClock::Totals last_report;  ///< clock at the last "step" line
  StepClock::Totals epoch_start;
  Outcome outcome;
};

Outcome Trainer::run(const RunFolder& folder, MetricsFile& metrics, Console& console,
                     const std::string& deck) {
  const StopRequest stop_request;
  Reporting reporting{folder, metrics, console, deck, {}, {}, {}};
  const bool checkpoints_wanted =
      plan_.checkpoint.every_epochs > 0 || plan_.checkpoint.every_steps > 0;
  clock_.start();
  StepClock::Totals training{};
  bool stopped = false;
  while (!stopped && state_.epoch < plan_.train.epochs) {
    reporting.epoch_start = reporting.last_report = clock_.totals();
    stopped = train_epoch(reporting);
    const auto epoch = clock_.totals() - reporting.epoch_start;
    training.wall += epoch.wall;
    training.samples += epoch.samples;
    if (stopped) break;
    finish_epoch(reporting);
    if (checkpoint_is_due(plan_.checkpoint, state_) ||
        (checkpoints_wanted && state_.epoch == plan_.train.epochs)) {
      save(folder, deck);
    }
  }
  if (stopped && !save(folder, deck)) {
    throw AgreedError(
        "stopped on request, but the checkpoint could not be saved: " + last_save_failure_,
        ExitCode::checkpoint);
  }
  if (!last_save_failure_.empty()) {
    throw AgreedError("the final checkpoint could not be saved: " + last_save_failure_,
                      ExitCode::checkpoint);
  }
  Outcome& outcome = reporting.outcome;
  outcome.stopped_early = stopped;
  outcome.epochs = state_.epoch;
  outcome.steps = state_.step;
  const double wall = all_reduce_scalar(*group_, training.wall, ReduceOp::max);
  outcome.samples_per_s = wall > 0 ? static_cast<double>(training.samples) / wall : 0.0;
  return outcome;
}

bool Trainer::train_epoch(Reporting& reporting) {
  start_epoch(state_.epoch, state_.position);
  while (loader_.has_next()) {
    const Share share = batches_.share(loader_.next_step(), group_->rank());
    const double sum = step();
    const bool last = !loader_.has_next();
    if (state_.step % plan_.log.every_steps == 0) {
      report_steps(reporting, sum, share);
      // Signals reach the ranks at different moments: agree, at a step that all of them report.
      const double stop = StopRequest::received() ? 1.0 : 0.0;
      if (all_reduce_scalar(*group_, stop, ReduceOp::max) > 0.0 && !last) return true;
    }
    if (!last && checkpoint_is_due(plan_.checkpoint, state_))
      save(reporting.folder, reporting.deck);
  }
  return false;
}

void Trainer::report_steps(Reporting& reporting, double step_loss, const Share& share) {
  const auto now = clock_.totals();
  const auto since = now - reporting.last_report;
  reporting.last_report = now;
  MetricsRow row{.kind = "step", .step = state_.step, .epoch = state_.epoch + 1};
  double wall = 0;
  row.times = spread_over_ranks(*group_, since, wall);
  row.has_times = true;
  row.loss =
      all_reduce_scalar(*group_, step_loss, ReduceOp::sum) / static_cast<double>(share.batch_size);
  row.lr = optimizer_->lr();
  row.grad_norm = grad_norm_;
  row.seconds = wall;
  row.samples_per_s = static_cast<double>(since.samples) / wall;
  if (group_->rank() != 0) return;
  reporting.metrics.append(row);
  const std::int64_t total = plan_.train.epochs * steps_an_epoch();
  const double left = static_cast<double>(total - state_.step) *
                      static_cast<double>(share.batch_size) / row.samples_per_s;
  reporting.console.progress(fmt::format(
      "epoch {}/{}  step {}/{}  loss {}  {:.0f} samples/s  {:.0f} s left", row.epoch,
      plan_.train.epochs, state_.step, total, in_figures(row.loss), row.samples_per_s, left));
}

void Trainer::finish_epoch(Reporting& reporting) {
  const auto epoch = clock_.totals() - reporting.epoch_start;
  MetricsRow row{.kind = "epoch", .step = state_.step, .epoch = state_.epoch + 1};
  double wall = 0;
  row.times = spread_over_ranks(*group_, epoch, wall);
  row.has_times = true;
  const auto samples = std::min(batches_.samples(), steps_an_epoch() * batches_.batch_size());
  row.loss = all_reduce_scalar(*group_, epoch_loss_, ReduceOp::sum) / static_cast<double>(samples);
  row.lr = optimizer_->lr();
  row.seconds = wall;
  row.samples_per_s = static_cast<double>(epoch.samples) / wall;
  ++state_.epoch;
  state_.position = 0;
  epoch_loss_ = 0;

  const auto start = Clock::now();
  const Evaluation evaluation = evaluate();
  reporting.outcome.train_loss = row.loss;
  reporting.outcome.test_loss = evaluation.loss;
  reporting.outcome.test_metrics = evaluation.metrics;
  if (group_->rank() != 0) return;
  reporting.metrics.append(row);
  reporting.metrics.append({.kind = "eval",
                            .step = row.step,
                            .epoch = row.epoch,
                            .loss = evaluation.loss,
                            .metrics = evaluation.metrics,
                            .seconds = seconds_since(start)});
  reporting.console.say(fmt::format("epoch {}/{}  train loss {}  test loss {}  {}{:.0f} samples/s",
                                    row.epoch, plan_.train.epochs, in_figures(row.loss),
                                    in_figures(evaluation.loss), in_words(evaluation.metrics),
                                    row.samples_per_s));
}

}  // namespace lockstep::train
