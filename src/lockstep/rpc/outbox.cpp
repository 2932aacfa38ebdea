#include <lockstep/rpc/outbox.hpp>

#include <sched.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <mutex>
#include <utility>

#include <lockstep/comm/call_label.hpp>
#include <lockstep/rpc/message.hpp>

namespace lockstep::rpc {
namespace {

using std::chrono::microseconds;

// Most messages in flight to one rank if all `ranks` may send to it.
constexpr std::uint32_t window_of(int ranks) {
  constexpr int to_one = 1024, least = 64, of_all = 8192;
  return static_cast<std::uint32_t>(std::clamp(of_all / std::max(1, ranks), least, to_one));
}
}  // namespace

Outbox::Outbox(ProcessGroup& group, Acknowledgements& acknowledgements, bool must_push,
               microseconds awake)
    : group_(group),
      acknowledgements_(acknowledgements),
      must_push_(must_push),
      awake_(awake),
      window_(window_of(group.size())),
      lines_(static_cast<std::size_t>(group.size())) {}

void Outbox::send(int to, QueuedMessage&& message) {
  Line& line = lines_[static_cast<std::size_t>(to)];
  if (!message.waits || (!line.some_wait.load() && has_room(line))) {
    line.sent.fetch_add(1);
    return post(to, line, message);
  }
  {
    const std::lock_guard lock(line.lock);
    line.waiting.push_back(std::move(message));
    line.some_wait.store(true);
  }
  post_waiting(to, line);  // room may have appeared since the check
}

void Outbox::has_received(int by, std::uint32_t messages) {
  Line& line = lines_[static_cast<std::size_t>(by)];
  // Older counts may arrive later, and a damaged message may contain any number.
  std::uint32_t known = line.received.load();
  while (messages != known && messages - known <= line.sent.load() - known &&
         !line.received.compare_exchange_weak(known, messages)) {
  }
  if (line.some_wait.load()) post_waiting(by, line);
}

void Outbox::post_waiting(int to, Line& line) {
  for (;;) {
    QueuedMessage message;
    {
      const std::lock_guard lock(line.lock);
      if (line.waiting.empty() || !has_room(line)) return;
      message = std::move(line.waiting.front());
      line.waiting.pop_front();
      line.some_wait.store(!line.waiting.empty());
      line.sent.fetch_add(1);
    }
    post(to, line, message);
  }
}

void Outbox::post(int to, Line& line, QueuedMessage& message) {
  // only now: a queued message acknowledges nothing
  const std::uint32_t received = acknowledgements_.tell(to);
  std::memcpy(static_cast<std::byte*>(message.bytes.data()) + offsetof(Head, received), &received,
              sizeof(received));
  const CallLabel label(message.name, message.number);
  Work last = group_.isend(message.bytes, to);
  bool sent = keep_until_sent(line, last);
  std::uint32_t tag = message.tag;
  for (const Tensor& t : message.long_tensors) {
    last = group_.isend(t, to, OutgoingMessage::tag_of(tag++));
    sent = keep_until_sent(line, last);
  }
  if (!sent && awake_.count() > 0) push_awake(last);
}

// A message that cannot be sent at once waits here to be pushed: by its sender for a while, then by
// any thread of this rank that waits or receives. (Its receiver was woken at the start and may
// sleep again.)
bool Outbox::keep_until_sent(Line& line, const Work& started) {
  if (!must_push_) return true;  // the receiver fetches it
  Work work = started;
  const bool looks_longer = awake_.count() > 0 && is_pushed();
  if (looks_longer ? work.wait_for(microseconds{0}) : work.test()) return true;
  const std::lock_guard lock(line.lock);
  line.unsent.push_back(std::move(work));
  line.changed = Clock::now();
  unsent_.fetch_add(1);
  return false;
}

void Outbox::push_awake(Work& work) {
  constexpr microseconds patience{50};
  const auto until = Clock::now() + patience;
  while (!work.test() && Clock::now() < until) sched_yield();
  static_cast<void>(push(patience));
}

microseconds Outbox::push(microseconds at_most) {
  constexpr microseconds shortest{50}, longest{5000};
  if (is_pushed()) return at_most;
  const std::unique_lock pushing(pushing_, std::try_to_lock);
  if (!pushing) return std::min(at_most, shortest);
  microseconds wait = at_most;
  // each separately: a receiver that stopped or left must not delay the others
  for (Line& line : lines_) {
    const std::lock_guard lock(line.lock);
    const auto before = line.unsent.size();
    while (!line.unsent.empty() && line.unsent.front().test()) line.unsent.pop_front();
    if (const auto sent = before - line.unsent.size(); sent > 0) {
      unsent_.fetch_sub(static_cast<int>(sent));
      line.changed = Clock::now();
    }
    if (line.unsent.empty()) continue;
    // The intervals grow: the receiver may have stopped.
    const auto age = std::chrono::duration_cast<microseconds>(Clock::now() - line.changed);
    wait = std::min(wait, std::clamp(age / 8, shortest, longest));
  }
  return wait;
}

Acknowledgements::Acknowledgements(int ranks)
    : told_at_once_(window_of(ranks) / 2), lines_(static_cast<std::size_t>(ranks)) {}

bool Acknowledgements::add(int from) noexcept {
  Line& line = lines_[static_cast<std::size_t>(from)];
  const std::uint32_t received = line.received.fetch_add(1, std::memory_order_relaxed) + 1;
  std::uint32_t told = line.told.load(std::memory_order_relaxed);
  return received - told >= told_at_once_ &&
         line.told.compare_exchange_strong(told, received, std::memory_order_relaxed);
}

std::uint32_t Acknowledgements::tell(int to) noexcept {
  Line& line = lines_[static_cast<std::size_t>(to)];
  const std::uint32_t received = line.received.load(std::memory_order_relaxed);
  line.told.store(received, std::memory_order_relaxed);
  return received;
}

}  // namespace lockstep::rpc
