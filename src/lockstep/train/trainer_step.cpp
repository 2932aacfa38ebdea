#include <lockstep/train/trainer.hpp>

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/train/agreement.hpp>

namespace lockstep::train {
namespace {

/// A phase of a step without what it waits for: gradients, and other shards' turns.
class OwnTime {
 public:
  OwnTime(const DistributedDataParallel& ddp, double& total, const char* name)
      : ddp_(ddp), total_(total), waited_before_(waited()), phase_(total, name) {}
  ~OwnTime() { total_ -= waited() - waited_before_; }
  OwnTime(const OwnTime&) = delete;
  OwnTime& operator=(const OwnTime&) = delete;

 private:
  [[nodiscard]] double waited() const { return ddp_.stats().wait_s + ddp_.stats().turn_wait_s; }

  const DistributedDataParallel& ddp_;
  double& total_;
  double waited_before_;
  StepClock::Phase phase_;
};

}  // namespace

Trainer::Losses Trainer::backward(const Share& part, const Batch& samples, StepTimes& times) {
  Losses losses;
  const bool all_go_forward = model().forward_is_collective();
  for (std::int64_t i = 0; i < plan_.train.accumulate; ++i) {
    const Range rows = part_of(part.size(), plan_.train.accumulate, i);
    const bool last = i + 1 == plan_.train.accumulate;
    if (rows.size() == 0 && !last && !all_go_forward) continue;
    const nn::RandomContextGuard random({plan_.train.seed, static_cast<std::uint32_t>(state_.step),
                                         part.first_in_batch + rows.begin});
    const Batch batch = samples.slice(rows.begin, rows.end);
    Variable loss;
    if (rows.size() > 0 || all_go_forward) {
      const OwnTime own(*ddp_, times.forward, "forward");
      const FlopCounter counter;
      const Variable output = ddp_->forward([&](nn::Module& m) { return task_.forward(m, batch); });
      loss = rows.size() > 0 ? task_.loss(output, batch) : sum(output);
      times.flops += 3.0 * static_cast<double>(counter.flops());
    }
    if (rows.size() > 0) {
      const double mean = loss.data().item();
      losses.sum += mean * static_cast<double>(rows.size());
      if (!std::isfinite(mean)) losses.not_finite = mean;
    }
    std::optional<DistributedDataParallel::NoSync> local;
    if (!last) local.emplace(*ddp_);
    const OwnTime own(*ddp_, times.backward, "backward");
    const double weight = static_cast<double>(rows.size()) / static_cast<double>(part.batch_size);
    ddp_->backward(loss, scaler_ ? weight * scaler_->scale() : weight);
  }
  return losses;
}

double Trainer::communication_seconds() const noexcept {
  return ddp_->stats().wait_s + (averager_ ? averager_->seconds() : 0.0);
}

void Trainer::update() {
  if (scaler_) scaler_->unscale(*optimizer_);
  const auto clipping = optim::clip_gradients(plan_.optimizer, optimizer_->parameters());
  grad_norm_ = clipping.norm;
  if (!scaler_) return optimizer_->step(clipping.factor);
  const bool finite = scaler_->step(*optimizer_, clipping.factor);
  scaler_->update();
  if (finite || group_->rank() != 0) return;
  log(LogLevel::info, fmt::format("step {} is left out: its gradients are not finite in fp16; the "
                                  "loss is now scaled by {:g}",
                                  state_.step + 1, scaler_->scale()));
}

double Trainer::step() {
  const auto start = Clock::now();
  step_start_ = start;
  const TraceScope scope("step", "step", nullptr, state_.step + 1);
  const Autocast autocast(plan_.train.precision);
  const double data_before = loader_.seconds_waited(),
               communication_before = communication_seconds(), work_before = ddp_->stats().work_s,
               late_before = ddp_->stats().straggler_s;
  StepTimes times;

  const std::int64_t number = loader_.next_step();
  const Share share = batches_.share(number, group_->rank());
  const Batch& batch = loader_.next();
  const double base_lr = plateau_ ? plateau_->lr() : plan_.optimizer.lr;
  optim::apply_schedule(plan_.schedule, base_lr, state_.epoch, state_.step, *optimizer_);

  optimizer_->zero_grad();
  Losses losses;
  const double loss_scale = scaler_ ? scaler_->scale() : 1.0;
  ddp_->for_each_shard([&](std::int64_t shard) {
    const Share part = batches_.shard(number, shard);
    const std::int64_t row = part.first_in_batch - share.first_in_batch;
    const Losses of_part = backward(part, batch.slice(row, row + part.size()), times);
    losses.sum += of_part.sum;
    if (of_part.not_finite) losses.not_finite = of_part.not_finite;
  });
  if (ddp_->any_said_yes()) ask_whether_to_stop();
  {
    const StepClock::Phase phase(times.optimizer, "optimizer");
    update();
  }
  if (averager_ && averager_->average_parameters()) ask_whether_to_stop();

  if (losses.not_finite && plan_.train.on_nan == TrainOptions::OnNan::stop) {
    throw NonFiniteLoss(
        fmt::format("the loss is {} at step {} (epoch {}). {} The last checkpoint is from before.",
                    *losses.not_finite, state_.step + 1, state_.epoch + 1, remedy_for_not_finite));
  }
  ++state_.step;
  ++state_.position;
  if (averaging_) {
    if (averaging_->begins_after(state_.step, state_.epoch)) ddp_->broadcast_buffers();
    averaging_->after_step(state_.step, state_.epoch);
  }
  if (plan_.ddp.shards > 0) {
    losses.sum = group_->rank() == 0
                     ? ddp_->loss_of_batch() / loss_scale * static_cast<double>(share.batch_size)
                     : 0.0;
  }
  epoch_loss_ += losses.sum;
  times.communication = communication_seconds() - communication_before;
  times.communication_work = ddp_->stats().work_s - work_before;
  times.communication_late = ddp_->stats().straggler_s - late_before;
  times.data = loader_.seconds_waited() - data_before;
  times.samples = share.batch_size;
  clock_.add_step(seconds_since(start), times);
  return losses.sum;
}

}  // namespace lockstep::train
