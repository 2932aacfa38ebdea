#pragma once
#include <cstdint>
#include <exception>
#include <memory>

#include <lockstep/base/clock.hpp>
#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/object_type.hpp>

namespace lockstep::rpc {

class Agent;
struct Function;
struct OwnedObject;

/// A call that is executing, or whose function has returned a Future, with its caller.
struct Reply {
  Agent* agent = nullptr;
  const Function* function = nullptr;
  Kind kind = Kind::call;
  int caller = -1;
  std::uint64_t id = 0;
  Clock::time_point deadline = Clock::time_point::max();  ///< of the caller
  std::uint64_t reference = 0;                            ///< of create: the new object
  std::uint64_t scope = 0;                                ///< CallHook

  /// True if the result stays here, as an object.
  [[nodiscard]] bool keeps_result() const noexcept { return kind == Kind::create; }
  /// Makes it the object. Throws Error if it is null.
  void keep(std::shared_ptr<void> object, const ObjectType& type) const;
  /// Sends the caller the exception.
  void fail(const std::exception_ptr& why) const noexcept;
  /// The call is over, its answer sent.
  void end() const noexcept;

  /// Marks the call as answered after its function returns; returns its number.
  [[nodiscard]] std::uint64_t postpone() const;
  /// True while it still needs an answer: once, and not after its deadline.
  [[nodiscard]] bool resume(std::uint64_t number) const;

  /// The place of an object of this rank; waits until its creation has started.
  [[nodiscard]] std::shared_ptr<OwnedObject> find(std::uint64_t reference) const;
};

/// A call while its function is executed.
class Execution {
 public:
  Execution(IncomingMessage& message, const Reply& reply) : message_(message), reply_(reply) {}
  [[nodiscard]] IncomingMessage& message() const noexcept { return message_; }
  [[nodiscard]] const Reply& reply() const noexcept { return reply_; }

 private:
  IncomingMessage& message_;
  Reply reply_;
};

}  // namespace lockstep::rpc
