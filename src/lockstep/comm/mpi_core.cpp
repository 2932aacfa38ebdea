#include <lockstep/comm/mpi_core.hpp>

#include <fmt/format.h>
#include <sched.h>

#include <numeric>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/mpi_lifetime.hpp>
#include <lockstep/comm/mpi_status.hpp>
#include <lockstep/comm/mpi_work.hpp>

namespace lockstep {
namespace {

/// Waits, to the deadline, until every rank of the caller's communicator is here: what follows is
/// blocking in MPI and cannot time out.
void await_all_ranks(MPI_Comm comm, int rank, int size, const std::string& host,
                     std::chrono::milliseconds timeout) {
  MPI_Request everybody = MPI_REQUEST_NULL;
  check_mpi(MPI_Ibarrier(comm, &everybody), "MPI_Ibarrier");
  const auto start = Clock::now();
  while (true) {
    int here = 0;
    check_mpi(MPI_Test(&everybody, &here, MPI_STATUS_IGNORE), "MPI_Test");
    if (here) return;
    if (Clock::now() - start > timeout) {
      throw TimeoutError(fmt::format(
          "rank {} of {} ({}): make_mpi_group has waited {:.1f} s for the other ranks of "
          "its communicator: at least one has not called it. It is collective: every rank "
          "of the communicator must call it.",
          rank, size, host, seconds_since(start)));
    }
    sched_yield();
  }
}

}  // namespace

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
  await_all_ranks(comm, rank_, size_, host_, options_.timeout);

  std::vector<int> all(static_cast<std::size_t>(size_));
  std::iota(all.begin(), all.end(), 0);
  make_communicators(comm, all);
}

// Not MPI_Comm_dup: that would run the copy callbacks of the caller's attributes.
void MpiCore::make_communicators(MPI_Comm comm, const std::vector<int>& members) {
  constexpr int tag = 0;
  MPI_Group everybody = MPI_GROUP_NULL, group = MPI_GROUP_NULL;
  check_mpi(MPI_Comm_group(comm, &everybody), "MPI_Comm_group");
  check_mpi(MPI_Group_incl(everybody, static_cast<int>(members.size()), members.data(), &group),
            "MPI_Group_incl");
  for (MPI_Comm* made : {&comm_, &message_comm_}) {
    check_mpi(MPI_Comm_create_group(comm, group, tag, made), "MPI_Comm_create_group");
    check_mpi(MPI_Comm_set_errhandler(*made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  }
  MPI_Group_free(&group);
  MPI_Group_free(&everybody);
  check_mpi(MPI_Comm_rank(comm_, &rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm_, &size_), "MPI_Comm_size");
}

int MpiCore::free_communicators() noexcept {
  const int status = MPI_Comm_free(&comm_);
  const int message_status = MPI_Comm_free(&message_comm_);
  return status == MPI_SUCCESS ? message_status : status;
}

IntrusivePtr<MpiCore> MpiCore::subgroup(const std::vector<int>& members) {
  IntrusivePtr<MpiCore> core(new MpiCore);
  core->options_ = options_;
  core->owner_ = owner_;
  core->any_thread_ = any_thread_;
  core->host_ = host_;
  core->make_communicators(comm_, members);
  return core;
}

Work MpiCore::start(Operation operation) {
  expect_callable();
  operation.sequence = ++(operation.is_message() ? message_sequence_ : sequence_);
  if (first_) progress();
  auto* work =
      ObjectPool<MpiWork>::instance().make(IntrusivePtr<MpiCore>(this), std::move(operation));
  const IntrusivePtr<WorkRecord> handle(work);
  const int status = work->start();
  enlist(work);  // also after a failure: some parts may be on their way
  if (status != MPI_SUCCESS) mpi_failed(*work, status);
  return Work(handle);
}

void MpiCore::progress() {
  for (MpiWork* work = first_; work;) {
    MpiWork* next = work->next_;
    const int status = work->advance();
    if (status != MPI_SUCCESS) mpi_failed(*work, status);
    if (work->state_ == MpiWork::State::done) delist(work);
    work = next;
  }
}

void MpiCore::close() {
  if (state_ == State::closed) return;
  expect_callable();
  while (first_) IntrusivePtr<MpiWork>(first_)->wait();
  start(Operation{}).wait();  // a barrier: MPI_Comm_free may wait for the others without a deadline
  state_ = State::closed;
  reason_ = "it was closed. Make a new one, or close it later.";
  const int status = free_communicators();
  const IntrusivePtr<MpiCore> alive(this);
  disown(this);
  check_mpi(status, "MPI_Comm_free");
}

void MpiCore::at_finalize() noexcept {
  // A communicator with operations that can never end is left to MPI: freeing it may wait for them.
  const bool idle = state_ == State::open && !first_;
  if (idle) free_communicators();
  if (state_ == State::open) {
    state_ = State::finalized;
    reason_ = "MPI has been finalised.";
  }
  bury_all();
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
}

void MpiCore::delist(MpiWork* work) noexcept {
  (work->previous_ ? work->previous_->next_ : first_) = work->next_;
  (work->next_ ? work->next_->previous_ : last_) = work->previous_;
  work->previous_ = work->next_ = nullptr;
  work->drop_owner();
}

void MpiCore::poison(const std::string& reason) noexcept {
  state_ = State::poisoned;
  reason_ = reason;
  bury_all();
}

void MpiCore::bury_all() noexcept {
  while (first_) {
    const IntrusivePtr<WorkRecord> record(first_);
    first_->state_ = MpiWork::State::failed;
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

void MpiCore::time_out(const MpiWork& work, double waited_s) {
  const std::string failure =
      fmt::format("{}: {} has not completed after {:.1f} s: {} has not called it", speaker(),
                  describe_fully(work.operation()), waited_s,
                  work.operation().is_message() ? "the other rank" : "at least one rank");
  poison(fmt::format("it failed earlier: {}.", failure));
  throw TimeoutError(
      failure +
      ". Look at the other ranks for an error, a stopped process or calls in another "
      "order; if they are only slow, raise the group's timeout.");
}

void MpiCore::mpi_failed(const MpiWork& work, int status) {
  const std::string failure = fmt::format("{}: {} failed: {}", speaker(),
                                          describe(work.operation()), mpi_error_text(status));
  poison(fmt::format("it failed earlier: {}", failure));
  throw CommError(failure +
                  ". Look at the other ranks and at the network; the job must be restarted.");
}

}  // namespace lockstep
