// The thread of the simulated runtime: selects tasks and runs them.
#include <algorithm>
#include <chrono>
#include <exception>

#include <lockstep/tensor/runtime/simulated_records.hpp>

namespace lockstep {
namespace {

// Interval between checks of kernels that wait for other processes.
constexpr std::chrono::microseconds between_looks{100};
constexpr std::int64_t behind_awaited = 16;

}  // namespace

void SimulatedRuntime::work() {
  on_worker = true;
  Lock lock(mutex_);
  for (;;) {
    if (waiters_.empty() && owed_ == 0) {
      let_kernels_use_memory(false, lock);
      const auto is_wanted = [this] { return !waiters_.empty() || owed_ > 0; };
      if (awaited_ == 0) {
        wanted_.wait(lock, is_wanted);
      } else if (!wanted_.wait_for(lock, between_looks, is_wanted)) {
        look_at_awaited(lock);
        continue;
      }
    }
    RuntimeStream* const stream = next_stream(lock);
    if (stream) {
      owed_ = std::max<std::int64_t>(0, owed_ - 1);
      let_kernels_use_memory(true, lock);
      run_first(*stream, lock);
      tell_waiters(lock);
      continue;
    }
    owed_ = 0;
    tell_waiters(lock);
    if (waiters_.empty()) continue;
    let_kernels_use_memory(false, lock);
    if (awaited_ > 0) {
      wanted_.wait_for(lock, between_looks);
    } else {
      wanted_.wait(lock);  // every awaited stream hangs or waits for one that does
    }
  }
}

bool SimulatedRuntime::is_ready(SimulatedTask& task, const SimulatedDevice& device,
                                const Lock& /*lock*/) {
  if (!task.is_ready) return true;
  const bool ready = !device.error.empty() || task.is_ready();
  if (task.is_awaited == !ready) return ready;
  task.is_awaited = !ready;
  awaited_ += ready ? -1 : 1;
  return ready;
}

/// Runs tasks that have become ready, and some behind them, although no thread waits for them.
void SimulatedRuntime::look_at_awaited(Lock& lock) {
  for (std::size_t s = 0; s < streams_.size(); ++s) {  // more may arrive meanwhile
    RuntimeStream& stream = *streams_[s];
    if (!stream.first || !stream.first->is_awaited || stream.hangs) continue;
    if (!is_ready(*stream.first, state_of(stream.device, lock), lock)) continue;
    let_kernels_use_memory(true, lock);
    run_first(stream, lock);
    tell_waiters(lock);
    owed_ += behind_awaited;
  }
}

void SimulatedRuntime::let_kernels_use_memory(bool they_may, const Lock& /*lock*/) noexcept {
  for (const auto& state : states_) {
    if (!state || state->is_open == they_may) continue;
    state->is_open = they_may;
    if (they_may) {
      state->memory.open();
    } else {
      state->memory.close();
    }
  }
}

/// One of the streams whose first task may run, chosen by the seed; null if there is none.
RuntimeStream* SimulatedRuntime::next_stream(const Lock& lock) {
  ready_.clear();
  for (const auto& stream : streams_) {
    const SimulatedTask* const task = stream->first;
    if (!task || stream->hangs) continue;
    if (task->kind == SimulatedTask::Kind::wait && task->after->done < task->count) continue;
    if (!is_ready(*stream->first, state_of(stream->device, lock), lock)) continue;
    ready_.push_back(stream.get());
  }
  if (ready_.empty()) return nullptr;
  random_ = random_ * 6364136223846793005U + 1442695040888963407U;  // Knuth's MMIX
  return ready_[(random_ >> 33U) % ready_.size()];
}

void SimulatedRuntime::run_first(RuntimeStream& stream, Lock& lock) {
  SimulatedTask& task = *stream.first;
  SimulatedDevice& device = state_of(stream.device, lock);
  if (task.fault == SimulatedTask::Fault::hang) {
    task.fault = SimulatedTask::Fault::none;
    stream.hangs = true;
    return;
  }
  switch (task.kind) {
    case SimulatedTask::Kind::wait:
      break;
    case SimulatedTask::Kind::mark:
      task.event->time = std::chrono::steady_clock::now();
      if (--task.event->marks == 0 && task.event->is_gone) free_events_.push_back(task.event);
      break;
    case SimulatedTask::Kind::call:
      run_call(device, task, lock);
      lock.unlock();
      task.end_call();
      task.is_ready = nullptr;
      lock.lock();
      break;
    case SimulatedTask::Kind::graph:
      run_graph(device, task, lock);
      break;
  }
  stream.first = task.next;
  if (!stream.first) stream.last = nullptr;
  ++stream.done;
  --device.counts.queued;
  give_task(task);
}

/// A failed device executes nothing any more.
void SimulatedRuntime::run_call(SimulatedDevice& device, SimulatedTask& task, Lock& lock) {
  if (!device.error.empty()) return;
  std::string reason;
  if (task.fault == SimulatedTask::Fault::error) {
    task.fault = SimulatedTask::Fault::none;
    reason = "an injected error";
  } else {
    lock.unlock();
    try {
      task.run(task.call);
    } catch (const std::exception& error) {
      reason = error.what();
    }
    lock.lock();
  }
  if (!reason.empty()) fail(device, task, reason, lock);
}

void SimulatedRuntime::run_graph(SimulatedDevice& device, SimulatedTask& task, Lock& lock) {
  if (task.fault == SimulatedTask::Fault::error) {
    task.fault = SimulatedTask::Fault::none;
    return fail(device, task, "an injected error", lock);
  }
  for (SimulatedTask* const part : task.graph->tasks) {
    if (part->kind == SimulatedTask::Kind::call) run_call(device, *part, lock);
  }
}

void SimulatedRuntime::fail(SimulatedDevice& device, const SimulatedTask& task,
                            const std::string& reason, const Lock& /*lock*/) {
  if (!device.error.empty()) return;
  device.error = device.name() + " failed: launch " + std::to_string(task.launch) + " ('" +
                 task.label + "') ended with " + reason +
                 ". Results computed on it since are undefined.";
}

void SimulatedRuntime::tell_waiters(const Lock& /*lock*/) {
  const auto gone = std::partition(waiters_.begin(), waiters_.end(),
                                   [](const SimulatedWaiter* w) { return !w->may_go(); });
  if (gone == waiters_.end()) return;
  std::for_each(gone, waiters_.end(), [](SimulatedWaiter* waiter) { waiter->is_done = true; });
  waiters_.erase(gone, waiters_.end());
  done_.notify_all();
}

}  // namespace lockstep
