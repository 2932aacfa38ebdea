#include <lockstep/train/report/run_report.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/math/product_speed.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/report.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

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

/// FLOP/s of `ranks` together, and their share of the peak of as many cores. The share is left out
/// where fused layers skip some of the counted operations: it could exceed 1.
void set_flops(MetricsRow& row, std::span<const StepTimes> ranks, double wall, double peak) {
  double flops = 0, nominal = 0;
  for (const StepTimes& times : ranks) {
    flops += times.flops;
    nominal += times.nominal_flops;
  }
  if (flops == 0) return;
  row.flops_per_s = flops / wall;
  if (peak > 0 && nominal == 0)
    row.of_peak = row.flops_per_s / (peak * static_cast<double>(ranks.size()));
}

std::string speed_in_words(const MetricsRow& row) {
  std::string text = row.tokens_per_s >= 0 ? fmt::format("{:.0f} tokens/s", row.tokens_per_s)
                                           : fmt::format("{:.0f} samples/s", row.samples_per_s);
  if (row.of_peak >= 0)
    text +=
        fmt::format("  {:.3g} GFLOP/s, {:.0f} % of peak", row.flops_per_s / 1e9, row.of_peak * 1e2);
  return text;
}

}  // namespace

RunReport::RunReport(const Training& training, const TrainingParts& parts, StepClock& clock,
                     MetricsFile& metrics, Console& console)
    : training_(training), parts_(parts), clock_(clock), metrics_(metrics), console_(console) {
  if (training.group->rank() == 0 && training.plan.device == Device{})
    peak_flops_ = product_speed(training.plan.train.precision) * math_threads();
}

void RunReport::write(const MetricsRow& row) {
  metrics_.append(row);
  for (const auto& part : parts_) part->reported(training_, row);
}

void RunReport::note(const StepTimes& mine) const {
  if (!training_.plan.log.ranks) return;
  console_.note(fmt::format(
      "step {}: in {} steps {:.1f} ms, of them forward {:.1f}, backward {:.1f}, optimizer {:.1f}, "
      "waiting for gradients {:.1f} (late ranks {:.1f}), for data {:.1f}",
      training_.state.step, mine.steps, mine.wall * 1e3, mine.forward * 1e3, mine.backward * 1e3,
      mine.optimizer * 1e3, mine.communication * 1e3, mine.communication_late * 1e3,
      mine.data * 1e3));
}

double RunReport::add_times(MetricsRow& row, const StepTimes& mine) const {
  const std::vector<StepTimes> ranks = times_of_all(*training_.group, mine);
  row.times = spread_over_ranks(ranks);
  row.has_times = true;
  row.slowest = slowest_rank(ranks);
  const double wall = spread_of(ranks, &StepTimes::wall).max;
  set_flops(row, ranks, wall, peak_flops_);
  return wall;
}

void RunReport::start_epoch() { epoch_start_ = last_row_ = clock_.totals(); }

void RunReport::step(const StepResult& step) {
  if (std::isnan(outcome_.first_step_s)) {
    outcome_.first_step_s = seconds_since_process_start();
    first_step_ = clock_.totals();
  }
  const TrainState& state = training_.state;
  const RunPlan& plan = training_.plan;
  if (state.step % plan.log.every_steps != 0) return;
  const auto now = clock_.totals();
  const auto since = now - last_row_;
  last_row_ = now;
  note(since);
  const std::int64_t total = plan.train.epochs * training_.batches.steps();
  MetricsRow row{
      .kind = "step", .step = state.step, .epoch = state.epoch + 1, .total_steps = total};
  const double wall = add_times(row, since);
  const auto batch = static_cast<double>(step.times.samples);
  row.loss = all_reduce_scalar(*training_.data_group, step.loss_sum, ReduceOp::sum) / batch;
  row.lr = training_.optimizer.lr();
  row.grad_norm = step.grad_norm;
  row.seconds = wall;
  set_speed(row, static_cast<double>(since.samples) / wall, training_.task);
  if (training_.group->rank() != 0) return;
  write(row);
  const double left = static_cast<double>(total - state.step) * batch / row.samples_per_s;
  console_.progress(fmt::format("epoch {}/{}  step {}/{}  loss {}  {}  {:.0f} s left", row.epoch,
                                plan.train.epochs, state.step, total, in_figures(row.loss),
                                speed_in_words(row), left));
}

MetricsRow RunReport::epoch(double loss_sum) {
  const TrainState& state = training_.state;
  const BatchPlan& batches = training_.batches;
  const auto epoch = clock_.totals() - epoch_start_;
  MetricsRow row{.kind = "epoch", .step = state.step, .epoch = state.epoch + 1};
  const double wall = add_times(row, epoch);
  const auto samples = std::min(batches.samples(), batches.steps() * batches.batch_size());
  row.loss = all_reduce_scalar(*training_.data_group, loss_sum, ReduceOp::sum) /
             static_cast<double>(samples);
  row.lr = training_.optimizer.lr();
  row.seconds = wall;
  set_speed(row, static_cast<double>(epoch.samples) / wall, training_.task);
  outcome_.train_loss = row.loss;
  return row;
}

void RunReport::epoch_finished(const MetricsRow& row, const std::optional<Evaluation>& found,
                               double seconds) {
  const Datasets& data = training_.task.data();
  const char* set = judging_set(data);
  if (found) (data.validation ? outcome_.validation : outcome_.test) = found;
  if (training_.group->rank() != 0) return;
  write(row);
  if (found) {
    write({.kind = "eval",
           .step = row.step,
           .epoch = row.epoch,
           .loss = found->loss,
           .set = set,
           .metrics = found->metrics,
           .seconds = seconds});
  }
  console_.say(fmt::format("epoch {}/{}  train loss {}  {}{}", row.epoch,
                           training_.plan.train.epochs, in_figures(row.loss),
                           found ? in_words(set, *found) : "", speed_in_words(row)));
}

void RunReport::evaluated(const char* set, const Evaluation& found, double seconds) {
  (std::string_view(set) == "test" ? outcome_.test : outcome_.validation) = found;
  if (training_.group->rank() != 0) return;
  const TrainState& state = training_.state;
  const std::string when = state.position == 0 ? fmt::format("epoch {}", state.epoch)
                                               : fmt::format("step {}", state.step);
  console_.say(fmt::format("after {}  {}", when, in_words(set, found)));
  const bool known = std::ranges::any_of(metrics_.rows(), [&](const MetricsRow& row) {
    return row.kind == "eval" && row.set == set && row.step == state.step;
  });
  if (known) return;  // the run had nothing left to do
  write({.kind = "eval",
         .step = state.step,
         .epoch = state.epoch,
         .loss = found.loss,
         .set = set,
         .metrics = found.metrics,
         .seconds = seconds});
}

void RunReport::finish(double training_wall) {
  ProcessGroup& group = *training_.group;
  const DistributedDataParallel* ddp = training_.strategy.ddp();
  outcome_.epochs = training_.state.epoch;
  outcome_.steps = training_.state.step;
  if (ddp && training_.plan.ddp.comm_hook != CommHookKind::all_reduce &&
      ddp->stats().traffic.replaced > 0)
    outcome_.comm_hook = {ddp->comm_hook().name(), ddp->stats().traffic};
  StepTimes mine = clock_.totals();
  const double wall = all_reduce_scalar(group, training_wall, ReduceOp::max);
  outcome_.samples_per_s = wall > 0 ? static_cast<double>(mine.samples) / wall : 0.0;
  mine.wall = training_wall;
  outcome_.times = times_of_all(group, mine - first_step_);
}

}  // namespace lockstep::train
