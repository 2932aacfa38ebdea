#pragma once
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <lockstep/comm/operation.hpp>

namespace lockstep {

/// One end of a message between ranks that are threads of one process. It must not move until it is
/// delivered.
struct MessageEnd {
  int rank = 0;  ///< whose
  const Operation* operation = nullptr;
  int source = -1;                      ///< after delivery
  Tensor message;                       ///< after delivery, if its length was not known before
  std::string mismatch;                 ///< reason why it could not be delivered
  std::atomic<bool> delivered = false;  ///< set last
};

/// Matches the two ends of each message: the first to arrive waits in a list, oldest first.
/// Thread-safe.
class Mailbox {
 public:
  /// Delivers it if the other end is here. Messages are copied at the same time: both ends must
  /// stay until they are delivered.
  void post(MessageEnd& end);
  /// False if it has met the other end: it is delivered, or will be soon.
  [[nodiscard]] bool take_back(const MessageEnd& end);
  /// Lets go of all ends that wait.
  void clear();

 private:
  /// Takes the other end out of the list. If it is not there, `end` waits and this returns nullptr.
  [[nodiscard]] MessageEnd* meet(MessageEnd& end);

  std::mutex mutex_;  // guards the list, not the ends: who takes one out delivers it
  std::vector<MessageEnd*> waiting_;
};

}  // namespace lockstep
