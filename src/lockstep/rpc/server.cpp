#include <lockstep/rpc/server.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include <lockstep/base/log.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/base/printable.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/message_port.hpp>
#include <lockstep/rpc/call_hook.hpp>
#include <lockstep/rpc/call_scope.hpp>
#include <lockstep/rpc/function.hpp>

namespace lockstep::rpc {
namespace {

/// The deadline of the caller, counted from now, the arrival.
Clock::time_point deadline_of(const Head& head) {
  return Clock::now() + std::chrono::milliseconds(head.timeout_ms);
}

/// The hook's scope around a function.
class Entered {
 public:
  explicit Entered(IncomingMessage& message) : hook_(call_hook()) {
    if (hook_) scope_ = hook_->enter(message);
  }
  ~Entered() {
    if (hook_) hook_->leave(scope_);
  }
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  [[nodiscard]] std::uint64_t scope() const noexcept { return scope_; }

 private:
  CallHook* hook_;
  std::uint64_t scope_ = 0;
};

}  // namespace

Server::Server(const Parts& parts, int threads, std::function<void()> begin_thread)
    : agent_(parts.agent),
      workers_(parts.workers),
      transport_(parts.transport),
      references_(parts.references),
      answers_(parts.answers),
      termination_(parts.termination),
      availability_(parts.availability),
      has_threads_(threads > 0),
      begin_thread_(std::move(begin_thread)),
      work_(transport_.receive_next(Channel::requests)),
      pool_(*this, std::max(1, threads)) {}

void Server::take(IncomingMessage&& message) {
  references_.take_over(message);
  const Head& head = message.head();
  if (head.kind == Kind::create) {
    references_.begin(head.reference, head.fork, workers_.id(), deadline_of(head));
  }
  auto* const request = ObjectPool<Request>::instance().make();
  request->message = std::move(message);
  transport_.count().sent.fetch_add(1);
  if (has_threads_) {
    pool_.push(request);
  } else {
    (local_last_ ? local_last_->next : local_first_) = request;
    local_last_ = request;
  }
}

bool Server::step() {
  bool some = false;
  if (executing_ < most_on_one_stack && work_.test()) {
    if (Request* request = take_message()) execute(request);
    some = true;
  }
  Request* const request = executing_ < most_on_one_stack ? local_first_ : nullptr;
  if (request) {
    local_first_ = request->next;
    if (!local_first_) local_last_ = nullptr;
    execute(request);
    some = true;
  }
  return some;
}

void Server::nap(std::chrono::microseconds at_most) {
  static_cast<void>(MessagePort::wait_for(work_, at_most, transport_.awake()));
}

// The group cannot be closed while a wake is in flight.
void Server::cancel(std::chrono::milliseconds at_most) {
  const auto begin = Clock::now();
  try {
    while (wake_is_sent_.load() && Clock::now() - begin < at_most) {
      if (Request* late = receive(std::chrono::milliseconds(1), false)) execute(late);
    }
  } catch (const CommError&) {  // NOLINT(bugprone-empty-catch): the group has failed before
  }
  work_.cancel();
}

// ---- answers

void Server::answer(const Reply& to, OutgoingMessage& message) noexcept {
  try {
    message.head().id = to.id;
    if (to.caller != workers_.id()) {
      const char* const name = to.function ? to.function->name : "answer";
      return transport_.send(Channel::answers, message, to.caller, name);
    }
    IncomingMessage back = transport_.loop_back(message);
    references_.take_over(back);
    answers_.take(to.id, back);
  } catch (const std::exception& error) {
    for (const ReferenceEntry& entry : message.references()) {
      references_.take_back(entry);
    }
    if (message.head().status == Status::fine) {
      refuse(to, Status::threw, error.what());
    } else {
      log(LogLevel::warning,
          fmt::format("{}: an answer could not be sent: {}", workers_.own_name(), error.what()));
    }
  }
}

void Server::refuse(const Reply& to, Status status, const std::string& text) noexcept {
  try {
    if (to.kind == Kind::create) {
      const char* name = to.function ? to.function->name : "remote";
      const std::string& worker = workers_.name(workers_.id());
      return references_.complete(
          to.reference, std::make_exception_ptr(RemoteError(
                            {.rank = workers_.id(), .worker = worker, .function = name}, text)));
    }
    OutgoingMessage message(Kind::answer, transport_.limits());
    message.head().status = status;
    constexpr std::int64_t longest = 64 << 10, head_and_note = 256;
    const std::int64_t room = std::min(longest, transport_.limits().message_bytes) - head_and_note;
    const std::string cut = without_middle(text, static_cast<std::size_t>(room));
    message.write(cut.data(), cut.size());
    answer(to, message);
  } catch (const std::exception& error) {  // out of memory
    log(LogLevel::warning,
        fmt::format("{}: a call was not answered: {}", workers_.own_name(), error.what()));
  }
}

// Their callers have given up. Only callers that wait for an object are answered.
void Server::expire_late_answers() noexcept {
  for (const Reply& reply : late_answers_.take_overdue(Clock::now())) {
    if (reply.keeps_result()) {
      refuse(reply, Status::threw,
             "the Future that the function returned had no value at the deadline of the call");
    }
    count_handled();
  }
}

// ---- requests

Request* Server::receive(std::chrono::microseconds at_most, bool soon) {
  const auto awake = soon ? transport_.awake() : std::chrono::microseconds{0};
  if (late_answers_.some()) {
    constexpr std::chrono::milliseconds between_deadlines{100};
    expire_late_answers();
    at_most = std::min<std::chrono::microseconds>(at_most, between_deadlines);
  }
  if (transport_.is_all_sent()) {
    return MessagePort::wait_for(work_, at_most, awake) ? take_message() : nullptr;
  }
  const auto until = Clock::now() + at_most;
  do {
    const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(until - Clock::now());
    if (MessagePort::wait_for(
            work_, transport_.push_unsent(std::max(rest, std::chrono::microseconds{0})), awake)) {
      return take_message();
    }
  } while (Clock::now() < until);
  return nullptr;
}

Request* Server::take_message() {
  const Work done = work_;
  work_ = transport_.receive_next(Channel::requests);
  if (done.cancelled()) return nullptr;
  return admit(done.message(), done.source());
}

Request* Server::admit(Tensor bytes, int from) {
  auto* const request = ObjectPool<Request>::instance().make();
  const std::optional<Head> head_there = head_of(bytes);
  try {
    request->message = IncomingMessage(std::move(bytes), from, transport_.limits());
    IncomingMessage& message = request->message;
    const Head& head = message.head();
    transport_.on_received(Channel::requests, from, head);
    if (head.kind == Kind::call || head.kind == Kind::create) {
      references_.take_over(message);
      if (head.kind == Kind::create) {
        references_.begin(head.reference, head.fork, from, deadline_of(head));
      }
      return request;
    }
    take_notice(message);
  } catch (const CommError&) {
    ObjectPool<Request>::instance().recycle(request);
    throw;
  } catch (const std::exception& error) {
    refuse_malformed(head_there, from, error.what());
  }
  ObjectPool<Request>::instance().recycle(request);
  return nullptr;
}

void Server::take_notice(IncomingMessage& message) {
  const Head& head = message.head();
  const int from = message.from();
  switch (head.kind) {
    case Kind::wake:
      if (from != workers_.id())
        throw MalformedMessage("a message was refused: a rank cannot wake another");
      wake_is_sent_.store(false);
      return;  // it was not counted
    case Kind::control:
      references_.handle(message);
      break;
    case Kind::credit:
      transport_.take_credit(from, head);
      break;
    case Kind::ask:
    case Kind::tell:
      return termination_.take(from, head);  // these have counters of their own
    default:
      throw MalformedMessage("a message was refused: it is not a request");
  }
  count_handled();
}

// The sender has counted the message, so it counts as handled. If its head is readable, the caller
// gets an answer.
void Server::refuse_malformed(const std::optional<Head>& head, int from,
                              const std::string& why) noexcept {
  transport_.count().refused.fetch_add(1);
  log(LogLevel::warning, fmt::format("{}: a message from rank {} was not executed: {}",
                                     workers_.own_name(), from, why));
  if (head && (head->kind == Kind::call || head->kind == Kind::create)) {
    if (head->kind == Kind::create) {
      references_.begin(head->reference, head->fork, from, deadline_of(*head));
    }
    refuse({.agent = &agent_,
            .function = find_function(head->function),
            .kind = head->kind,
            .caller = from,
            .id = head->id,
            .reference = head->reference},
           Status::malformed, why);
  }
  count_handled();
}

bool Server::is_long(const Request& request) noexcept {
  constexpr std::int64_t long_ns = 200'000;  // waking the next receiver takes 30'000 to 100'000
  const Function* const function = find_function(request.message.head().function);
  return function && function->usual_ns.load(std::memory_order_relaxed) > long_ns;
}

void Server::receive_tensors(IncomingMessage& message) {
  if (message.awaited().empty() || message.from() == workers_.id()) return;
  std::vector<Work> works = transport_.receive_tensors(Channel::requests, message);
  const auto until = deadline_of(message.head());
  for (Work& work : works) {
    while (!MessagePort::wait_for(work, std::chrono::milliseconds(200), transport_.awake())) {
      if (Clock::now() > until || !availability_.is_open()) {
        for (Work& given_up : works) given_up.cancel();
        throw TimeoutError("the tensors of a call have not arrived");
      }
    }
  }
}

void Server::execute(Request* request) noexcept {
  if (!has_threads_) ++executing_;
  try {
    run(*request);
  } catch (...) {  // NOLINT(bugprone-empty-catch): run() has answered
  }
  if (!has_threads_) --executing_;
  ObjectPool<Request>::instance().recycle(request);
}

void Server::run(Request& request) {
  IncomingMessage& message = request.message;
  const Head& head = message.head();
  Function* const function = find_function(head.function);
  auto start = Clock::now();
  Reply reply{.agent = &agent_,
              .function = function,
              .kind = head.kind,
              .caller = message.from(),
              .id = head.id,
              .deadline = deadline_of(head),
              .reference = head.reference};
  const auto refuse_call = [&](Status status, const std::string& text) {
    refuse(reply, status, text);
    count_handled();
  };
  try {
    if (!message.awaited().empty()) {
      receive_tensors(message);
      start = Clock::now();
    }
  } catch (...) {
    return refuse_call(Status::threw, text_of(std::current_exception()));
  }
  if (!function) {
    return refuse_call(Status::unknown_function,
                       "no function with this name is registered there (LOCKSTEP_RPC)");
  }
  if (function->signature != head.signature) {
    return refuse_call(
        Status::other_signature,
        fmt::format(
            "its parameters or its result differ there, {}: the ranks run different programs",
            function->signature_text));
  }
  const TraceScope scope("rpc", function->name, "execute", static_cast<std::int64_t>(head.id));
  const InCallScope scope_of_calls({.deadline = reply.deadline, .depth = head.depth});
  try {
    const Entered entered(message);
    reply.scope = entered.scope();
    Execution execution(message, reply);
    function->execute(execution);
  } catch (const MalformedMessage& error) {
    transport_.count().refused.fetch_add(1);
    refuse_call(Status::malformed, error.what());
  } catch (...) {
    refuse_call(Status::threw, text_of(std::current_exception()));
  }
  auto& usual = function->usual_ns;
  usual.store((3 * usual.load(std::memory_order_relaxed) +
               std::chrono::nanoseconds(Clock::now() - start).count()) /
                  4,
              std::memory_order_relaxed);
}

void Server::wake() noexcept {
  if (wake_is_sent_.exchange(true)) return;
  try {
    OutgoingMessage message(Kind::wake, transport_.limits());
    transport_.send_to_self(message);
  } catch (const std::exception&) {  // receive() fails as well then
    wake_is_sent_.store(false);
  }
}

}  // namespace lockstep::rpc
