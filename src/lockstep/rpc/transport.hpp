#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/outbox.hpp>

namespace lockstep::rpc {

enum class Channel : std::uint8_t { requests, answers };

/// The requests that a rank has sent to any worker, and the requests of any worker that have
/// completed here. In the sums over all ranks the two are equal when nothing is on its way.
/// Thread-safe.
struct RequestCount {
  std::atomic<std::int64_t> sent = 0, handled = 0;
  /// Malformed messages that were refused: they may not come from Lockstep, and so are not counted
  /// as sent.
  std::atomic<std::int64_t> refused = 0;
};

/// How messages travel: requests and answers over a group each, of all ranks, with a bounded number
/// on its way to each (outbox.hpp). Thread-safe, except that only one thread at a time may receive
/// on a channel.
class Transport {
 public:
  /// Collective over `group`. `awake`: how long a thread polls for a message before it sleeps.
  Transport(ProcessGroup& group, const Limits& limits, std::chrono::microseconds awake,
            bool wakes_by_datagrams);

  [[nodiscard]] const Limits& limits() const noexcept { return limits_; }
  [[nodiscard]] std::chrono::microseconds awake() const noexcept { return awake_; }
  [[nodiscard]] RequestCount& count() noexcept { return count_; }

  /// To another rank. A request is counted as sent, unless it is only a query or a notice between
  /// workers. The flight recorder shows `name`. Throws.
  void send(Channel channel, OutgoingMessage& message, int to, const char* name);
  /// To this rank itself, past all that waits: ends a receive over Channel::requests.
  void send_to_self(OutgoingMessage& message);
  /// A message from a rank to itself, as its receiver gets it.
  [[nodiscard]] IncomingMessage loop_back(OutgoingMessage& message) const;

  [[nodiscard]] bool is_all_sent() const noexcept {
    return requests_out_->is_pushed() && answers_out_->is_pushed();
  }
  /// Sends queued messages where possible; returns how long the caller may sleep, at most
  /// `at_most`.
  [[nodiscard]] std::chrono::microseconds push_unsent(std::chrono::microseconds at_most);

  /// Starts receiving the next message.
  [[nodiscard]] Work receive_next(Channel channel);
  /// Makes the tensors that follow the message, and starts receiving them.
  [[nodiscard]] std::vector<Work> receive_tensors(Channel channel, IncomingMessage& message);
  /// A message was received. `tells`: send a credit where one is due.
  void on_received(Channel channel, int from, const Head& head, bool tells = true);
  /// A credit was received.
  void take_credit(int from, const Head& head);

  /// Collective: the groups are closed.
  void close();
  /// For collective steps of a shutdown.
  [[nodiscard]] ProcessGroup& group(Channel channel) noexcept {
    return channel == Channel::requests ? *requests_ : *answers_;
  }

 private:
  void send_credit(int to) noexcept;

  Limits limits_;
  RequestCount count_;
  const int rank_;
  const std::chrono::microseconds awake_;
  std::shared_ptr<ProcessGroup> requests_, answers_;
  Acknowledgements requests_in_, answers_in_;
  std::unique_ptr<Outbox> requests_out_, answers_out_;
  std::atomic<std::uint32_t> next_tag_ = 0;
};

}  // namespace lockstep::rpc
