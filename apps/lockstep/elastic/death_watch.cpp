#include "death_watch.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <cstring>

#include <lockstep/base/process_state.hpp>

namespace lockstep::elastic {

DeathWatch::DeathWatch() : events_(inotify_init1(IN_CLOEXEC | IN_NONBLOCK)) {}

void DeathWatch::add(const std::vector<RankProcess>& ranks) {
  for (const RankProcess& process : ranks) {
    const int watch = inotify_add_watch(events_.get(), process.ring.c_str(), IN_CLOSE_WRITE);
    if (watch < 0 || !ranks_.try_emplace(watch, process.rank).second) continue;
    if (const auto state = process_state(process.pid);
        state == ProcessState::gone || state == ProcessState::died)
      gone_.push_back(process.rank);
  }
}

std::optional<int> DeathWatch::first() {
  if (!gone_.empty()) return gone_.size() == 1 ? std::optional(gone_.front()) : std::nullopt;
  alignas(inotify_event) std::array<char, 4096> buffer{};
  if (read(events_.get(), buffer.data(), buffer.size()) <
      static_cast<ssize_t>(sizeof(inotify_event)))
    return std::nullopt;
  inotify_event event{};
  std::memcpy(&event, buffer.data(), sizeof(event));
  const auto found = ranks_.find(event.wd);
  return found == ranks_.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace lockstep::elastic
