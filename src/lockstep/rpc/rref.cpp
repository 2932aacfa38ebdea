#include <lockstep/rpc/rref.hpp>

#include <string>
#include <utility>

#include <lockstep/rpc/call.hpp>

namespace lockstep::rpc {
namespace {

/// Answers a to_here once the object exists.
class SendsObject final : public Continuation {
 public:
  SendsObject(const Reply& reply, std::uint64_t type, std::shared_ptr<OwnedObject> place)
      : reply_(reply), number_(reply.postpone()), type_(type), place_(std::move(place)) {}

  IntrusivePtr<FutureState> run(FutureState& ready) noexcept override {
    if (!reply_.resume(number_)) return {};
    try {
      if (ready.failed()) std::rethrow_exception(ready.failure());
      send();
    } catch (...) {
      reply_.fail(std::current_exception());
    }
    reply_.end();
    return {};
  }

 private:
  void send() const {
    place_->expect_type(type_);
    if (!place_->type->write) throw Error("the object's type cannot be sent");
    Draft draft(reply_);
    OutputArchive archive(draft.message());
    place_->type->write(archive, place_->object.get());
    draft.send_answer(reply_);
  }

  Reply reply_;
  std::uint64_t number_;  // returned by Reply::postpone()
  std::uint64_t type_;
  std::shared_ptr<OwnedObject> place_;
};

void execute_to_here(Execution& execution) {
  detail::Target target;
  detail::read(execution.message(), target);
  const Reply& reply = execution.reply();
  auto place = reply.find(target.reference);
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
  const Reply& reply = execution.reply();
  auto place = reply.find(target.reference);
  if (!place->ready->wait_until(reply.deadline))
    throw TimeoutError("the object has not been created");
  if (place->ready->failed()) std::rethrow_exception(place->ready->failure());
  place->expect_type(target.type);
  return place;
}

}  // namespace detail
}  // namespace lockstep::rpc
