#include <lockstep/parallel/reducer.hpp>

#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/call_label.hpp>

namespace lockstep {

namespace {

Device device_of(const std::vector<Bucket>& buckets) {
  return buckets.empty() ? Device{} : buckets.front().gradients.device();
}

}  // namespace

Reducer::Reducer(std::shared_ptr<ProcessGroup> group, std::vector<Bucket> buckets,
                 std::shared_ptr<CommHook> hook, PassObserver* observer)
    : group_(std::move(group)),
      buckets_(std::move(buckets)),
      hook_(std::move(hook)),
      pending_(buckets_.size()),
      works_(buckets_.size()),
      order_(buckets_.size()),
      misses_any_(buckets_.size()),
      answers_arrived_(device_of(buckets_)) {
  std::iota(order_.begin(), order_.end(), std::size_t{0});
  stats_.buckets = buckets_.size();
  hook_->prepare(*group_, buckets_);
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    used_.emplace_back(buckets_[b].parameters.size());
    for (const Variable& parameter : buckets_[b].parameters) {
      hooks_.push_back(parameter.add_grad_hook([this, b] { gradient_is_final(b); }, observer));
    }
  }
}

void Reducer::zero_grad() const {
  for (const Bucket& bucket : buckets_) {
    for (const Variable& parameter : bucket.parameters) parameter.zero_grad();
  }
}

void Reducer::scale_held(double factor) const {
  for (const Bucket& bucket : buckets_) {
    if (holds_any(bucket)) scale_gradients(bucket, factor);
  }
}

void Reducer::begin(double factor, bool at_end) {
  for (Work& work : works_) {  // left by a failed backward: its sums may still be read
    work.wait();
    work = {};
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    pending_[b] = buckets_[b].parameters.size();
    for (const Variable& parameter : buckets_[b].parameters)
      expect_gradient_in(buckets_[b].gradients, parameter, "DistributedDataParallel");
  }
  launched_ = completed_ = 0;
  readiness_.clear();
  listening_ = true;
  launches_at_end_ = at_end;
  factor_ = factor;
}

void Reducer::reached_parameters_are_known() {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const Variable& parameter : buckets_[b].parameters) {
      if (!parameter.awaits_gradient()) --pending_[b];
    }
  }
  launch_ready_buckets();
}

void Reducer::gradient_is_final(std::size_t bucket) {
  if (!listening_) return;
  if (--pending_[bucket] == 0) {
    if (is_first_sum_) readiness_.push_back(bucket);
    launch_ready_buckets();
  }
  // Makes progress in all operations: MPI may move bytes only inside its calls.
  if (completed_ < launched_ && works_[order_[completed_]].test()) ++completed_;
}

void Reducer::launch_ready_buckets() {
  if (launches_at_end_) return;
  for (; launched_ < buckets_.size() && pending_[order_[launched_]] == 0; ++launched_) {
    const std::size_t index = order_[launched_];
    const Bucket& bucket = buckets_[index];
    if (factor_ != 1.0) scale_gradients(bucket, factor_);
    misses_any_[index] = zero_missing_gradients(bucket) ? 1 : 0;
    const bool last = launched_ + 1 == buckets_.size();
    if (!last || !question_ || !question_()) bucket.note(bucket.parameters.size()).zero();
    const CallLabel label("bucket", static_cast<int>(index));
    works_[index] = hook_->start(*group_, bucket, index);
  }
}

bool Reducer::zero_missing_gradients(const Bucket& bucket) {
  bool any = false;
  bucket.notes.fill(1.0);
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
    const Variable& parameter = bucket.parameters[p];
    if (parameter.grad().defined()) continue;
    any = true;
    bucket.note(p).zero();
    parameter.grad_buffer().zero();
    parameter.mark_grad_present();
  }
  return any;
}

