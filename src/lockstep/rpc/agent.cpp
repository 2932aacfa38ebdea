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
  if (options.workers >= 0 && options.timeout.count() > 0 && options.inline_bytes >= 0 &&
      options.max_message_bytes > 0 && options.max_tensor_bytes > 0) {
    return;
  }
  throw InputError(fmt::format(
      "rpc::init: the options make no sense: timeout {} ms, {} workers, inline_bytes {}, "
      "max_message_bytes {}, max_tensor_bytes {}",
      options.timeout.count(), options.workers, options.inline_bytes, options.max_message_bytes,
      options.max_tensor_bytes));
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
  return Clock::now() + bounded(agent ? agent->options_.timeout : Options{}.timeout);
}

// ---- making one

Agent::Agent(const std::string& name, ProcessGroup& group, const Options& options)
    : options_(options),
      limits_{options.inline_bytes, options.max_message_bytes, options.max_tensor_bytes},
      id_(group.rank()),
      has_threads_(options.workers > 0 && threads_may_communicate(group)),
      must_push_(std::string_view(group.backend()) == "mpi"),
      thread_rank_(lockstep::thread_rank()),
      math_threads_(math_threads()),
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

void Agent::post(ProcessGroup& group, OutgoingMessage& message, int to, const char* name) {
  // Few messages bring long tensors: their tags are drawn when it is known how many.
  std::uint32_t tag = 0;
  std::uint32_t many = 0;
  for (const Tensor& t : message.tensors()) {
    if (static_cast<std::int64_t>(t.bytes()) > limits_.inline_bytes) ++many;
  }
  if (many > 0) tag = next_tag_.fetch_add(many);
  const Tensor bytes = message.seal(tag);
  const CallLabel label(name, static_cast<int>(message.head().id & 0xffffff));
  Work last = group.isend(bytes, to);
  bool sent = keep_until_sent(last);
  for (const Tensor& t : message.long_tensors()) {
    last = group.isend(t, to, OutgoingMessage::tag_of(tag++));
    sent = keep_until_sent(last);
  }
  if (!sent && stays_awake()) push_awake(last);
}

// A message that finds no room waits here until somebody looks: its sender for a while, then
// whoever waits or receives on this rank. (Its receiver was woken when it was started, and may
// sleep again.)
bool Agent::keep_until_sent(const Work& started) {
  if (!must_push_) return true;  // the receiver fetches it
  Work work = started;
  const bool looks_longer = stays_awake() && unsent_count_.load(std::memory_order_relaxed) == 0;
  if (looks_longer ? work.wait_for(std::chrono::microseconds{0}) : work.test()) return true;
  const std::lock_guard lock(unsent_lock_);
  unsent_.push_back(std::move(work));
  unsent_changed_ = Clock::now();
  unsent_count_.fetch_add(1);
  return false;
}

void Agent::push_awake(Work& work) {
  constexpr std::chrono::microseconds patience{50};
  const auto until = Clock::now() + patience;
  while (!work.test() && Clock::now() < until) sched_yield();
  static_cast<void>(push_unsent(patience));
}

std::chrono::microseconds Agent::push_unsent(std::chrono::microseconds at_most) {
  using std::chrono::microseconds;
  constexpr microseconds shortest{50}, longest{5000};
  if (unsent_count_.load(std::memory_order_relaxed) == 0) return at_most;
  const std::unique_lock lock(unsent_lock_, std::try_to_lock);
  if (!lock) return std::min(at_most, shortest);
  // All of them: one whose receiver was stopped, or has left, holds nobody else's up.
  if (const auto sent = std::erase_if(unsent_, [](Work& work) { return work.test(); }); sent > 0) {
    unsent_count_.fetch_sub(static_cast<int>(sent));
    unsent_changed_ = Clock::now();
  }
  if (unsent_.empty()) return at_most;
  // Longer and longer, as the receiver may have been stopped.
  const auto age = std::chrono::duration_cast<microseconds>(Clock::now() - unsent_changed_);
  return std::min(at_most, std::clamp(age / 8, shortest, longest));
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
  const auto limit =
      floor<std::chrono::milliseconds>(bounded(timeout.count() > 0 ? timeout : options_.timeout));
  Head& head = message.head();
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
      if (head.kind == Kind::create) references_->begin(head.reference, head.fork, id_);
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
      sent_.fetch_add(1);
      try {
        post(*requests_, message, to, function.name);
      } catch (...) {
        sent_.fetch_sub(1);
        throw;
      }
    }
  } catch (...) {
    if (state && calls_.take(head.id).state) calls_.over();
    for (const ReferenceEntry& entry : message.references()) references_->take_back(entry);
    throw;
  }
  // Answers to calls that nobody waits for yet must not pile up.
  constexpr std::size_t many = 64;
  if (calls_.open() >= many) receive_answers_once();
}

