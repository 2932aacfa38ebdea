#include "death_watch.hpp"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace lockstep::elastic {

DeathWatch::DeathWatch(const std::vector<RankProcess>& ranks)
    : ranks_(ranks), wake_(eventfd(0, EFD_CLOEXEC)) {
  // No function of the C library before glibc 2.36. The descriptor closes itself in new programs.
  for (const RankProcess& process : ranks_)
    processes_.push_back(static_cast<int>(syscall(SYS_pidfd_open, process.pid, 0)));
  thread_ = std::thread([this] { watch(); });
}

DeathWatch::~DeathWatch() {
  static_cast<void>(first());
  for (const int process : processes_) {
    if (process >= 0) close(process);
  }
  if (wake_ >= 0) close(wake_);
}

void DeathWatch::watch() {
  // Who was gone before anybody could look was gone first.
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (processes_[i] < 0) ended_.push_back(ranks_[i].rank);
  }
  if (!ended_.empty()) return;
  std::vector<pollfd> events;
  for (const int process : processes_) events.push_back({process, POLLIN, 0});
  events.push_back({wake_, POLLIN, 0});
  while (poll(events.data(), events.size(), -1) < 0 && errno == EINTR) {
  }
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (events[i].revents != 0) ended_.push_back(ranks_[i].rank);
  }
}

std::optional<int> DeathWatch::first() {
  if (thread_.joinable()) {
    const std::uint64_t one = 1;
    static_cast<void>(!write(wake_, &one, sizeof(one)));
    thread_.join();
  }
  return ended_.size() == 1 ? std::optional(ended_.front()) : std::nullopt;
}

}  // namespace lockstep::elastic