void Reducer::read_notes(std::size_t index) {
  const Bucket& bucket = buckets_[index];
  const bool is_here = bucket.gradients.device() == Device{};
  if (!is_here &&
      misses_any_[index] == 0) {  // a rank with all gradients need not ask a device for the rest
    if (hook_->sums_over_all()) std::ranges::fill(used_[index], char{1});
    return;
  }
  Tensor notes = Tensor::empty(bucket.notes.shape(), bucket.notes.dtype());
  notes.copy_from(bucket.notes);
  notes = notes.to(DType::f64);
  const auto* count = static_cast<const double*>(notes.data());
  const bool of_all = hook_->sums_over_all();
  for (std::size_t p = 0; p < bucket.parameters.size(); ++p) {
    if (count[p] == 0.0) {
      bucket.parameters[p].zero_grad();
    } else if (of_all) {
      used_[index][p] = 1;
    }
  }
  any_said_yes_ = any_said_yes_ || (is_here && of_all && count[bucket.parameters.size()] != 0.0);
}

void Reducer::exchange_answers() {
  const Device device = device_of(buckets_);
  if (device == Device{} || !hook_->sums_over_all()) return;
  if (group_->size() == 1) {
    any_said_yes_ = question_ && question_();
    return;
  }
  if (answers_.defined()) {
    answers_arrived_.synchronize();
    any_said_yes_ = answers_.item() != 0.0;
  }
  const Bucket& last = buckets_[order_.back()];
  const Tensor note = last.note(last.parameters.size());
  if (answers_.defined() && answers_.dtype() == note.dtype()) {
    answers_.copy_from(note,
                       true);  // kept, because freed memory becomes available only after the device
                               // has done its work
  } else {
    answers_ = note.to(Device{}, true);
  }
  answers_arrived_.record(current_stream(device));
}

std::vector<Variable> Reducer::never_used() const {
  std::vector<Variable> found;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (std::size_t p = 0; p < used_[b].size(); ++p) {
      if (used_[b][p] == 0) found.push_back(buckets_[b].parameters[p]);
    }
  }
  return found;
}

void Reducer::run_all_rounds() {
  const int rounds = hook_->rounds();
  for (int round = 1; round < rounds; ++round) {
    for (std::size_t b = 0; b < buckets_.size(); ++b) {
      works_[b].wait();
      const CallLabel label("bucket", static_cast<int>(b));
      works_[b] = hook_->next_round(*group_, buckets_[b], b, round);
    }
  }
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    works_[b].wait();
    works_[b] = {};
    stats_.traffic.sent += hook_->bytes_sent(buckets_[b], b);
    stats_.traffic.replaced += static_cast<std::int64_t>(buckets_[b].gradients.bytes());
    hook_->finish(buckets_[b], b);
  }
}

void Reducer::agree_on_order() {
  if (buckets_.size() < 2) return;
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    if (std::ranges::find(readiness_, b) == readiness_.end()) readiness_.push_back(b);
  }
  const auto order = Tensor::from(std::vector<std::int64_t>(readiness_.begin(), readiness_.end()),
                                  {static_cast<std::int64_t>(readiness_.size())});
  group_->broadcast(order, 0).wait();
  std::ranges::copy(order.to_vector<std::int64_t>(), order_.begin());
}

void Reducer::finish() {
  for (std::size_t& pending : pending_) pending = 0;
  launches_at_end_ = false;
  launch_ready_buckets();
  listening_ = false;
  const auto start = Clock::now();
  const WaitTimes before = group_->wait_times();
  run_all_rounds();
  stats_.wait_s += seconds_since(start);
  const WaitTimes after = group_->wait_times();
  stats_.work_s += after.work_s - before.work_s;
  stats_.straggler_s += after.straggler_s - before.straggler_s;
  any_said_yes_ = false;
  for (std::size_t b = 0; b < buckets_.size(); ++b) read_notes(b);
  exchange_answers();
  if (std::exchange(is_first_sum_, false)) agree_on_order();
  hook_->set_step(hook_->step() + 1);
}

}  // namespace lockstep
