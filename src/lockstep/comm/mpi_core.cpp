#include <lockstep/comm/mpi_core.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/flight_log.hpp>
#include <lockstep/comm/mpi_lifetime.hpp>
#include <lockstep/comm/mpi_status.hpp>
#include <lockstep/comm/mpi_work.hpp>
#include <lockstep/comm/process_state.hpp>

namespace lockstep {

MpiCore::MpiCore(MPI_Comm comm, const GroupOptions& options)
    : options_(options), owner_(std::this_thread::get_id()) {
  expect_mpi_running();
  if (comm == MPI_COMM_NULL) {
    throw CommError("make_mpi_group was given MPI_COMM_NULL: this rank belongs to no group.");
  }
  int inter = 0;
  check_mpi(MPI_Comm_test_inter(comm, &inter), "MPI_Comm_test_inter");
  if (inter) {
    throw CommError(
        "make_mpi_group was given an intercommunicator; merge it first "
        "(MPI_Intercomm_merge).");
  }
  int level = MPI_THREAD_SINGLE;
  int is_main = 0;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  any_thread_ = level >= MPI_THREAD_SERIALIZED;
  if (!any_thread_ && !is_main) {
    throw CommError(
        "make_mpi_group was called from a thread that MPI does not allow to communicate. "
        "Call it from the thread that initialised MPI, or initialise with "
        "MPI_THREAD_MULTIPLE.");
  }
  check_mpi(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  host_ = host_name();
  comm_ = duplicate(comm, "make_mpi_group");
  make_the_rest();
  join_engine();
}

// Not by MPI_Comm_create_group, which would spare the caller's attributes their copy functions: it
// blocks in MPI, where ranks that wait do not make room for each other. 8 ranks on 2 cores: 42 ms
// instead of 1.
MPI_Comm MpiCore::duplicate(MPI_Comm comm, const std::string& doing) const {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, &made, &request), "MPI_Comm_idup");
  set_up(doing)(request);
  check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return made;
}

void MpiCore::make_the_rest() {
  message_comm_ = duplicate(comm_, "making a group");
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
  node_ =
      std::make_unique<NodeGroup>(message_comm_, options_.shared_memory, set_up("making a group"));
  warn_of_shortage(node_->shortage(), "The ranks of this machine communicate");
  probes_ = must_probe();
  flight_ = open_flight_log(message_comm_, options_.flight.dir, set_up("making a group"));
}

void MpiCore::warn_of_shortage(const std::string& why, const char* consequence) const {
  if (why.empty()) return;
  log(LogLevel::warning,
      fmt::format("{}: {}. {} through MPI instead, several times slower. Enlarge "
                  "/dev/shm (docker: --shm-size)",
                  speaker(), why, consequence));
}

MpiWait MpiCore::set_up(const std::string& doing) const {
  return {speaker(), doing, options_.timeout};
}

int MpiCore::free_communicators() noexcept {
  int worst = node_->free();
  for (MPI_Comm* comm : {&comm_, &message_comm_}) {
    const int status = MPI_Comm_free(comm);
    if (worst == MPI_SUCCESS) worst = status;
  }
  return worst;
}

IntrusivePtr<MpiCore> MpiCore::subgroup(const std::vector<int>& members) {
  IntrusivePtr<MpiCore> core(new MpiCore);
  core->options_ = options_;
  core->owner_ = owner_;
  core->any_thread_ = any_thread_;
  core->host_ = host_;
  core->comm_ = communicator_of(members, comm_);
  core->make_the_rest();
  core->join_engine();
  return core;
}

Work MpiCore::start(Operation&& operation) {
  const auto locked = lock();
  expect_callable();
  operation.sequence = ++(operation.is_message() ? message_sequence_ : sequence_);
  auto* work =
      ObjectPool<MpiWork>::instance().make(IntrusivePtr<MpiCore>(this), std::move(operation));
  const IntrusivePtr<WorkRecord> handle(work);
  work->ticket_ = flight_.entered(work->operation());
  enlist(work);  // also before a failure: some parts may be on their way
  if (work->operation().is_message()) work->call();
  progress();
  return Work(handle);
}

IntrusivePtr<Storage> MpiCore::allocate_shared(std::size_t bytes) {
  expect_callable();
  start(Operation{}).wait();
  std::string why;
  auto storage = node_->allocate(bytes, set_up("a shared buffer"), why);
  warn_of_shortage(why, "Its tensors travel");
  return storage;
}

