#include <lockstep/rpc/draft.hpp>

#include <utility>

#include <lockstep/rpc/agent.hpp>
#include <lockstep/rpc/call_hook.hpp>

namespace lockstep::rpc {

Draft::Draft(Agent& agent, Kind kind, int to, std::uint64_t scope)
    : agent_(agent), message_(kind, agent.limits()) {
  message_.set_to(to);
  if (CallHook* hook = call_hook()) hook->sending(message_, scope);
}

Draft::Draft(Kind kind, const To& to) : Draft(Agent::current(), kind, to) {}

Draft::Draft(Agent& agent, Kind kind, const To& to)
    : Draft(agent, kind, agent.workers().resolve(to), 0) {
  timeout_ = to.timeout();
}

Draft::Draft(const ReferenceHandle& object, std::chrono::milliseconds timeout)
    : Draft(object.agent(), Kind::call, object.owner(), 0) {
  timeout_ = timeout;
}

Draft::Draft(const Reply& reply) : Draft(*reply.agent, Kind::answer, reply.caller, reply.scope) {}

Draft::~Draft() {
  if (is_sent_) return;
  for (const ReferenceEntry& entry : message_.references()) agent_.references().take_back(entry);
  if (object_) agent_.references().forget(*object_);
}

void Draft::bring(const ReferenceHandle& object) {
  static_cast<void>(message_.add(object.give(message_.to())));
}

void Draft::make_object(std::uint64_t type) {
  object_ = agent_.references().create(message_.to(), type);
  message_.head().reference = object_->reference();
  message_.head().fork = object_->fork();
}

void Draft::send_call(const Function& function, const IntrusivePtr<FutureState>& state) {
  agent_.call(message_, message_.to(), function, state, timeout_);
  is_sent_ = true;
}

std::shared_ptr<ReferenceHandle> Draft::object() {
  return agent_.references().settled(std::move(object_));
}

void Draft::send_answer(const Reply& reply) noexcept {
  is_sent_ = true;  // if that fails, the answering function returns what it was given
  agent_.server().answer(reply, message_);
}

}  // namespace lockstep::rpc
