#pragma once
#include <cstdint>

#include <lockstep/rpc/message.hpp>

namespace lockstep::rpc {

/// A layer's addition to every call and answer, opaque to the agent: bytes that travel with the
/// arguments (OutgoingMessage::context), and a scope around the function's execution. Distributed
/// autograd's context is one. While arguments are written and read, types of that layer reach the
/// message, and so these bytes and the tables of tensors, through OutputArchive::message() and
/// InputArchive::message().
class CallHook {
 public:
  virtual ~CallHook() = default;
  /// Before the arguments of a call, or the result, are written. `scope` is the result of enter()
  /// for the call that is answered; 0 for calls. On the thread that calls or answers.
  virtual void sending(OutgoingMessage& message, std::uint64_t scope) = 0;
  /// Before the arguments of a call are read; leave() comes on the same thread when the function
  /// has returned. The result of enter() is kept until the answer has been sent; if the function
  /// returned a Future, this happens later and on another thread.
  [[nodiscard]] virtual std::uint64_t enter(IncomingMessage& message) = 0;
  virtual void leave(std::uint64_t scope) noexcept = 0;
  /// Before the value of an answer is read.
  virtual void answered(IncomingMessage& message) = 0;
};

/// At most one hook can be set; nullptr removes it. Not while calls are on their way.
void set_call_hook(CallHook* hook) noexcept;
[[nodiscard]] CallHook* call_hook() noexcept;

}  // namespace lockstep::rpc
