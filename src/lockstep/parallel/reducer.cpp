#include <lockstep/parallel/reducer.hpp>

#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/comm/call_label.hpp>

namespace lockstep {
namespace {

/// Declares zero to be the gradient of a parameter that this rank's loss did not reach.
void fill_missing_gradient(const Variable& parameter) {
  if (parameter.grad().defined()) return;
  parameter.grad_buffer().zero();
  parameter.mark_grad_present();
}

}  // namespace

Reducer::Reducer(std::shared_ptr<ProcessGroup> group, std::vector<Bucket> buckets)
    : group_(std::move(group)),
      buckets_(std::move(buckets)),
      unready_(buckets_.size()),
      works_(buckets_.size()) {
  for (std::size_t b = 0; b < buckets_.size(); ++b) {
    for (const Variable& parameter : buckets_[b].parameters) {
      hooks_.push_back(parameter.add_grad_hook([this, b] { gradient_is_final(b); }));
    }
  }
}

void Reducer::zero_grad() const {
  for (const Bucket& bucket : buckets_) {
    for (const Variable& parameter : bucket.parameters) parameter.zero_grad();
  }
}

void Reducer::begin() {
  zero_grad();
  for (std::size_t b = 0; b < buckets_.size(); ++b) unready_[b] = buckets_[b].parameters.size();
  started_ = arrived_ = 0;
  listening_ = true;
}

void Reducer::gradient_is_final(std::size_t bucket) {
  if (!listening_) return;
  if (--unready_[bucket] == 0) start_ready_buckets();
  // Moves on what is under way: where nothing else does, MPI moves bytes only inside its calls. One
  // look does it for all of them.
  if (arrived_ < started_ && works_[arrived_].test()) ++arrived_;
}

void Reducer::start_ready_buckets() {
  for (; started_ < buckets_.size() && unready_[started_] == 0; ++started_) {
    const Bucket& bucket = buckets_[started_];
    for (const Variable& parameter : bucket.parameters) fill_missing_gradient(parameter);
    const CallLabel label("bucket", static_cast<int>(started_));
    works_[started_] = group_->all_reduce(bucket.gradients, ReduceOp::sum);
  }
}

void Reducer::finish() {
  for (std::size_t& unready : unready_) unready = 0;
  start_ready_buckets();
  listening_ = false;
  const auto start = Clock::now();
  const double work_before = group_->work_seconds();
  for (Work& work : works_) {
    work.wait();
    work = {};
  }
  wait_seconds_ += seconds_since(start);
  work_seconds_ += group_->work_seconds() - work_before;
}

}  // namespace lockstep
