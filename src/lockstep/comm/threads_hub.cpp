#include <lockstep/comm/threads_hub.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/local_collective.hpp>

namespace lockstep {
namespace {

/// True if `sent`, of rank `sender`, is what `received`, on rank `receiver`, waits for.
bool match(const Operation& sent, int sender, const Operation& received, int receiver) {
  return sent.root == receiver && sent.tag == received.tag &&
         (received.root == any_source || received.root == sender);
}

/// Everything that a rank takes part in is the host's: nothing here could reach a device's memory.
void expect_host(const Operation& operation) {
  for (const Tensor* t : {&operation.input, &operation.output}) {
    if (!t->defined() || t->device().type == DeviceType::host) continue;
    throw ShapeError(
        fmt::format("{}: {} cannot be reached by the threads backend, which takes host "
                    "tensors only. Copy it to the host first",
                    name_of(operation.kind), describe(*t)));
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
    : size_(ranks),
      options_(options),
      slots_(slots),
      sequence_(static_cast<std::size_t>(ranks)),
      message_sequence_(static_cast<std::size_t>(ranks)) {
  for (std::uint64_t s = 0; s < slots; ++s) {
    slots_[s].sequence = s == 0 ? slots : s;  // operations count from 1
    slots_[s].works.resize(static_cast<std::size_t>(ranks));
    slots_[s].calls.reserve(static_cast<std::size_t>(ranks));
    slots_[s].scratch.sources.reserve(static_cast<std::size_t>(ranks));
    slots_[s].scratch.targets.reserve(static_cast<std::size_t>(ranks));
  }
}

Work ThreadsHub::start(int rank, Operation operation) {
  expect_host(operation);
  if (operation.is_message()) return start_message(rank, std::move(operation));
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

Work ThreadsHub::start_message(int rank, Operation operation) {
  const std::lock_guard lock(mutex_);
  refuse_locked(rank);
  operation.sequence = ++message_sequence_[static_cast<std::size_t>(rank)];
  const IntrusivePtr<ThreadsWork> work(
      ObjectPool<ThreadsWork>::instance().make(shared_from_this(), rank, std::move(operation)));
  const bool sends = work->operation_.kind == Operation::Kind::send;
  const auto other_end = std::ranges::find_if(messages_, [&](const auto& waiting) {
    const bool waiting_sends = waiting->operation_.kind == Operation::Kind::send;
    if (waiting_sends == sends) return false;
    const ThreadsWork &sent = sends ? *work : *waiting, &received = sends ? *waiting : *work;
    return match(sent.operation_, sent.rank_, received.operation_, received.rank_);
  });
  if (other_end == messages_.end()) {
    messages_.push_back(work);
    return Work(work);
  }
  const IntrusivePtr<ThreadsWork> other = *other_end;
  messages_.erase(other_end);
  deliver(sends ? *work : *other, sends ? *other : *work);
  return Work(work);
}

void ThreadsHub::deliver(ThreadsWork& sent, ThreadsWork& received) {
  const Tensor &source = sent.operation_.input, &target = received.operation_.output;
  if (source.dtype() != target.dtype() || source.numel() != target.numel()) {
    const std::string failure = fmt::format(
        "{} called {} where {} called {}: a message is received into a tensor of the "
        "dtype and the number of elements that were sent",
        speaker(received.rank_), describe_fully(received.operation_), speaker(sent.rank_),
        describe_fully(sent.operation_));
    received.state_.store(ThreadsWork::State::failed, std::memory_order_release);
    sent.state_.store(ThreadsWork::State::failed, std::memory_order_release);
    poison_locked(received.rank_, failure);
    throw CommError(failure);
  }
  elements_of(target, {0, target.numel()}).copy_from(elements_of(source, {0, source.numel()}));
  received.source_ = sent.rank_;
  for (ThreadsWork* work : {&sent, &received}) {
    work->state_.store(ThreadsWork::State::done, std::memory_order_release);
  }
  changed_.notify_all();
}

void ThreadsHub::execute(Slot& slot) {
  auto& calls = slot.calls;
  calls.clear();
  for (const auto& work : slot.works) calls.push_back(&work->operation_);
  const bool shapes = options_.contract == Contract::full;
  for (int r = 1; r < size_; ++r) {
    const Operation& call = *calls[static_cast<std::size_t>(r)];
    if (fingerprint(call, shapes) == fingerprint(*calls[0], shapes)) continue;
    throw CommError(
        fmt::format("{} called {} where {} called {}: all ranks must make the same calls in the "
                    "same order, with "
                    "equal shapes, dtypes and operations",
                    speaker(r), describe_fully(call), speaker(0), describe_fully(*calls[0])));
  }
  perform(calls, slot.scratch);
}

std::shared_ptr<ThreadsHub> ThreadsHub::child(std::uint64_t number, int first_member, int members) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = children_.try_emplace({number, first_member});
  Child& child = place->second;
  if (is_new) {
    child = {std::make_shared<ThreadsHub>(members, options_), members};
    descendants_.push_back(child.hub);
  }
  auto hub = child.hub;
  if (--child.awaited == 0) children_.erase(place);
  return hub;
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
          describe_fully(work.operation_), Seconds(options_.timeout).count(), missing_peers(work));
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
  for (auto& message : messages_) {
    message->state_.store(ThreadsWork::State::failed, std::memory_order_release);
  }
  for (const auto& descendant : descendants_) {
    if (const auto hub = descendant.lock()) hub->poison(0, reason);
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
  messages_.clear();
  for (const auto& descendant : descendants_) {
    if (const auto hub = descendant.lock()) hub->clear();
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

std::string ThreadsHub::missing_peers(const ThreadsWork& work) const {
  const Operation& operation = work.operation_;
  if (!operation.is_message()) return missing_ranks(slots_[operation.sequence % slots]);
  return operation.root == any_source ? "any rank" : fmt::format("rank {}", operation.root);
}

}  // namespace lockstep
