#include <lockstep/comm/threads_hub.hpp>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/kernels/combine.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

using Works = std::vector<IntrusivePtr<ThreadsWork>>;

/// Rows of an all_gather's output as tensors of the input's shape.
Tensor row_of(const Tensor& output, int row, const Tensor& input) {
  return Tensor::over(output.storage(),
                      output.offset_bytes() + static_cast<std::size_t>(row) * input.bytes(),
                      input.shape(), input.dtype());
}

void copy_unless_same(const Tensor& target, const Tensor& source) {
  if (target.data() != source.data()) target.copy_from(source);
}

template <class OperationOf>
void perform(int size, const OperationOf& of) {
  const Operation& first = of(0);
  switch (first.kind) {
    case Operation::Kind::all_reduce:
      for (int r = 1; r < size; ++r) combine(first.op, of(r).output, first.output);
      if (first.op == ReduceOp::avg) scale(first.output, 1.0 / size);
      for (int r = 1; r < size; ++r) copy_unless_same(of(r).output, first.output);
      return;
    case Operation::Kind::broadcast:
      for (int r = 0; r < size; ++r) copy_unless_same(of(r).output, of(first.root).output);
      return;
    case Operation::Kind::all_gather:
      for (int to = 0; to < size; ++to) {
        for (int from = 0; from < size; ++from) {
          const Tensor& source = of(from).input;
          copy_unless_same(row_of(of(to).output, from, source), source);
        }
      }
      return;
    case Operation::Kind::barrier:
      return;
  }
}

}  // namespace

bool ThreadsWork::poll() {
  const State state = state_.load(std::memory_order_acquire);
  if (state == State::failed) hub_->refuse(rank_);
  return state == State::done;
}

void ThreadsWork::wait() { hub_->wait(*this); }

void ThreadsWork::release() noexcept { ObjectPool<ThreadsWork>::instance().recycle(this); }

ThreadsHub::ThreadsHub(int ranks, const GroupOptions& options)
    : size_(ranks), options_(options), slots_(slots), sequence_(static_cast<std::size_t>(ranks)) {
  for (std::uint64_t s = 0; s < slots; ++s) {
    slots_[s].sequence = s == 0 ? slots : s;  // operations count from 1
    slots_[s].works.resize(static_cast<std::size_t>(ranks));
  }
}

Work ThreadsHub::start(int rank, Operation operation) {
  std::unique_lock lock(mutex_);
  refuse_locked(rank);
  const auto me = static_cast<std::size_t>(rank);
  operation.sequence = ++sequence_[me];
  await_slot(lock, rank, operation);
  Slot& slot = slots_[operation.sequence % slots];
  const IntrusivePtr<ThreadsWork> work(
      ObjectPool<ThreadsWork>::instance().make(shared_from_this(), rank, std::move(operation)));
  slot.works[me] = work;
  if (++slot.arrived < size_) return Work(work);

  // All are here, and nobody touches a full slot but the rank that filled it: no lock is needed.
  lock.unlock();
  try {
    execute(slot);
  } catch (const std::exception& error) {
    lock.lock();
    slot.arrived = 0;  // no longer being executed, so its works fail with the others
    poison_locked(rank, error.what());
    throw;
  }
  lock.lock();
  for (auto& done : slot.works) {
    done->state_.store(ThreadsWork::State::done, std::memory_order_release);
    done = {};
  }
  slot.arrived = 0;
  slot.sequence += slots;
  changed_.notify_all();
  return Work(work);
}

void ThreadsHub::execute(Slot& slot) {
  const auto of = [&](int r) -> const Operation& {
    return slot.works[static_cast<std::size_t>(r)]->operation_;
  };
  for (int r = 1; r < size_; ++r) {
    if (same_call(of(r), of(0))) continue;
    throw CommError(
        fmt::format("{} called {} where {} called {}: all ranks must make the same calls in the "
                    "same order, with "
                    "equal shapes, dtypes and operations",
                    speaker(r), describe_fully(of(r)), speaker(0), describe_fully(of(0))));
  }
  perform(size_, of);
}

void ThreadsHub::await_slot(std::unique_lock<std::mutex>& lock, int rank,
                            const Operation& operation) {
  const Slot& slot = slots_[operation.sequence % slots];
  const auto free = [&] { return slot.sequence == operation.sequence || failed_rank_ >= 0; };
  if (!changed_.wait_until(lock, Clock::now() + options_.timeout, free)) {
    const std::string failure = fmt::format(
        "{}: {} has waited {:.1f} s to start, because {} operations are in flight and {} is behind",
        speaker(rank), describe(operation), Seconds(options_.timeout).count(), slots,
        missing_ranks(slot));
    poison_locked(rank, failure);
    throw TimeoutError(failure + ". Look there for an error or calls in another order.");
  }
  refuse_locked(rank);
}

void ThreadsHub::wait(ThreadsWork& work) {
  using State = ThreadsWork::State;
  const auto over = [&] { return work.state_.load(std::memory_order_acquire) != State::running; };
  if (!over()) {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_until(lock, Clock::now() + options_.timeout, over)) {
      const std::string failure = fmt::format(
          "{}: {} has not completed after {:.1f} s: {} has not called it", speaker(work.rank_),
          describe(work.operation_), Seconds(options_.timeout).count(),
          missing_ranks(slots_[work.operation_.sequence % slots]));
      poison_locked(work.rank_, failure);
      throw TimeoutError(failure +
                         ". Look there for an error or calls in another order; if it is only "
                         "slow, raise the group's timeout.");
    }
  }
  if (work.state_.load(std::memory_order_acquire) == State::failed) refuse(work.rank_);
}

void ThreadsHub::poison(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  poison_locked(rank, reason);
}

void ThreadsHub::poison_locked(int rank, const std::string& reason) {
  if (failed_rank_ < 0) {
    failed_rank_ = rank;
    reason_ = fmt::format("it failed earlier: {}.", reason);
  }
  for (Slot& slot : slots_) {
    if (slot.arrived == size_) continue;  // being executed: its rank will finish it
    for (auto& work : slot.works) {
      if (work) work->state_.store(ThreadsWork::State::failed, std::memory_order_release);
    }
  }
  changed_.notify_all();
}

int ThreadsHub::failed_rank() const {
  const std::lock_guard lock(mutex_);
  return failed_rank_;
}

void ThreadsHub::refuse(int rank) const {
  const std::lock_guard lock(mutex_);
  throw CommError(refusal(speaker(rank), reason_));
}

void ThreadsHub::refuse_locked(int rank) const {
  if (failed_rank_ >= 0) throw CommError(refusal(speaker(rank), reason_));
}

void ThreadsHub::clear() {
  poison(0, "its ranks have ended");
  for (Slot& slot : slots_) {
    for (auto& work : slot.works) work = {};
  }
}

std::string ThreadsHub::speaker(int rank) const {
  return fmt::format("rank {} of {}", rank, size_);
}

std::string ThreadsHub::missing_ranks(const Slot& slot) const {
  std::string names;
  for (int r = 0; r < size_; ++r) {
    if (slot.works[static_cast<std::size_t>(r)]) continue;
    names += fmt::format("{}rank {}", names.empty() ? "" : ", ", r);
  }
  return names.empty() ? "no rank" : names;
}

}  // namespace lockstep
