#include <lockstep/base/trace.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <string>

#include <lockstep/base/rank.hpp>
#include <lockstep/base/spin_lock.hpp>

namespace lockstep {
namespace detail {

std::atomic<bool> is_tracing{false};

}  // namespace detail

namespace {

/// Written by its thread, read by the collecting thread.
struct Track {
  Track(std::size_t events, const char* of) : ring(events), thread(of), rank(thread_rank()) {}

  [[nodiscard]] TraceTrack events_of(int wanted) {
    const std::lock_guard locked(lock);
    TraceTrack copy{.thread = thread};
    const std::uint64_t size = ring.size();
    const std::uint64_t oldest = written > size ? written - size : 0;
    if (oldest > 0) copy.complete_from_ns = ring[oldest % size].end_ns;
    for (std::uint64_t i = oldest; i < written; ++i) {
      const TraceEvent& event = ring[i % size];
      if (event.rank == wanted) copy.events.push_back(event);
    }
    return copy;
  }

  SpinLock lock;  // guards the members below
  std::vector<TraceEvent> ring;
  std::uint64_t written = 0;
  const char* thread;
  int rank;
};

struct Tracks {
  std::mutex mutex;  // guards the members below
  int sessions = 0;
  std::size_t events = 0;
  std::vector<std::shared_ptr<Track>> all;
  std::set<std::string, std::less<>> names;
  std::atomic<std::uint64_t> period = 0;  // counts the times that tracing began
};

Tracks& tracks_of_process() {
  static auto* tracks = new Tracks;  // threads may outlive main()
  return *tracks;
}

struct OwnTrack {
  const char* name = "thread";
  std::uint64_t period = 0;
  std::shared_ptr<Track> track;  // nullptr: out of memory
};

thread_local OwnTrack own;

void make_track(Tracks& tracks) noexcept {
  const std::lock_guard locked(tracks.mutex);
  own.period = tracks.period.load(std::memory_order_relaxed);
  own.track.reset();
  if (tracks.sessions == 0) return;
  try {
    own.track = std::make_shared<Track>(tracks.events, own.name);
    tracks.all.push_back(own.track);
  } catch (const std::bad_alloc&) {
    own.track.reset();
  }
}

}  // namespace

void trace(const TraceEvent& event) noexcept {
  if (!tracing()) return;
  Tracks& tracks = tracks_of_process();
  if (own.period != tracks.period.load(std::memory_order_relaxed)) make_track(tracks);
  if (!own.track) return;
  Track& track = *own.track;
  const std::lock_guard locked(track.lock);
  TraceEvent& place = track.ring[track.written++ % track.ring.size()];
  place = event;
  if (place.rank < 0) place.rank = track.rank;
}

const char* trace_name(std::string_view text) {
  Tracks& tracks = tracks_of_process();
  const std::lock_guard locked(tracks.mutex);
  const auto known = tracks.names.find(text);
  return (known != tracks.names.end() ? known : tracks.names.emplace(text).first)->c_str();
}

void name_thread(const char* name) noexcept { own.name = name; }

void TraceScope::end(const char* category, const char* name, const char* detail,
                     std::int64_t number, std::int64_t start_ns) noexcept {
  trace({.start_ns = start_ns,
         .end_ns = trace_now(),
         .category = category,
         .name = name,
         .detail = detail,
         .number = number});
}

TraceSession::TraceSession(std::size_t events_a_thread) {
  Tracks& tracks = tracks_of_process();
  const std::lock_guard locked(tracks.mutex);
  if (tracks.sessions++ > 0) return;
  tracks.events = std::max<std::size_t>(1, events_a_thread);
  tracks.period.fetch_add(1, std::memory_order_relaxed);
  detail::is_tracing.store(true, std::memory_order_relaxed);
}

TraceSession::~TraceSession() {
  Tracks& tracks = tracks_of_process();
  const std::lock_guard locked(tracks.mutex);
  if (--tracks.sessions > 0) return;
  detail::is_tracing.store(false, std::memory_order_relaxed);
  tracks.all.clear();
}

std::vector<TraceTrack> TraceSession::tracks() const {
  Tracks& tracks = tracks_of_process();
  const std::lock_guard locked(tracks.mutex);
  std::vector<TraceTrack> result;
  for (const auto& track : tracks.all) {
    TraceTrack copy = track->events_of(thread_rank());
    if (!copy.events.empty()) result.push_back(std::move(copy));
  }
  return result;
}

}  // namespace lockstep
