#include <lockstep/rpc/agent.hpp>

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/flight/verdict.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/comm/thread_level.hpp>
#include <lockstep/rpc/archive.hpp>
#include <lockstep/rpc/call_hook.hpp>
#include <lockstep/rpc/call_scope.hpp>
#include <lockstep/rpc/references.hpp>
#include <lockstep/rpc/rref.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep::rpc {
namespace {

/// All agents of the process. One that is shut down stays: threads may still be looking at it, and
/// futures and references name it.
struct Agents {
  std::mutex mutex;
  std::vector<std::unique_ptr<Agent>> all;
  int open = 0;
  std::atomic<Agent*> only = nullptr;  // the open one, where there is one

  static Agents& of_process() {
    static auto* agents = new Agents;
    return *agents;
  }
};

thread_local Agent* agent_of_thread = nullptr;

std::atomic<CallHook*> the_hook = nullptr;

void expect_backend(const ProcessGroup& group) {
  const std::string_view backend = group.backend();
  if (backend == "mpi" || backend == "threads") return;
  throw InputError(fmt::format(
      "rpc::init: calls travel over groups of the backends mpi and threads, not {}", backend));
}

/// As much of it as an answer may hold.
std::string cut_to_fit(const std::string& text, std::int64_t message_bytes) {
  constexpr std::int64_t longest = 64 << 10, head_and_note = 256;
  const auto room = static_cast<std::size_t>(std::min(longest, message_bytes) - head_and_note);
  if (text.size() <= room) return text;
  std::size_t end = room;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;  // of UTF-8
  return fmt::format("{} ... (cut: {} bytes in all)", text.substr(0, end), text.size());
}

/// Throws the same on every rank.
void expect_names(const std::vector<WorkerInfo>& workers) {
  std::set<std::string> names;
  for (const WorkerInfo& worker : workers) {
    if (worker.name.empty()) {
      throw InputError(fmt::format("rpc::init: rank {} gave no name", worker.id));
    }
    if (!names.insert(worker.name).second) {
      throw InputError(
          fmt::format("rpc::init: two ranks are called \"{}\" (rank {} is one): "
                      "names tell workers apart",
                      worker.name, worker.id));
    }
  }
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

void expect_sensible(const Options& options) {
  if (options.workers >= 0 && options.timeout.count() > 0 &&
      options.shutdown_timeout.count() >= 0 && options.max_depth > 0 && options.inline_bytes >= 0 &&
      options.max_message_bytes >= 1024 && options.max_tensor_bytes > 0) {
    return;
  }
  throw InputError(fmt::format(
      "rpc::init: the options make no sense: timeout {} ms, shutdown_timeout {} ms, {} workers, "
      "max_depth {}, inline_bytes {}, max_message_bytes {} (1024 at least), max_tensor_bytes {}",
      options.timeout.count(), options.shutdown_timeout.count(), options.workers, options.max_depth,
      options.inline_bytes, options.max_message_bytes, options.max_tensor_bytes));
}

}  // namespace

void set_call_hook(CallHook* hook) noexcept { the_hook.store(hook); }
CallHook* call_hook() noexcept { return the_hook.load(std::memory_order_acquire); }

// ---- which agent

void Agent::open(const std::string& name, ProcessGroup& group, const Options& options) {
  expect_backend(group);
  expect_sensible(options);
  if (agent_of_thread && agent_of_thread->open_.load()) {
    throw Error("rpc::init: this rank is a worker already; shut it down first");
  }
  auto made = std::unique_ptr<Agent>(new Agent(name, group, options));
  Agent* const agent = made.get();
  Agents& agents = Agents::of_process();
  {
    const std::lock_guard lock(agents.mutex);
    agents.all.push_back(std::move(made));
    agents.only.store(++agents.open == 1 ? agent : nullptr);
  }
  // A program that ends without shutdown(), by an exception, must not be polling meanwhile.
  static const int registered = std::atexit(&Agent::leave_all);
  static_cast<void>(registered);
  agent_of_thread = agent;
  if (agent->has_threads_) agent->crew_.start();
  group.barrier();  // nobody is called before it is there
}

ShutdownReport Agent::close(Agent& agent, bool graceful) {
  ShutdownReport report = agent.shut_down(graceful);
  Agents& agents = Agents::of_process();
  const std::lock_guard lock(agents.mutex);
  --agents.open;
  agents.only.store(nullptr);
  for (const auto& other : agents.all) {
    if (agents.open == 1 && other->open_.load()) agents.only.store(other.get());
  }
  if (agent_of_thread == &agent) agent_of_thread = nullptr;
  return report;
}

void Agent::leave_all() noexcept {
  try {
    for (const auto& agent : Agents::of_process().all) {
      if (agent->open_.load()) static_cast<void>(agent->shut_down(false));
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the process ends anyway
  }
}

Agent* Agent::current_or_null() noexcept {
  return agent_of_thread ? agent_of_thread : Agents::of_process().only.load();
}

Agent& Agent::current() {
  Agent* const agent = current_or_null();
  if (!agent) {
    throw Error(
        "this thread is of no worker: call rpc::init first, and not after rpc::shutdown; a thread "
        "of one's own, where several ranks are threads of a process, needs an rpc::WorksFor");
  }
  agent->expect_open();
  return *agent;
}

Agent* Agent::exchange_current(Agent* agent) noexcept {
  return std::exchange(agent_of_thread, agent);
}

Clock::time_point Agent::default_deadline() {
  const Agent* const agent = current_or_null();
  return std::min(CallScope::of_thread().deadline,
                  Clock::now() + bounded(agent ? agent->options_.timeout : Options{}.timeout));
}

// ---- making one

Agent::Agent(const std::string& name, ProcessGroup& group, const Options& options)
    : options_(options),
      limits_{options.inline_bytes, options.max_message_bytes, options.max_tensor_bytes},
      id_(group.rank()),
      has_threads_(options.workers > 0 && threads_may_communicate(group)),
      thread_rank_(lockstep::thread_rank()),
      math_threads_(math_threads()),
      requests_in_(group.size()),
      answers_in_(group.size()),
      watch_(group.size()),
      crew_(*this, std::max(1, options.workers)) {
  const std::string twice = registered_twice();
  std::ostringstream mine;
  const auto recorder = FlightRecorder::current();
  mine << ::getpid() << ' ' << (recorder ? recorder->rank() : -1) << ' ' << host_name();
  for (const int core : allowed_cores()) mine << ' ' << core;
  mine << '\n' << twice << '\n' << name;
  for (const std::string& theirs : all_gather_object(group, mine.str())) {
    std::istringstream in(theirs);
    Station station;
    std::string clash, its_name, its_cores;
    in >> station.pid >> station.world_rank >> station.host;
    std::getline(in, its_cores);
    std::istringstream cores(its_cores);
    std::copy(std::istream_iterator<int>(cores), {}, std::back_inserter(station.cores));
    std::getline(in, clash);
    std::getline(in, its_name, '\0');
    if (!clash.empty()) throw InputError("rpc::init: " + clash);
    workers_.push_back({.name = its_name, .id = static_cast<int>(workers_.size())});
    stations_.push_back(std::move(station));
  }
  expect_names(workers_);
  if (is_crowded()) awake_ = std::chrono::microseconds{0};
  static_cast<void>(to_here_function());
  for (auto* const calls : {&requests_, &answers_}) {
    *calls = group.split(0, group.rank());
    (*calls)->wake_over_nodes(awake_, options_.wake_by_datagrams && has_threads_);
  }
  const bool must_push = std::string_view(group.backend()) == "mpi";
  requests_out_ = std::make_unique<Outbox>(*requests_, answers_in_, must_push, awake_);
  answers_out_ = std::make_unique<Outbox>(*answers_, requests_in_, must_push, awake_);
  if (!has_threads_) {  // the calls that are executed share the stack
    constexpr int on_one_stack = 1000;
    options_.max_depth = std::min(options_.max_depth, on_one_stack);
  }
  references_ = std::make_unique<References>(*this);
  const CallLabel label(serving_label);
  request_work_ = requests_->irecv_message(any_source);
  answer_work_ = answers_->irecv_message(any_source);
}

// Who stays awake for an answer takes the core that is to compute it, until the system has had
// enough of that: for milliseconds, as sched_yield() makes no room for processes of other sessions,
// and launchers give each rank one of its own (autogroups, sched(7)).
bool Agent::is_crowded() const {
  const std::string& here = stations_[static_cast<std::size_t>(id_)].host;
  std::size_t workers = 0;
  std::set<int> cores;
  for (const Station& station : stations_) {
    if (station.host != here) continue;
    ++workers;
    cores.insert(station.cores.begin(), station.cores.end());
  }
  return workers > cores.size();
}

int Agent::resolve(const To& to) const {
  if (to.id() >= 0 || to.name().empty()) {
    if (to.id() >= 0 && to.id() < static_cast<int>(workers_.size())) return to.id();
    throw InputError(fmt::format("{}: there is no worker {}; there are {}", speaker(), to.id(),
                                 workers_.size()));
  }
  for (const WorkerInfo& worker : workers_) {
    if (worker.name == to.name()) return worker.id;
  }
  std::string names;
  for (const WorkerInfo& worker : workers_) names += (names.empty() ? "" : ", ") + worker.name;
  throw InputError(
      fmt::format("{}: there is no worker \"{}\"; there are {}", speaker(), to.name(), names));
}

std::string Agent::speaker() const {
  return fmt::format("rank {} of {} ({})", id_, workers_.size(),
                     workers_[static_cast<std::size_t>(id_)].name);
}

void Agent::expect_open() const {
  if (open_.load(std::memory_order_acquire)) return;
  const std::lock_guard lock(reason_mutex_);
  throw CommError(fmt::format("{}: no remote call is possible any more: {}", speaker(), reason_));
}

// ---- sending

void Agent::post(Channel channel, OutgoingMessage& message, int to, const char* name) {
  // Few messages bring long tensors: their tags are drawn when it is known how many.
  std::uint32_t many = 0;
  for (const Tensor& t : message.tensors()) {
    if (static_cast<std::int64_t>(t.bytes()) > limits_.inline_bytes) ++many;
  }
  const bool is_request = channel == Channel::requests;
  const Kind kind = message.head().kind;
  Outbox::Parcel parcel{.waits = kind != Kind::credit && kind != Kind::ask && kind != Kind::tell,
                        .name = name,
                        .number = static_cast<int>(message.head().id & 0xffffff)};
  if (many > 0) parcel.tag = next_tag_.fetch_add(many);
  parcel.bytes = message.seal(parcel.tag);
  const auto long_ones = message.long_tensors();
  parcel.long_tensors.assign(long_ones.begin(), long_ones.end());
  (is_request ? requests_out_ : answers_out_)->send(to, std::move(parcel));
}

void Agent::post_counted(OutgoingMessage& message, int to, const char* name) {
  sent_.fetch_add(1);
  try {
    post(Channel::requests, message, to, name);
  } catch (...) {
    sent_.fetch_sub(1);
    throw;
  }
}

// What may go missing where the group has failed, or is shut down.
void Agent::send_notice(Kind kind, int to) noexcept {
  try {
    OutgoingMessage message(kind, limits_);
    Head& head = message.head();
    if (kind == Kind::credit) {
      head.id = requests_in_.tell(to);
      return post_counted(message, to, "rpc");
    }
    if (kind == Kind::tell) {
      const WorkDone work = work_done();
      head.reference = work.messages;
      head.fork = work.is_busy ? 1 : 0;
    }
    watch_.count_sent(1);
    try {
      post(Channel::requests, message, to, "rpc");
    } catch (...) {
      watch_.count_sent(-1);
      throw;
    }
  } catch (const std::exception& error) {
    log(LogLevel::debug, fmt::format("{}: a notice was not sent: {}", speaker(), error.what()));
  }
}

std::chrono::microseconds Agent::push_unsent(std::chrono::microseconds at_most) {
  return answers_out_->push(requests_out_->push(at_most));
}

IncomingMessage Agent::brought_home(OutgoingMessage& message) {
  const Tensor bytes = message.seal(0);
  IncomingMessage home(bytes, id_, limits_);
  std::size_t i = 0;
  for (const auto& awaited : home.awaited()) {
    home.set_tensor(awaited.tensor, message.long_tensors()[i++].clone());
  }
  return home;
}

void Agent::call(OutgoingMessage& message, int to, const Function& function,
                 const IntrusivePtr<FutureState>& state, std::chrono::milliseconds timeout) {
  expect_open();
  const auto now = Clock::now();
  auto limit =
      floor<std::chrono::milliseconds>(bounded(timeout.count() > 0 ? timeout : options_.timeout));
  const CallScope& within = CallScope::of_thread();
  if (within.depth > 0) limit = limit_within(within, now, limit);
  Head& head = message.head();
  head.depth = within.depth + 1;
  head.function = function.name_hash;
  head.signature = function.signature;
  head.timeout_ms = static_cast<std::uint32_t>(
      std::clamp<std::int64_t>(limit.count(), 1, std::int64_t{0xffffffff}));
  if (state) {
    state->set_deadline(now + limit);
    head.id = calls_.add(
        {.state = state, .name = function.name, .to = to, .start = now, .deadline = now + limit});
    state->set_call(this, head.id);
  }
  try {
    if (to == id_) {
      if (state) state->set_coming();
      IncomingMessage home = brought_home(message);
      references_->take_over(home);
      if (head.kind == Kind::create) {
        references_->begin(head.reference, head.fork, id_, now + limit);
      }
      auto* const request = ObjectPool<Request>::instance().make();
      request->message = std::move(home);
      sent_.fetch_add(1);
      if (has_threads_) {
        crew_.push(request);
      } else {
        (local_last_ ? local_last_->next : local_first_) = request;
        local_last_ = request;
      }
    } else {
      post_counted(message, to, function.name);
    }
  } catch (...) {
    if (state && calls_.take(head.id).state) calls_.over();
    for (const ReferenceEntry& entry : message.references()) references_->take_back(entry);
    throw;
  }
  // Answers to calls that nobody waits for yet must not pile up. What follows one may call again.
  constexpr std::size_t many = 64;
  static thread_local bool receives = false;
  if (calls_.open() < many || receives) return;
  const struct Receiving {
    Receiving() { receives = true; }
    ~Receiving() { receives = false; }
  } receiving;
  receive_answers_once();
}

std::chrono::milliseconds Agent::limit_within(const CallScope& scope, Clock::time_point now,
                                              std::chrono::milliseconds limit) const {
  if (static_cast<int>(scope.depth) >= options_.max_depth) {
    throw Error(fmt::format(
        "{}: {} calls wait for each other, each made within the one before: more than "
        "Options::max_depth allows{}",
        speaker(), scope.depth, has_threads_ ? "" : ", which is 1000 at most without threads"));
  }
  if (scope.deadline == Clock::time_point::max()) return limit;
  const auto left = floor<std::chrono::milliseconds>(scope.deadline - now);
  if (left.count() <= 0) {
    throw TimeoutError(speaker() +
                       ": a function makes a call after the deadline of the call that it serves");
  }
  return std::min(limit, left);
}

void Agent::send_control(OutgoingMessage& message, int to) {
  if (to == id_) {
    IncomingMessage home = brought_home(message);
    references_->handle(home);
    return;
  }
  post_counted(message, to, "reference");
}

void Agent::answer(const ReplyTo& to, OutgoingMessage& message) noexcept {
  try {
    message.head().id = to.id;
    if (to.caller != id_) {
      post(Channel::answers, message, to.caller, to.function ? to.function->name : "answer");
      return;
    }
    IncomingMessage home = brought_home(message);
    references_->take_over(home);
    const CallTable::Entry entry = calls_.take(to.id);
    if (entry.state) complete(entry, home);
  } catch (const std::exception& error) {
    for (const ReferenceEntry& entry : message.references()) {
      references_->take_back(entry);
    }
    if (message.head().status == Status::fine) {
      refuse(to, Status::threw, error.what());
    } else {
      log(LogLevel::warning,
          fmt::format("{}: an answer could not be sent: {}", speaker(), error.what()));
    }
  }
}

void Agent::refuse(const ReplyTo& to, Status status, const std::string& text) noexcept {
  try {
    if (to.kind == Kind::create) {
      const char* name = to.function ? to.function->name : "remote";
      const std::string& worker = workers_[static_cast<std::size_t>(id_)].name;
      return references_->complete(
          to.reference, std::make_exception_ptr(
                            RemoteError({.rank = id_, .worker = worker, .function = name}, text)));
    }
    OutgoingMessage message(Kind::answer, limits_);
    message.head().status = status;
    const std::string cut = cut_to_fit(text, limits_.message_bytes);
    message.write(cut.data(), cut.size());
    answer(to, message);
  } catch (const std::exception& error) {  // no memory
    log(LogLevel::warning, fmt::format("{}: a call was not answered: {}", speaker(), error.what()));
  }
}

// ---- requests

Request* Agent::receive(std::chrono::microseconds at_most, bool soon) {
  const auto awake = soon ? awake_ : std::chrono::microseconds{0};
  if (late_answers_.some()) {
    constexpr std::chrono::milliseconds between_deadlines{100};
    expire_late_answers();
    at_most = std::min<std::chrono::microseconds>(at_most, between_deadlines);
  }
  if (is_all_sent()) {
    return request_work_.wait_for(at_most, awake) ? take_request() : nullptr;
  }
  const auto until = Clock::now() + at_most;
  do {
    const auto rest = std::chrono::duration_cast<std::chrono::microseconds>(until - Clock::now());
    if (request_work_.wait_for(push_unsent(std::max(rest, std::chrono::microseconds{0})), awake)) {
      return take_request();
    }
  } while (Clock::now() < until);
  return nullptr;
}

Request* Agent::take_request() {
  const Work done = request_work_;
  {
    const CallLabel label(serving_label);
    request_work_ = requests_->irecv_message(any_source);
  }
  if (done.cancelled()) return nullptr;
  return admit(done.message(), done.source());
}

Request* Agent::admit(Tensor bytes, int from) {
  auto* const request = ObjectPool<Request>::instance().make();
  const std::optional<Head> head_there = head_of(bytes);
  try {
    request->message = IncomingMessage(std::move(bytes), from, limits_);
    IncomingMessage& message = request->message;
    const Head& head = message.head();
    if (from != id_) {  // a nudge to oneself goes past the outbox
      answers_out_->has_received(from, head.received);
      if (requests_in_.add(from)) send_notice(Kind::credit, from);
    }
    if (head.kind == Kind::call || head.kind == Kind::create) {
      references_->take_over(message);
      if (head.kind == Kind::create) {
        references_->begin(head.reference, head.fork, from, deadline_of(head));
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

void Agent::take_notice(IncomingMessage& message) {
  const Head& head = message.head();
  const int from = message.from();
  switch (head.kind) {
    case Kind::nudge:
      if (from != id_) throw MalformedMessage("a message was refused: nobody nudges another");
      nudges_.fetch_sub(1);
      return;  // was not counted
    case Kind::control:
      references_->handle(message);
      break;
    case Kind::credit:
      requests_out_->has_received(from, static_cast<std::uint32_t>(head.id));
      break;
    case Kind::ask:
      send_notice(Kind::tell, from);
      return watch_.count_handled();
    case Kind::tell:
      watch_.heard(from, {.messages = head.reference, .is_busy = head.fork != 0});
      return watch_.count_handled();
    default:
      throw MalformedMessage("a message was refused: it is no request");
  }
  count_handled();
}

// Its sender has counted it. Where its head can be read, who waits for its answer has one.
void Agent::refuse_malformed(const std::optional<Head>& head, int from,
                             const std::string& why) noexcept {
  refused_.fetch_add(1);
  log(LogLevel::warning,
      fmt::format("{}: a message of rank {} was not executed: {}", speaker(), from, why));
  if (head && (head->kind == Kind::call || head->kind == Kind::create)) {
    if (head->kind == Kind::create) {
      references_->begin(head->reference, head->fork, from, deadline_of(*head));
    }
    refuse({.agent = this,
            .function = find_function(head->function),
            .kind = head->kind,
            .caller = from,
            .id = head->id,
            .reference = head->reference},
           Status::malformed, why);
  }
  count_handled();
}

bool Agent::is_long(const Request& request) noexcept {
  constexpr std::int64_t long_ns = 200'000;  // waking the next receiver takes 30'000 to 100'000
  const Function* const function = find_function(request.message.head().function);
  return function && function->usual_ns.load(std::memory_order_relaxed) > long_ns;
}

void Agent::receive_tensors(IncomingMessage& message) {
  if (message.awaited().empty() || message.from() == id_) return;
  message.allocate_awaited();
  std::vector<Work> works;
  works.reserve(message.awaited().size());
  ProcessGroup& group = message.head().kind == Kind::answer ? *answers_ : *requests_;
  for (const auto& awaited : message.awaited()) {
    works.push_back(group.irecv(message.tensors()[awaited.tensor], message.from(), awaited.tag));
  }
  const auto until = deadline_of(message.head());
  for (Work& work : works) {
    while (!work.wait_for(std::chrono::milliseconds(200), awake_)) {
      if (Clock::now() > until || !open_.load()) {
        for (Work& given_up : works) given_up.cancel();
        throw TimeoutError("the tensors of a call have not come");
      }
    }
  }
}

void Agent::execute(Request* request) noexcept {
  if (!has_threads_) ++executing_;
  try {
    run(*request);
  } catch (...) {  // NOLINT(bugprone-empty-catch): run() has answered
  }
  if (!has_threads_) --executing_;
  ObjectPool<Request>::instance().recycle(request);
}

void Agent::run(Request& request) {
  IncomingMessage& message = request.message;
  const Head& head = message.head();
  Function* const function = find_function(head.function);
  auto start = Clock::now();
  ReplyTo reply{.agent = this,
                .function = function,
                .kind = head.kind,
                .caller = message.from(),
                .id = head.id,
                .deadline = start + bounded(std::chrono::milliseconds(head.timeout_ms)),
                .reference = head.reference};
  const auto refuse_it = [&](Status status, const std::string& text) {
    refuse(reply, status, text);
    count_handled();
  };
  try {
    if (!message.awaited().empty()) {
      receive_tensors(message);
      start = Clock::now();
    }
  } catch (...) {
    return refuse_it(Status::threw, text_of(std::current_exception()));
  }
  if (!function) {
    return refuse_it(Status::unknown_function,
                     "no function of that name is registered there (LOCKSTEP_RPC)");
  }
  if (function->signature != head.signature) {
    return refuse_it(Status::other_signature,
                     fmt::format("it has other parameters or another result there, {}: the ranks "
                                 "run different programs",
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
    refused_.fetch_add(1);
    refuse_it(Status::malformed, error.what());
  } catch (...) {
    refuse_it(Status::threw, text_of(std::current_exception()));
  }
  auto& usual = function->usual_ns;
  usual.store((3 * usual.load(std::memory_order_relaxed) +
               std::chrono::nanoseconds(Clock::now() - start).count()) /
                  4,
              std::memory_order_relaxed);
}

void Agent::nudge() noexcept {
  try {
    OutgoingMessage message(Kind::nudge, limits_);
    nudges_.fetch_add(1);
    const CallLabel label("rpc");
    static_cast<void>(requests_->isend(message.seal(0), id_));
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): receive() fails as well then
  }
}

void Agent::lost(const std::exception& error) noexcept {
  {
    const std::lock_guard lock(reason_mutex_);
    if (open_.exchange(false)) reason_ = error.what();
  }
  fail_all(std::make_exception_ptr(CommError(error.what())));
}

void Agent::moved_in() noexcept {
  agent_of_thread = this;
  static thread_local std::unique_ptr<ThreadRank> identity;
  identity = std::make_unique<ThreadRank>(thread_rank_);
  if (math_threads() != math_threads_) set_math_threads(math_threads_);
}

// ---- what has not been answered

std::string Agent::state_of(int worker) const {
  const Station& station = stations_[static_cast<std::size_t>(worker)];
  if (station.pid == ::getpid()) return "a thread of this process; it is busy, or waits itself";
  if (station.host != stations_[static_cast<std::size_t>(id_)].host) {
    return "on node " + station.host;
  }
  std::string text = fmt::format("its process {} on node {} {}", station.pid, station.host,
                                 words(process_state(station.pid)));
  try {
    if (const auto recorder = FlightRecorder::current(); recorder && station.world_rank >= 0) {
      const FlightRing ring = read_flight_ring(recorder->path().parent_path() /
                                               ring_file_name(recorder->job(), station.world_rank));
      if (const FlightCall* last = newest_completed_call(ring)) {
        text += "; the last operation that it completed was " + last->what;
      }
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then without
  }
  return text;
}

}  // namespace lockstep::rpc
