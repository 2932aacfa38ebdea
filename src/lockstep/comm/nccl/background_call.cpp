#include <lockstep/comm/nccl/background_call.hpp>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <utility>

namespace lockstep {

struct BackgroundCall::State {
  std::mutex mutex;
  std::condition_variable changed;
  bool returned = false;
};

BackgroundCall::BackgroundCall(std::function<void()> call) : state_(std::make_shared<State>()) {
  std::thread([state = state_, call = std::move(call)]() mutable {
    call();
    call = nullptr;  // what it owns goes before anybody knows
    {
      const std::lock_guard lock(state->mutex);
      state->returned = true;
    }
    state->changed.notify_all();
  }).detach();
}

bool BackgroundCall::returns_within(std::chrono::milliseconds patience) const {
  std::unique_lock lock(state_->mutex);
  return state_->changed.wait_for(lock, patience, [&] { return state_->returned; });
}

}  // namespace lockstep
