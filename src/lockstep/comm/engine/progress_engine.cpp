#include <lockstep/comm/engine/progress_engine.hpp>

#include <algorithm>
#include <chrono>

#include <lockstep/base/trace.hpp>

namespace lockstep {
namespace {

using std::chrono::microseconds;

// Short enough for 25 GB/s and messages of 1 MB; long enough to leave the core to the computation.
constexpr microseconds between_passes{50};
// A group whose owner has stopped calling: its peers progress at 1 % of a core.
constexpr microseconds between_passes_for_others{1000};
constexpr microseconds between_looks{10'000};
// Looks become rarer while no group needs them: the interval is 1/20 of the idle time. A constant
// 10 ms costs 1.4 % of the training speed with as many ranks as cores.
constexpr microseconds between_looks_at_most{160'000};

thread_local bool is_engine_thread = false;

}  // namespace

ProgressEngine& ProgressEngine::instance() {
  static auto* engine = new ProgressEngine;  // groups may outlive main()
  return *engine;
}

bool ProgressEngine::on_own_thread() noexcept { return is_engine_thread; }

// thread_mutex_ and members_lock_ are never held together. The thread progresses members under
// members_lock_; a member may hold its group's lock and want thread_mutex_ to wake the thread.
void ProgressEngine::add(EngineMember& member, bool threads_allowed, bool always) {
  {
    const std::lock_guard lock(members_lock_);
    member.threads_allowed_ = threads_allowed;
    member.always_ = always;
    members_.push_back(&member);
    count_.store(members_.size(), std::memory_order_relaxed);
  }
  const std::lock_guard threads(thread_mutex_);
  if (threads_allowed && !thread_.joinable()) {
    thread_ = std::jthread([this](const std::stop_token& stop) { run(stop); });
  }
}

void ProgressEngine::remove(EngineMember& member) noexcept {
  {
    const std::lock_guard lock(members_lock_);
    std::erase(members_, &member);
    count_.store(members_.size(), std::memory_order_relaxed);
  }
  std::jthread idle;  // joined without the mutex
  const std::lock_guard threads(thread_mutex_);
  if (count_.load(std::memory_order_relaxed) == 0) idle.swap(thread_);
}

bool ProgressEngine::progress_others(const EngineMember* own) noexcept {
  if (count_.load(std::memory_order_relaxed) < (own ? 2U : 1U)) return false;
  const std::unique_lock lock(members_lock_, std::try_to_lock);
  if (!lock) return false;
  bool moved = false;
  for (EngineMember* member : members_) {
    if (member != own && member->is_busy()) moved = member->progress_if_free() || moved;
  }
  return moved;
}

void ProgressEngine::wake() noexcept {
  {
    const std::lock_guard threads(thread_mutex_);
    woken_ = true;
  }
  woken_changed_.notify_one();
}

std::string ProgressEngine::in_flight_elsewhere(const EngineMember* own) {
  std::string all;
  const std::unique_lock lock(members_lock_, std::try_to_lock);
  if (!lock) return all;
  for (EngineMember* member : members_) {
    if (member == own || !member->is_busy()) continue;
    if (const std::string oldest = member->oldest_in_flight(); !oldest.empty()) {
      all += (all.empty() ? "" : ", ") + oldest;
    }
  }
  return all;
}

void ProgressEngine::run(const std::stop_token& stop) {
  is_engine_thread = true;
  name_thread("communication progress");
  last_needed_ = std::chrono::steady_clock::now();
  while (!stop.stop_requested()) {
    const microseconds pause = look_after_all();
    std::unique_lock lock(thread_mutex_);
    woken_changed_.wait_for(lock, stop, pause, [this] { return woken_; });
    woken_ = false;
  }
}

microseconds ProgressEngine::look_after_all() noexcept {
  const auto now = std::chrono::steady_clock::now();
  microseconds pause = std::clamp(std::chrono::duration_cast<microseconds>(now - last_needed_) / 20,
                                  between_looks, between_looks_at_most);
  const std::lock_guard lock(members_lock_);
  for (EngineMember* member : members_) {
    const std::uint32_t passes = member->passes_.load(std::memory_order_relaxed);
    if (member->threads_allowed_ && member->is_busy()) {
      const bool stalls = passes == member->seen_;
      if (member->always_ || stalls) member->progress_if_free();
      if (stalls) last_needed_ = now;
      pause = std::min(pause, member->always_ ? between_passes
                              : stalls        ? between_passes_for_others
                                              : between_looks);
    }
    member->seen_ = member->passes_.load(std::memory_order_relaxed);
  }
  return pause;
}

}  // namespace lockstep
