#include <lockstep/rpc/transport.hpp>

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/message_port.hpp>

namespace lockstep::rpc {

Transport::Transport(ProcessGroup& group, const Limits& limits, std::chrono::microseconds awake,
                     bool wakes_by_datagrams)
    : limits_(limits),
      rank_(group.rank()),
      awake_(awake),
      requests_in_(group.size()),
      answers_in_(group.size()) {
  for (auto* const channel : {&requests_, &answers_}) {
    *channel = group.split(0, group.rank());
    MessagePort(**channel).enable_wakeup(awake, wakes_by_datagrams);
  }
  const bool must_push = std::string_view(group.backend()) == "mpi";
  requests_out_ = std::make_unique<Outbox>(*requests_, answers_in_, must_push, awake);
  answers_out_ = std::make_unique<Outbox>(*answers_, requests_in_, must_push, awake);
}

void Transport::send(Channel channel, OutgoingMessage& message, int to, const char* name) {
  const Kind kind = message.head().kind;
  const bool is_request = channel == Channel::requests;
  const bool asks_or_tells = kind == Kind::ask || kind == Kind::tell;
  const bool counts = is_request && !asks_or_tells;
  // Few messages carry long tensors, so tags are taken once their number is known.
  std::uint32_t many = 0;
  for (const Tensor& t : message.tensors()) {
    if (static_cast<std::int64_t>(t.bytes()) > limits_.inline_bytes) ++many;
  }
  Outbox::QueuedMessage queued{.waits = kind != Kind::credit && !asks_or_tells,
                               .name = name,
                               .number = static_cast<int>(message.head().id & 0xffffff)};
  if (counts) count_.sent.fetch_add(1);
  try {
    if (many > 0) queued.tag = next_tag_.fetch_add(many);
    queued.bytes = message.seal(queued.tag);
    const auto long_ones = message.long_tensors();
    queued.long_tensors.assign(long_ones.begin(), long_ones.end());
    (is_request ? requests_out_ : answers_out_)->send(to, std::move(queued));
  } catch (...) {
    if (counts) count_.sent.fetch_sub(1);
    throw;
  }
}

void Transport::send_to_self(OutgoingMessage& message) {
  const CallLabel label("rpc");
  static_cast<void>(requests_->isend(message.seal(0), rank_));
}

IncomingMessage Transport::loop_back(OutgoingMessage& message) const {
  IncomingMessage back(message.seal(0), rank_, limits_);
  std::size_t i = 0;
  for (const auto& awaited : back.awaited()) {
    back.set_tensor(awaited.tensor, message.long_tensors()[i++].clone());
  }
  return back;
}

std::chrono::microseconds Transport::push_unsent(std::chrono::microseconds at_most) {
  return answers_out_->push(requests_out_->push(at_most));
}

Work Transport::receive_next(Channel channel) {
  const CallLabel label(serving_label);
  return MessagePort(group(channel)).irecv(any_source);
}

std::vector<Work> Transport::receive_tensors(Channel channel, IncomingMessage& message) {
  message.allocate_awaited();
  std::vector<Work> works;
  works.reserve(message.awaited().size());
  for (const auto& awaited : message.awaited()) {
    works.push_back(
        group(channel).irecv(message.tensors()[awaited.tensor], message.from(), awaited.tag));
  }
  return works;
}

void Transport::on_received(Channel channel, int from, const Head& head, bool tells) {
  const bool is_request = channel == Channel::requests;
  if (is_request && from == rank_) return;  // a wake, which does not pass the outbox
  (is_request ? answers_out_ : requests_out_)->has_received(from, head.received);
  if ((is_request ? requests_in_ : answers_in_).add(from) && tells) send_credit(from);
}

void Transport::take_credit(int from, const Head& head) {
  requests_out_->has_received(from, static_cast<std::uint32_t>(head.id));
}

void Transport::close() {
  requests_->close();
  answers_->close();
}

// A credit may be lost where the group has failed or is shut down.
void Transport::send_credit(int to) noexcept {
  try {
    OutgoingMessage message(Kind::credit, limits_);
    message.head().id = requests_in_.tell(to);
    send(Channel::requests, message, to, "rpc");
  } catch (const std::exception& error) {
    log(LogLevel::debug,
        fmt::format("rank {}: a credit of rpc was not sent: {}", rank_, error.what()));
  }
}

}  // namespace lockstep::rpc
