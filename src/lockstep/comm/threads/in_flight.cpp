#include <lockstep/comm/threads/in_flight.hpp>

#include <fmt/format.h>

#include <lockstep/base/pool.hpp>
#include <lockstep/comm/node/eager.hpp>
#include <lockstep/comm/node/memory.hpp>

namespace lockstep {

bool ThreadsInFlight::rendezvous(bool is_next) {
  const Contract contract = core_.options().contract;
  if (!rendezvous_.post(core_.node(), operation(), contract) || !is_next) return false;
  const CallMatch match = rendezvous_.compare(core_.node(), operation(), contract);
  if (match == CallMatch::different) {
    throw OperationFailure(OperationFailure::Kind::mismatch,
                           rendezvous_.mismatch(core_.node(), operation()));
  }
  return match == CallMatch::equal;
}

void ThreadsInFlight::launch() {
  is_launched_ = true;
  if (operation().is_message()) {
    message_.rank = core_.rank();
    message_.operation = &operation();
    core_.shared().mailbox().post(message_);
    if (operation().kind == Operation::Kind::send) core_.node().notify(operation().root);
  } else if (is_eager(operation())) {
    complete_eager(core_.node(), operation());
  } else {
    if (operation().kind == Operation::Kind::all_to_all) expect_matching_lengths();
    in_place_ = true;
  }
}

Motion ThreadsInFlight::transfer() {
  if (!is_launched_) launch();
  if (in_place_) return algorithm_.move(core_.node(), operation(), core_.clock());
  if (!operation().is_message()) return Motion::over;  // eager: completed at launch
  if (cancelled_) return Motion::over;
  if (!message_.delivered.load(std::memory_order_acquire)) return Motion::none;
  if (!message_.mismatch.empty()) {
    throw OperationFailure(OperationFailure::Kind::finding, message_.mismatch);
  }
  return Motion::over;
}

void ThreadsInFlight::cancel_receive() noexcept {
  if (operation().kind != Operation::Kind::receive) return;
  cancelled_ = cancelled_ || core_.shared().mailbox().take_back(message_);
}

void ThreadsInFlight::expect_matching_lengths() {
  const ComputeNode& node = core_.node();
  for (int r = 0; r < node.size(); ++r) {
    const Operation& theirs = *slot_of(node, operation(), r).operation;
    const Block sent = input_block(theirs, node.size(), node.rank());
    const Block expected = output_block(operation(), node.size(), r);
    if (sent.count == expected.count) continue;
    throw OperationFailure(OperationFailure::Kind::finding,
                           fmt::format("rank {} sent {} elements where {} were expected: "
                                       "receive_counts must equal the counts that the others send",
                                       r, sent.count, expected.count));
  }
}

void ThreadsInFlight::release() noexcept { ObjectPool<ThreadsInFlight>::instance().recycle(this); }

}  // namespace lockstep
