#include <lockstep/rpc/rref.hpp>

#include <fmt/format.h>

#include <string>
#include <utility>

#include <lockstep/rpc/call.hpp>

namespace lockstep::rpc {
namespace {

void expect_type(std::uint64_t given, const OwnedObject& place) {
  if (given == place.type->number) return;
  throw Error("the object is of another type than the reference says");
}

/// Answers a to_here once the object is there.
class SendsObject final : public Continuation {
 public:
  SendsObject(const ReplyTo& reply, std::uint64_t type, std::shared_ptr<OwnedObject> place)
      : reply_(reply),
        number_(reply.agent->late_answers().add(reply, reply.deadline)),
        type_(type),
        place_(std::move(place)) {}

  IntrusivePtr<FutureState> run(FutureState& ready) noexcept override {
    if (!reply_.agent->late_answers().take(number_)) return {};
    try {
      if (ready.failed()) std::rethrow_exception(ready.failure());
      send();
    } catch (...) {
      reply_.agent->refuse(reply_, Status::threw, text_of(std::current_exception()));
    }
    reply_.agent->count_handled();
    return {};
  }

 private:
  void send() const {
    expect_type(type_, *place_);
    if (!place_->type->write) throw Error("the object is of a type that cannot be sent");
    Agent& agent = *reply_.agent;
    OutgoingMessage message(Kind::answer, agent.limits());
    message.set_to(reply_.caller);
    if (CallHook* hook = call_hook()) hook->sending(message, reply_.scope);
    try {
      OutputArchive archive(message);
      place_->type->write(archive, place_->object.get());
    } catch (...) {
      for (const ReferenceEntry& entry : message.references()) {
        agent.references().take_back(entry);
      }
      throw;
    }
    agent.answer(reply_, message);
  }

  ReplyTo reply_;
  std::uint64_t number_;  // LateAnswers
  std::uint64_t type_;
  std::shared_ptr<OwnedObject> place_;
};

void execute_to_here(Execution& execution) {
  detail::Target target;
  detail::read(execution.message(), target);
  const ReplyTo& reply = execution.reply();
  auto place = reply.agent->references().find(target.reference, reply.deadline);
  FutureState& ready = *place->ready;
  ready.then(std::make_unique<SendsObject>(reply, target.type, std::move(place)));
}

void to_here() {}

Function to_here_entry{.name = "RRef::to_here",
                       .pointer = pointer_to(&to_here),
                       .signature_text = "lockstep::rpc::to_here",
                       .execute = &execute_to_here};

}  // namespace

const Function& to_here_function() {
  static const bool added = [] {
    add_function(to_here_entry);
    return true;
  }();
  static_cast<void>(added);
  return to_here_entry;
}

namespace detail {

std::shared_ptr<OwnedObject> object_of(const Execution& execution, const Target& target) {
  const auto deadline = execution.reply().deadline;
  auto place = execution.reply().agent->references().find(target.reference, deadline);
  if (!place->ready->wait_until(deadline)) throw TimeoutError("the object has not been made");
  if (place->ready->failed()) std::rethrow_exception(place->ready->failure());
  expect_type(target.type, *place);
  return place;
}

std::shared_ptr<void> local_object(const ReferenceHandle& handle) {
  References& references = handle.references();
  if (handle.owner() != references.agent().id()) {
    throw Error(fmt::format(
        "{}: local_value() was asked of a reference whose object is on rank {}: use to_here(), or "
        "call a method",
        references.agent().speaker(), handle.owner()));
  }
  const auto place = references.find(handle.reference(), Agent::default_deadline());
  place->ready->wait();
  expect_type(handle.type(), *place);
  return place->object;
}

}  // namespace detail
}  // namespace lockstep::rpc