std::unique_lock<SpinLock> MpiCore::lock() const {
  return shared_by_threads_ ? std::unique_lock(lock_) : std::unique_lock<SpinLock>();
}

void MpiCore::join_engine() {
  int level = MPI_THREAD_SINGLE;
  check_mpi(MPI_Query_thread(&level), "MPI_Query_thread");
  shared_by_threads_ = level >= MPI_THREAD_MULTIPLE;
  if (options_.progress == Progress::thread && !shared_by_threads_) {
    options_.progress = Progress::poll;
    log(LogLevel::warning,
        speaker() +
            ": MPI was initialised below MPI_THREAD_MULTIPLE, so no thread can move "
            "communication on: progress is made between layers (comm.progress = \"poll\").");
  }
  ProgressEngine::instance().add(*this, shared_by_threads_, options_.progress == Progress::thread);
}

void MpiCore::progress() {
  count_pass();
  for (MpiWork* work = first_; work;) {
    MpiWork* next = work->next_;
    const int status = work->advance();
    if (status != MPI_SUCCESS) mpi_failed(*work, status);
    if (!work->in_flight()) delist(work);
    work = next;
  }
}

void MpiCore::progress_if_free() noexcept {
  std::unique_lock<SpinLock> locked;
  if (shared_by_threads_) {
    locked = std::unique_lock(lock_, std::try_to_lock);
    if (!locked) return;
  }
  if (state_ != State::open) return;
  try {
    progress();
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): the group is poisoned
  }
}

std::string MpiCore::oldest_in_flight() {
  const auto work = oldest();
  return work ? describe_fully(work->operation()) : "";
}

IntrusivePtr<MpiWork> MpiCore::oldest() const {
  const auto locked = lock();
  return IntrusivePtr<MpiWork>(first_);
}

void MpiCore::close() {
  {
    const auto locked = lock();
    if (state_ == State::closed) return;
    expect_callable();
  }
  while (const auto work = oldest()) work->wait();
  start(Operation{}).wait();  // a barrier: MPI_Comm_free may wait for the others without a deadline
  ProgressEngine::instance().remove(*this);
  state_ = State::closed;
  reason_ = "it was closed. Make a new one, or close it later.";
  const int status = free_communicators();
  flight_ = {};
  const IntrusivePtr<MpiCore> alive(this);
  disown(this);
  check_mpi(status, "MPI_Comm_free");
}

void MpiCore::at_finalize() noexcept {
  ProgressEngine::instance().remove(*this);
  // A communicator with operations that can never end is left to MPI: freeing it may wait for them.
  const bool idle = state_ == State::open && !first_;
  if (idle) free_communicators();
  if (state_ == State::open) {
    state_ = State::finalized;
    reason_ = "MPI has been finalised.";
  }
  bury_all();
  flight_ = {};
}

std::string MpiCore::speaker() const {
  return fmt::format("rank {} of {} ({})", rank_, size_, host_);
}

void MpiCore::expect_callable() const {
  if (state_ != State::open) throw CommError(refusal(speaker(), reason_));
  if (!any_thread_) expect_right_thread();
}

void MpiCore::expect_right_thread() const {
  if (std::this_thread::get_id() == owner_) return;
  throw CommError(speaker() +
                  ": a communication was started or awaited on another thread than the one "
                  "that made the group, but MPI was initialised below MPI_THREAD_SERIALIZED. "
                  "Initialise it with MPI_THREAD_MULTIPLE, or communicate from one thread.");
}

void MpiCore::enlist(MpiWork* work) noexcept {
  work->add_owner();
  work->previous_ = last_;
  (last_ ? last_->next_ : first_) = work;
  last_ = work;
  set_busy(true);
  if (options_.progress == Progress::thread) ProgressEngine::instance().wake();
}

void MpiCore::delist(MpiWork* work) noexcept {
  (work->previous_ ? work->previous_->next_ : first_) = work->next_;
  (work->next_ ? work->next_->previous_ : last_) = work->previous_;
  work->previous_ = work->next_ = nullptr;
  if (!first_) set_busy(false);
  if (work->phase_ == MpiWork::Phase::done) flight_.completed(work->ticket_);
  if (!work->operation().is_message() && node_) retire();
  work->drop_owner();
}