void Agent::send_control(OutgoingMessage& message, int to) {
  if (to == id_) {
    IncomingMessage home = brought_home(message);
    references_->handle(home);
    return;
  }
  sent_.fetch_add(1);
  try {
    post(*requests_, message, to, "reference");
  } catch (...) {
    sent_.fetch_sub(1);
    throw;
  }
}

void Agent::answer(const ReplyTo& to, OutgoingMessage& message) {
  try {
    message.head().id = to.id;
    if (to.caller != id_) {
      post(*answers_, message, to.caller, to.function ? to.function->name : "answer");
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

void Agent::refuse(const ReplyTo& to, Status status, const std::string& text) {
  if (to.kind == Kind::create) {
    const char* name = to.function ? to.function->name : "remote";
    references_->complete(
        to.reference,
        std::make_exception_ptr(RemoteError(
            {.rank = id_, .worker = workers_[static_cast<std::size_t>(id_)].name, .function = name},
            text)));
    return;
  }
  OutgoingMessage message(Kind::answer, limits_);
  message.head().status = status;
  message.write(text.data(), text.size());
  answer(to, message);
}

// ---- requests

Request* Agent::receive(std::chrono::microseconds at_most, bool soon) {
  const auto awake = soon ? awake_ : std::chrono::microseconds{0};
  if (unsent_count_.load(std::memory_order_relaxed) == 0) {
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
  try {
    request->message = IncomingMessage(std::move(bytes), from, limits_);
    IncomingMessage& message = request->message;
    const Head& head = message.head();
    if (head.kind == Kind::call || head.kind == Kind::create) {
      references_->take_over(message);
      if (head.kind == Kind::create) references_->begin(head.reference, head.fork, from);
      return request;
    }
    if (head.kind == Kind::control) {
      references_->handle(message);
      count_handled();
    } else if (head.kind == Kind::nudge) {
      nudges_.fetch_sub(1);
    }
  } catch (const std::exception& error) {
    refused_.fetch_add(1);
    count_handled();
    log(LogLevel::warning, fmt::format("{}: a message of rank {} was not executed: {}", speaker(),
                                       from, error.what()));
  }
  ObjectPool<Request>::instance().recycle(request);
  return nullptr;
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
  const auto until = Clock::now() + bounded(options_.timeout);
  for (Work& work : works) {
    while (!work.wait_for(std::chrono::seconds(1), awake_)) {
      if (Clock::now() > until || !open_.load()) {
        throw TimeoutError("the tensors of a call have not come");
      }
    }
  }
}

void Agent::execute(Request* request) noexcept {
  try {
    run(*request);
  } catch (...) {  // NOLINT(bugprone-empty-catch): run() has answered
  }
  ObjectPool<Request>::instance().recycle(request);
}

void Agent::run(Request& request) {
  IncomingMessage& message = request.message;
  const Head& head = message.head();
  Function* const function = find_function(head.function);
  ReplyTo reply{.agent = this,
                .function = function,
                .kind = head.kind,
                .caller = message.from(),
                .id = head.id,
                .reference = head.reference};
  const auto refuse_it = [&](Status status, const std::string& text) {
    refuse(reply, status, text);
    count_handled();
  };
  try {
    receive_tensors(message);
  } catch (const std::exception& error) {
    return refuse_it(Status::threw, error.what());
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
  const std::int64_t start = trace_now();
  try {
    const Entered entered(message);
    reply.scope = entered.scope();
    Execution execution(message, reply);
    function->execute(execution);
  } catch (const MalformedMessage& error) {
    refused_.fetch_add(1);
    refuse_it(Status::malformed, error.what());
  } catch (const std::exception& error) {
    refuse_it(Status::threw, error.what());
  } catch (...) {
    refuse_it(Status::threw, "an exception of unknown type was thrown");
  }
  auto& usual = function->usual_ns;
  usual.store((3 * usual.load(std::memory_order_relaxed) + trace_now() - start) / 4,
              std::memory_order_relaxed);
}

void Agent::nudge() noexcept {
  try {
    OutgoingMessage message(Kind::nudge, limits_);
    post(*requests_, message, id_, "rpc");
    nudges_.fetch_add(1);
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

std::string Agent::unanswered(const CallTable::Entry& entry) const {
  const auto index = static_cast<std::size_t>(entry.to);
  const Station& station = stations_[index];
  std::string text =
      fmt::format("{}: {} on worker {} (rank {}) has not been answered after {:.1f} s", speaker(),
                  entry.name, workers_[index].name, entry.to, seconds_since(entry.start));
  if (station.pid == ::getpid()) {
    return text + ": a thread of this process; it is busy, or waits itself";
  }
  if (station.host != stations_[static_cast<std::size_t>(id_)].host) {
    return text + ": on node " + station.host;
  }
  text += fmt::format(": its process {} on node {} {}", station.pid, station.host,
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
