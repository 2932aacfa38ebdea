#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/message.hpp>
#include <lockstep/rpc/options.hpp>
#include <lockstep/rpc/reference_handle.hpp>
#include <lockstep/rpc/reply.hpp>

namespace lockstep::rpc {

/// A message while it is written. If it is not sent, its references and its new object are
/// released.
class Draft {
 public:
  /// Of a call by the calling thread's worker. Throws InputError if there is no worker `to`.
  Draft(Kind kind, const To& to);
  /// A call to that object's owner, by the worker that holds the reference.
  Draft(const ReferenceHandle& object, std::chrono::milliseconds timeout);
  /// Of the answer to a call.
  explicit Draft(const Reply& reply);
  ~Draft();
  Draft(const Draft&) = delete;
  Draft& operator=(const Draft&) = delete;

  [[nodiscard]] OutgoingMessage& message() noexcept { return message_; }
  /// Beside the arguments goes a share in that object, which lives until then.
  void bring(const ReferenceHandle& object);
  /// The call, of Kind::create, makes an object of that type.
  void make_object(std::uint64_t type);

  /// Sends a call; `state` will be completed by its answer, or at its deadline.
  void send_call(const Function& function, const IntrusivePtr<FutureState>& state);
  /// This rank's share in the object that a call which was sent makes.
  [[nodiscard]] std::shared_ptr<ReferenceHandle> object();
  /// Sends an answer. If that fails, the caller gets the error.
  void send_answer(const Reply& reply) noexcept;

 private:
  Draft(Agent& agent, Kind kind, const To& to);
  Draft(Agent& agent, Kind kind, int to, std::uint64_t scope);

  Agent& agent_;
  OutgoingMessage message_;
  std::chrono::milliseconds timeout_{0};
  std::shared_ptr<ReferenceHandle> object_;
  bool is_sent_ = false;
};

}  // namespace lockstep::rpc
