#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/spin_lock.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::rpc {

/// The number of messages received from each rank over one group, and the number acknowledged to
/// it. Thread-safe.
class Acknowledgements {
 public:
  explicit Acknowledgements(int ranks);

  /// One was received from it. True if that rank needs a separate acknowledgement message.
  [[nodiscard]] bool add(int from) noexcept;
  /// The acknowledgement that a message to that rank carries.
  [[nodiscard]] std::uint32_t tell(int to) noexcept;

 private:
  struct Line {
    std::atomic<std::uint32_t> received = 0, told = 0;
  };
  const std::uint32_t
      told_at_once_;  // a receiver without messages to send acknowledges after this many
  std::vector<Line> lines_;
};

/// Messages from this rank to the others over one group.
///
/// A bounded number of messages to each rank is in flight at a time: both ends search the
/// unreceived messages repeatedly, so n of them would take n^2 steps. Further messages wait here
/// until the receiver acknowledges earlier ones: by Head::received of its messages, or by a
/// separate credit message if it sends none. They may overtake each other. Thread-safe.
class Outbox {
 public:
  /// A sealed message, and its name in the flight recorder.
  struct QueuedMessage {
    Tensor bytes;
    std::vector<Tensor> long_tensors;
    std::uint32_t tag = 0;  ///< of the first of these
    bool waits = true;      ///< for room
    const char* name = "";
    int number = 0;
  };

  /// `acknowledgements`: of the other group; each message tells its receiver of them when it
  /// leaves. `must_push`: a message needs its sender until it has been received. `awake`: how long
  /// a sender waits for that without sleeping; 0: not at all.
  Outbox(ProcessGroup& group, Acknowledgements& acknowledgements, bool must_push,
         std::chrono::microseconds awake);

  /// Sends it, or queues it until there is room. Credits do not wait, as others wait for them.
  void send(int to, QueuedMessage&& message);
  /// Rank `by` has received this many of this rank's messages, modulo 2^32.
  void has_received(int by, std::uint32_t messages);
  /// Sends queued messages where possible; returns how long the caller may sleep, at most
  /// `at_most`.
  [[nodiscard]] std::chrono::microseconds push(std::chrono::microseconds at_most);
  [[nodiscard]] bool is_pushed() const noexcept {
    return unsent_.load(std::memory_order_relaxed) == 0;
  }

 private:
  /// To one rank.
  struct Line {
    std::atomic<std::uint32_t> sent = 0, received = 0;
    std::atomic<bool> some_wait = false;
    SpinLock lock;  // guards the members below
    std::deque<QueuedMessage> waiting;
    std::deque<Work> unsent;
    Clock::time_point changed;  // unsent
  };

  [[nodiscard]] bool has_room(const Line& line) const noexcept {
    return line.sent.load() - line.received.load() < window_;
  }
  void post(int to, Line& line, QueuedMessage& message);
  void post_waiting(int to, Line& line);
  /// False if it could not be sent at once.
  bool keep_until_sent(Line& line, const Work& started);
  void push_awake(Work& work);

  ProcessGroup& group_;
  Acknowledgements& acknowledgements_;
  const bool must_push_;
  const std::chrono::microseconds awake_;
  const std::uint32_t window_;
  std::deque<Line> lines_;
  std::atomic<int> unsent_ = 0;
  SpinLock pushing_;
};

}  // namespace lockstep::rpc
