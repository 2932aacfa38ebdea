#include <lockstep/comm/threads/mailbox.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include <lockstep/comm/call_record.hpp>

namespace lockstep {
namespace {

bool sends(const MessageEnd& end) { return end.operation->kind == Operation::Kind::send; }

bool match(const MessageEnd& sent, const MessageEnd& received) {
  const Operation &from = *sent.operation, &to = *received.operation;
  return from.root == received.rank && from.tag == to.tag &&
         (to.root == any_source || to.root == sent.rank);
}

void deliver(MessageEnd& sent, MessageEnd& received) {
  const Tensor &source = sent.operation->input, &target = received.operation->output;
  if (!target.defined() && source.dtype() == DType::u8) {
    received.message = Tensor::empty({static_cast<std::int64_t>(source.bytes())}, DType::u8);
    std::memcpy(received.message.data(), source.data(), source.bytes());
  } else if (target.defined() && source.dtype() == target.dtype() &&
             source.numel() == target.numel()) {
    elements_of(target, {0, target.numel()}).copy_from(elements_of(source, {0, source.numel()}));
  } else {
    const std::string calls = fmt::format("rank {} called {} where rank {} called {}",
                                          received.rank, describe_fully(*received.operation),
                                          sent.rank, describe_fully(*sent.operation));
    for (MessageEnd* end : {&sent, &received}) {
      end->mismatch = calls +
                      ": a message is received into a tensor of the dtype and the number of "
                      "elements that were sent, and without a length into u8";
    }
  }
  received.source = sent.rank;
  for (MessageEnd* end : {&sent, &received}) end->delivered.store(true, std::memory_order_release);
}

}  // namespace

void Mailbox::post(MessageEnd& end) {
  MessageEnd* const other = meet(end);
  if (!other) return;
  if (sends(end)) {
    deliver(end, *other);
  } else {
    deliver(*other, end);
  }
}

MessageEnd* Mailbox::meet(MessageEnd& end) {
  const bool sending = sends(end);
  const std::lock_guard lock(mutex_);
  const auto other = std::ranges::find_if(waiting_, [&](const MessageEnd* waiting) {
    return sends(*waiting) != sending && (sending ? match(end, *waiting) : match(*waiting, end));
  });
  if (other == waiting_.end()) {
    waiting_.push_back(&end);
    return nullptr;
  }
  MessageEnd* const met = *other;
  waiting_.erase(other);
  return met;
}

bool Mailbox::take_back(const MessageEnd& end) {
  const std::lock_guard lock(mutex_);
  return std::erase(waiting_, &end) > 0;
}

void Mailbox::clear() {
  const std::lock_guard lock(mutex_);
  waiting_.clear();
}

}  // namespace lockstep
