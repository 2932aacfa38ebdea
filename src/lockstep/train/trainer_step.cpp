#include <lockstep/train/trainer.hpp>

#include <optional>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/train/parameter_update.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

/// A phase of a step, without the wait for gradients.
class OwnTime {
 public:
  OwnTime(const DistributedDataParallel& ddp, double& total, const char* name)
      : ddp_(ddp), total_(total), waited_before_(waited()), phase_(total, name) {}
  ~OwnTime() { total_ -= waited() - waited_before_; }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  [[nodiscard]] double waited() const { return ddp_.stats().wait_s; }

  const DistributedDataParallel& ddp_;
  double& total_;
  double waited_before_;
  StepClock::Phase phase_;
};

}  // namespace

void Trainer::backward(const Share& part, const Batch& samples, StepResult& step) {
  const bool all_go_forward = model().forward_is_collective();
  const Tensor loss_scale = update_->loss_scale();
  // Slices of one sequence draw other numbers.
  const std::int64_t first_draw =
      part.first_in_batch + (ranks_.sequence ? ranks_.sequence->rank() * part.batch_size : 0);
  for (std::int64_t i = 0; i < plan_->train.accumulate; ++i) {
    const Range rows = part_of(part.size(), plan_->train.accumulate, i);
    const bool last = i + 1 == plan_->train.accumulate;
    if (rows.size() == 0 && !last && !all_go_forward) continue;
    const nn::RandomContextGuard random(
        {plan_->train.seed, static_cast<std::uint32_t>(state_.step), first_draw + rows.begin});
    const Batch batch = ranks_.own_slice(samples.slice(rows.begin, rows.end));
    Variable loss;
    if (rows.size() > 0 || all_go_forward) {
      const OwnTime own(*ddp_, step.times.forward, "forward");
      const DeviceSpans::Span span(figures_.spans(), "forward");
      const FlopCounter counter;
      const Variable output = ddp_->forward([&](nn::Module& m) { return task_.forward(m, batch); });
      loss = rows.size() > 0 ? task_.loss(output, batch) : sum(output);
      step.times.flops += 3.0 * static_cast<double>(counter.flops());
      step.times.nominal_flops += 3.0 * static_cast<double>(counter.nominal_flops());
    }
    if (rows.size() > 0) figures_.add(loss.data(), rows.size());
    std::optional<DistributedDataParallel::NoSync> local;
    if (!last) local.emplace(*ddp_);
    const OwnTime own(*ddp_, step.times.backward, "backward");
    const DeviceSpans::Span span(figures_.spans(), "backward");
    const double weight = static_cast<double>(rows.size()) /
                          static_cast<double>(part.batch_size * ranks_.sequence_parts());
    ddp_->backward(loss, weight, loss_scale);
  }
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

bool Trainer::is_asked_to_stop() {
  const bool data_ranks_say_yes = ddp_->any_said_yes();
  if (!ranks_.tensor) return data_ranks_say_yes;
  return all_reduce_scalar(*ranks_.tensor, data_ranks_say_yes ? 1.0 : 0.0, ReduceOp::max) > 0.0;
}

StepResult Trainer::take_step(bool reads_loss) {
  const auto start = Clock::now();
  step_start_ = start;
  const TraceScope scope("step", "step", nullptr, state_.step + 1);
  const Autocast autocast(plan_->train.precision);
  const LayoutGuard layout(plan_->run.layout);
  const double data_before = loader_->seconds_waited(), waited_before = ddp_->stats().wait_s,
               work_before = ddp_->stats().work_s, late_before = ddp_->stats().straggler_s;
  StepResult step = std::exchange(unseen_, {});

  const std::int64_t number = loader_->next_step();
  const Share share = batches_.share(number, ranks_.batch->rank());
  const Batch& batch = loader_->next();
  for (const auto& part : parts_) part->before_step(training_);

  ddp_->zero_grad();
  ddp_->for_each_shard([&](std::int64_t shard) {
    // Without shards this rank has one, whose number counts the ranks of a sequence, too.
    const Share part = plan_->ddp.shards > 0 ? batches_.shard(number, shard) : share;
    const std::int64_t row = part.first_in_batch - share.first_in_batch;
    backward(part, batch.slice(row, row + part.size()), step);
  });
  if (is_asked_to_stop()) ask_whether_to_stop();
  {
    const StepClock::Phase phase(step.times.optimizer, "optimizer");
    const DeviceSpans::Span span(figures_.spans(), "optimizer");
    figures_.set_update((*update_)(training_, zero_.get()));
  }
  ++state_.step;
  ++state_.position;
  for (const auto& part : parts_) part->after_update(training_, step);
  if (step.ranks_met) ask_whether_to_stop();

  const Tensor loss_of_batch = ddp_->stats().loss_of_batch;
  if (loss_of_batch.defined())
    figures_.set_whole(loss_of_batch, ranks_.data->rank() == 0 ? share.batch_size : 0);
  figures_.end_step(state_.step);
  const bool is_wanted = reads_loss || plan_->device == Device{} ||
                         state_.step % plan_->log.every_steps == 0 || !loader_->has_next();
  read_figures(step, is_wanted ? 0 : 1);
  step.times.communication += ddp_->stats().wait_s - waited_before;
  step.times.communication_work = ddp_->stats().work_s - work_before;
  step.times.communication_late = ddp_->stats().straggler_s - late_before;
  step.times.data = loader_->seconds_waited() - data_before;
  step.times.samples = share.batch_size;
  clock_.add_step(seconds_since(start), step.times);
  for (const auto& part : parts_) part->after_step(training_, step);
  return step;
}

}  // namespace lockstep::train
