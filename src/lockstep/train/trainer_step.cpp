#include <lockstep/train/trainer.hpp>

#include <functional>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/train/parameter_update.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/step_graph.hpp>
#include <lockstep/train/strategy/strategy.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
void Trainer::backward(const Share& part, const Batch& samples, StepWork& work, StepResult& step) {
  const bool all_go_forward = strategy_->all_go_forward();
  const Tensor loss_scale = update_->loss_scale();
  // Slices of one sequence draw other numbers.
  const std::int64_t first_draw =
      part.first_in_batch + (ranks_.sequence ? ranks_.sequence->rank() * part.batch_size : 0);
  for (std::int64_t i = 0; i < plan_->train.accumulate; ++i) {
    const Range rows = part_of(part.size(), plan_->train.accumulate, i);
    const bool is_last = i + 1 == plan_->train.accumulate;
    if (rows.size() == 0 && !is_last && !all_go_forward) continue;
    const Batch batch = ranks_.own_slice(samples.slice(rows.begin, rows.end));
    const double weight = static_cast<double>(rows.size()) /
                          static_cast<double>(part.batch_size * ranks_.sequence_parts());
    const nn::RandomContext random{plan_->train.seed, static_cast<std::uint32_t>(state_.step),
                                   first_draw + rows.begin};
    const Tensor mean = strategy_->run({.batch = batch,
                                        .random = random,
                                        .weight = weight,
                                        .loss_scale = loss_scale,
                                        .is_last = is_last,
                                        .spans = spans_of_phases(),
                                        .times = step.times});
    if (mean.defined()) work.losses.push_back({mean, rows.size()});
  }
}

void Trainer::compute(std::int64_t number, const Batch& batch, StepWork& work, StepResult& step) {
  const double flops = step.times.flops, nominal_flops = step.times.nominal_flops;
  const Share share = batches_.share(number, ranks_.batch->rank());
  work.clear();
  strategy_->zero_grad();
  const auto run_shard = [&](std::int64_t shard) {
    // Without shards this rank has one, whose number counts the ranks of a sequence, too.
    const Share part = plan_->ddp.shards > 0 ? batches_.shard(number, shard) : share;
    const std::int64_t row = part.first_in_batch - share.first_in_batch;
    backward(part, batch.slice(row, row + part.size()), work, step);
  };
  strategy_->for_each_shard(std::cref(run_shard));  // allocates nothing
  if (!DeviceGraph::capturing() && strategy_->any_said_yes()) ask_whether_to_stop();
  const StepClock::Phase phase(step.times.optimizer, "optimizer");
  const DeviceSpans::Span span(spans_of_phases(), "optimizer");
  work.update = (*update_)(training_);
  work.flops = step.times.flops - flops;
  work.nominal_flops = step.times.nominal_flops - nominal_flops;
}

const StepWork& Trainer::replay(const Batch& batch, StepResult& step) {
  const StepClock::Phase phase(step.times.forward, "graph");
  const DeviceSpans::Span span(figures_.spans(), "graph");
  const StepWork& work = graph_->replay(batch);
  step.times.flops += work.flops;
  step.times.nominal_flops += work.nominal_flops;
  if (own_reason_to_stop() != StopReason::none) ask_whether_to_stop();  // this is the only rank
  return work;
}

DeviceSpans* Trainer::spans_of_phases() {
  return DeviceGraph::capturing() ? nullptr : figures_.spans();
}

void Trainer::read_figures(StepResult& step, std::int64_t left) {
  if (left == 0 && figures_.waiting() > 0) expect_right_indices(plan_->device);
  while (figures_.waiting() > left) {
    const StepFigures::Taken taken = figures_.take();
    step.loss_sum = taken.sum / ranks_.sequence_parts();
    step.loss_step = taken.step;
    step.grad_norm = taken.grad_norm;
    epoch_loss_ += step.loss_sum;
    if (taken.is_left_out && ranks_.all->rank() == 0)
      update_->tell_left_out(taken.step, taken.loss_scale);
    if (!taken.not_finite || step.not_finite) continue;
    expect_right_indices(plan_->device);  // which may be the reason
    step.not_finite = taken.not_finite;
    step.not_finite_step = taken.step;
  }
}

StepResult Trainer::take_step(bool reads_loss) {
  const auto start = Clock::now();
  step_start_ = start;
  const TraceScope scope("step", "step", nullptr, state_.step + 1);
  const Autocast autocast(plan_->train.precision);
  const LayoutGuard layout(plan_->run.layout);
  const double data_before = loader_->seconds_waited();
  const GradientSumStats before = strategy_->stats();
  StepResult step = std::exchange(unseen_, {});

  const std::int64_t number = loader_->next_step();
  const Share share = batches_.share(number, ranks_.batch->rank());
  const Batch& batch = loader_->next();
  for (const auto& part : parts_) part->before_step(training_);

  // Of replays, also of the first one; plain passes have contexts of their own.
  const nn::RandomContextGuard random(
      {plan_->train.seed, static_cast<std::uint32_t>(state_.step), 0});
  const auto plainly = [&](const Batch& input, StepWork& work) {
    compute(number, input, work, step);
  };
  const StepWork& work = graph_->replays(batch)
                             ? replay(batch, step)
                             : graph_->run(batch, state_.step + 1, std::cref(plainly));
  for (const auto& [mean, rows] : work.losses) figures_.add(mean, rows);
  figures_.set_update(work.update);
  ++state_.step;
  ++state_.position;
  for (const auto& part : parts_) part->after_update(training_, step);
  if (step.ranks_met) ask_whether_to_stop();

  const GradientSumStats now = strategy_->stats();
  if (now.loss_of_batch.defined())
    figures_.set_whole(now.loss_of_batch, ranks_.data->rank() == 0 ? share.batch_size : 0);
  figures_.end_step(state_.step);
  const bool is_wanted = reads_loss || plan_->device == Device{} ||
                         state_.step % plan_->log.every_steps == 0 || !loader_->has_next();
  read_figures(step, is_wanted ? 0 : 1);
  step.times.communication += now.wait_s - before.wait_s;
  step.times.communication_work = now.work_s - before.work_s;
  step.times.communication_late = now.straggler_s - before.straggler_s;
  step.times.data = loader_->seconds_waited() - data_before;
  step.times.samples = share.batch_size;
  clock_.add_step(seconds_since(start), step.times);
  for (const auto& part : parts_) part->after_step(training_, step);
  return step;
}

}  // namespace lockstep::train