// The others may write over slots of collectives that are over here.
void MpiCore::retire() noexcept {
  const MpiWork* oldest = first_;
  while (oldest && oldest->operation().is_message()) oldest = oldest->next_;
  node_->board().retire(oldest ? oldest->operation().sequence - 1 : sequence_);
}

void MpiCore::poison(const std::string& reason) noexcept {
  state_ = State::poisoned;
  reason_ = reason;
  bury_all();
}

void MpiCore::bury_all() noexcept {
  while (first_) {
    const IntrusivePtr<WorkRecord> record(first_);
    first_->phase_ = MpiWork::Phase::failed;
    delist(first_);
    bury(record);
  }
}

void MpiCore::fail(const MpiWork& work, const std::string& finding) {
  const std::string failure =
      fmt::format("{}: {}: {}", speaker(), describe_fully(work.operation()), finding);
  poison(fmt::format("it failed earlier: {}.", failure));
  throw CommError(failure);
}

void MpiCore::mismatch(const MpiWork& work, int node_rank) {
  const Operation& mine = work.operation();
  std::string other = node_->is_whole_group() ? "" : other_nodes_call(work);
  if (node_rank >= 0) {
    const CallRecord& theirs = node_->board().slot(node_rank, mine.sequence).call;
    other = fmt::format("rank {} called {}, another {}", node_->group_rank(node_rank),
                        describe_fully(theirs), differences(record_of(mine), theirs));
  }
  fail(work, other + ": all ranks must make the same calls in the same order");
}

std::string MpiCore::other_nodes_call(const MpiWork& work) const {
  std::string somebody = "a rank of another node called something else";
  if (!node_->is_leader()) return somebody;
  struct Call {
    CallRecord call;
    std::uint64_t fingerprint;  // its counts are in it too
    int rank;
  };
  int nodes = 1;
  check_mpi(MPI_Comm_size(node_->leaders(), &nodes), "MPI_Comm_size");
  const std::uint64_t fingerprint = node_->board().mine(work.operation().sequence).fingerprint;
  const Call mine{record_of(work.operation()), fingerprint, rank_};
  std::vector<Call> all(static_cast<std::size_t>(nodes));
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Iallgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE,
                           node_->leaders(), &request),
            "MPI_Iallgather");
  set_up("comparing calls")(request);
  for (const Call& other : all) {
    if (other.fingerprint == mine.fingerprint) continue;
    return fmt::format("rank {}, on another node, called {}, another {}", other.rank,
                       describe_fully(other.call), differences(mine.call, other.call));
  }
  return somebody;
}

std::string MpiCore::absentees(const MpiWork& work) const {
  const Operation& operation = work.operation();
  if (operation.is_message()) {
    return operation.root == any_source ? "no rank has sent it"
                                        : fmt::format("rank {} has not met it", operation.root);
  }
  const Board& board = node_->board();
  std::string who;
  for (int r = 0; r < node_->size(); ++r) {
    if (board.has_posted(r, operation.sequence)) continue;
    const CallRecord* last = board.last_call(r);
    who += fmt::format("{}rank {} has not entered it ({}; its process {} {})",
                       who.empty() ? "" : "; ", node_->group_rank(r),
                       last ? "its last was " + describe_fully(*last) : "it has called nothing yet",
                       board.pid_of(r), process_state(board.pid_of(r)));
  }
  if (!who.empty()) return who;
  return node_->is_whole_group() ? "every rank has entered it, but not all go on"
                                 : "at least one rank of another node has not entered it";
}

void MpiCore::time_out(const MpiWork& work, double waited_s) {
  std::string failure = fmt::format("{}: {} has not completed after {:.1f} s: {}", speaker(),
                                    describe_fully(work.operation()), waited_s, absentees(work));
  const std::string elsewhere = ProgressEngine::instance().in_flight_elsewhere(this);
  if (!elsewhere.empty()) failure += "; in flight here in another group: " + elsewhere;
  poison(fmt::format("it failed earlier: {}.", failure));
  throw TimeoutError(
      failure +
      ". Look there for an error, a stopped process or calls in another order; if it is only "
      "slow, raise the group's timeout.");
}

void MpiCore::mpi_failed(const MpiWork& work, int status) {
  const std::string failure = fmt::format("{}: {} failed: {}", speaker(),
                                          describe(work.operation()), mpi_error_text(status));
  poison(fmt::format("it failed earlier: {}", failure));
  throw CommError(failure +
                  ". Look at the other ranks and at the network; the job must be restarted.");
}

}  // namespace lockstep
