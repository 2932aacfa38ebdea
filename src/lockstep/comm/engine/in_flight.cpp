#include <lockstep/comm/engine/in_flight.hpp>

#include <sched.h>

#include <algorithm>
#include <atomic>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/make_room.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/engine/group_core.hpp>

namespace lockstep {

using std::chrono::microseconds;

namespace {

// Polls before the first yield: about the time of a small all-reduce, so that it needs no system
// call, while ranks that outnumber the cores soon yield to each other.
constexpr int spins = 100;

// Limits of a sleep in a wait without a deadline: the longest where all senders can wake it, the
// longest where only some can, and the `shortest` where it does not poll first. A sleep costs about
// 20 us of processor time on a virtual machine. All limits are below the engine's between_looks:
// above it, the engine would take the group for an abandoned one.
constexpr microseconds shortest{500}, longest_if_notified{8000}, longest_if_not{2000};

// A yield that lasts longer gave the core to somebody who computes: another rank, where they
// outnumber the cores, or another job. Waits sleep then for a while, at least for a `nap` unless
// their event ends it: yields would only take turns with those that they wait for.
constexpr microseconds long_yield{200}, nap{100};
constexpr std::chrono::milliseconds a_while{50};

/// Until when, by Clock, this process takes its cores for shared.
std::atomic<Clock::rep> cores_are_shared_until = 0;

void yield() {
  const auto before = Clock::now();
  sched_yield();
  const auto after = Clock::now();
  if (after - before > long_yield)
    cores_are_shared_until.store((after + a_while).time_since_epoch().count(),
                                 std::memory_order_relaxed);
}

/// Threads of this process in a wait that did not end at once: ranks, where these are threads.
std::atomic<std::size_t> waiting_threads = 0;

struct CountedWait {
  CountedWait() noexcept { waiting_threads.fetch_add(1, std::memory_order_relaxed); }
  ~CountedWait() { waiting_threads.fetch_sub(1, std::memory_order_relaxed); }
  CountedWait(const CountedWait&) = delete;
  CountedWait& operator=(const CountedWait&) = delete;
};

}  // namespace

/// How a wait yields the core. It polls and yields for `awake`, then sleeps between polls: until
/// the group's event, or for 1 / `part` of the time since it began. It restarts when an operation
/// has made progress (`follows_motion`), otherwise when it was woken.
struct InFlight::BackOff {
  microseconds awake;
  int part;
  bool follows_motion;
  Clock::duration shortest{}, longest{};

  /// The same where `crowd` threads wait: a large crowd sleeps for longer, or at once.
  [[nodiscard]] BackOff of_crowd(std::size_t crowd) const {
    BackOff result = *this;
    if (!follows_motion) return result;
    result.shortest = shortest_pause(crowd);
    result.longest = longest_pause(crowd);
    if (result.shortest > Clock::duration::zero()) result.awake = microseconds{0};
    return result;
  }
  [[nodiscard]] BackOff of_shared_cores() const {
    BackOff result = *this;
    result.awake = microseconds{0};
    result.shortest = std::max<Clock::duration>(shortest, nap);
    return result;
  }
};

InFlight::InFlight(IntrusivePtr<GroupCore>&& core, Operation&& operation)
    : core_(std::move(core)), operation_(std::move(operation)) {}
InFlight::~InFlight() = default;

bool InFlight::poll() {
  const bool over = core_->poll(*this, Until::over) == Motion::over;
  if (!over) core_->progress_transport();
  ProgressEngine::instance().progress_others(core_.get());
  return over;
}

void InFlight::wait_until(Until until) {
  const TraceScope scope("wait", "wait", name_of(operation_.kind));
  const WorkClock::Waiting waiting(core_->clock());
  if (spin(until)) return;
  const CountedWait counted;
  const BackOff back_off{.awake = pause_after, .part = pause_part, .follows_motion = true};
  const auto start = Clock::now();
  while (!poll_with(back_off, until, core_->options().timeout)) {
    core_->expire(*this, seconds_since(start));
  }
}

bool InFlight::wait_for(microseconds at_most, microseconds awake) {
  if (spin(Until::over)) return true;
  const BackOff back_off{
      .awake = awake,
      .part = 8,
      .follows_motion = false,
      .shortest = awake > microseconds{0} ? microseconds{0} : shortest,
      .longest = core_->is_notified_by_all() ? longest_if_notified : longest_if_not};
  return poll_with(back_off, Until::over, at_most);
}

bool InFlight::spin(Until until) {
  for (int i = 0; i < spins; ++i) {
    if (core_->poll(*this, until) == Motion::over) return true;
  }
  return false;
}

bool InFlight::poll_with(const BackOff& usual, Until until, microseconds at_most) {
  EventCount& event = core_->event();
  bool all_are_here = operation_.is_message() || core_->has_been_entered_by_all(*this);
  const auto start = Clock::now();
  auto since = start;
  for (auto now = start;; now = Clock::now()) {
    BackOff back_off = usual.of_crowd(waiting_threads.load(std::memory_order_relaxed));
    if (now.time_since_epoch().count() < cores_are_shared_until.load(std::memory_order_relaxed))
      back_off = back_off.of_shared_cores();
    // In microseconds, the unit of the options: the clock cannot hold more than 292 years.
    const bool sleeps = floor<microseconds>(now - since) >= back_off.awake;
    const auto key = sleeps ? event.prepare_wait() : 0;
    Motion motion = core_->poll(*this, until);
    bool moved = motion != Motion::none;
    if (motion != Motion::over) {
      core_->progress_transport();
      moved = ProgressEngine::instance().progress_others(core_.get()) || moved;
      // MPI_Improbe may see a message only in the call after the one that received it.
      if (sleeps) motion = core_->poll(*this, until);
    }
    const bool over = motion == Motion::over;
    if (!all_are_here && (over || core_->has_been_entered_by_all(*this))) {
      all_are_here = true;
      core_->clock().add_late(Clock::now() - start);
    }
    if (over) return true;
    const auto rest = at_most - floor<microseconds>(now - start);
    if (rest <= microseconds{0}) return false;
    const bool restarts = back_off.follows_motion && moved;
    if (restarts) since = now;
    if (!sleeps || restarts) {
      yield();
      continue;
    }
    const auto sleep = std::clamp<Clock::duration>((now - since) / back_off.part, back_off.shortest,
                                                   back_off.longest);
    const bool woken = event.wait(key, std::min(std::chrono::ceil<microseconds>(sleep), rest));
    if (woken && !back_off.follows_motion) since = Clock::now();
  }
}

void InFlight::cancel() { core_->cancel(*this); }
std::string InFlight::awaited() const { return core_->awaited(*this); }

}  // namespace lockstep
