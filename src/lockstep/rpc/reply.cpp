#include <lockstep/rpc/reply.hpp>

#include <utility>

#include <lockstep/rpc/agent.hpp>

namespace lockstep::rpc {

void Reply::keep(std::shared_ptr<void> object, const ObjectType& type) const {
  if (!object) throw Error("the function returned a null pointer instead of an object");
  agent->references().complete(reference, std::move(object), type);
}

void Reply::fail(const std::exception_ptr& why) const noexcept {
  agent->server().refuse(*this, Status::threw, text_of(why));
}

void Reply::end() const noexcept { agent->server().count_handled(); }

std::uint64_t Reply::postpone() const {
  return agent->server().late_answers().add(*this, deadline);
}

bool Reply::resume(std::uint64_t number) const {
  return agent->server().late_answers().take(number);
}

std::shared_ptr<OwnedObject> Reply::find(std::uint64_t object) const {
  return agent->references().find(object, deadline);
}

}  // namespace lockstep::rpc
