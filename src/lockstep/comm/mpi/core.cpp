#include <lockstep/comm/mpi/core.hpp>

#include <fmt/format.h>

#include <atomic>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>
#include <lockstep/comm/mpi/flight_log.hpp>
#include <lockstep/comm/mpi/in_flight.hpp>
#include <lockstep/comm/mpi/lifetime.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

/// The entry of `nodes` for `rank`. Throws InputError unless `nodes` has `size` entries.
int pretended_node(const std::vector<std::int64_t>& nodes, int rank, int size) {
  std::int64_t ranks = 0;
  int mine = 0;
  for (const std::int64_t node : nodes) {
    if (node < 1)
      throw InputError(fmt::format("comm.pretended_nodes holds a node of {} ranks", node));
    ranks += node;
    mine += ranks <= rank ? 1 : 0;
  }
  if (nodes.empty() || ranks == size) return mine;
  throw InputError(fmt::format(
      "comm.pretended_nodes has room for {} ranks, but the group has {}. Give it one size a node, "
      "{} in all, or leave it out",
      ranks, size, size));
}

}  // namespace

MpiCore::MpiCore(const GroupOptions& options, int pretended_node)
    : GroupCore(options), pretended_node_(pretended_node) {
  check_mpi(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
}

MpiCore::MpiCore(MPI_Comm comm, const GroupOptions& options) : GroupCore(options) {
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
  int is_main = 0;
  check_mpi(MPI_Query_thread(&thread_level_), "MPI_Query_thread");
  check_mpi(MPI_Is_thread_main(&is_main), "MPI_Is_thread_main");
  if (thread_level_ < MPI_THREAD_SERIALIZED && !is_main) {
    throw CommError(
        "make_mpi_group was called from a thread that MPI does not allow to communicate. "
        "Call it from the thread that initialised MPI, or initialise with "
        "MPI_THREAD_MULTIPLE.");
  }
  int rank_of_process = 0;
  check_mpi(MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_process), "MPI_Comm_rank");
  set_process_rank(rank_of_process);
  int rank = 0, size = 1;
  check_mpi(MPI_Comm_rank(comm, &rank), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &size), "MPI_Comm_size");
  introduce(rank, size, host_name());
  pretended_node_ = pretended_node(options.pretended_nodes, rank, size);
  ranks_ = MpiRanks::of(comm, set_up("make_mpi_group"));
  make_the_rest();
}

void MpiCore::make_the_rest() {
  const MpiWait wait = set_up("making a group");
  probes_ = must_probe();
  node_ = std::make_unique<MpiNode>(ranks_, options().shared_memory, pretended_node_, wait);
  warn_of_shortage(node_->shortage(), "The ranks of this machine communicate");
  record_flight(open_flight_log(ranks_, options().flight.dir, wait));
}

MpiPlace MpiCore::place() const noexcept { return {&ranks_, options().max_count, probes_}; }

void MpiCore::join_engine() { GroupCore::join_engine(thread_level_ >= MPI_THREAD_MULTIPLE); }

void MpiCore::warn_of_shortage(const std::string& why, const char* consequence) const {
  if (why.empty()) return;
  log(LogLevel::warning,
      fmt::format("{}: {}. {} through MPI instead, several times slower. Enlarge "
                  "/dev/shm (docker: --shm-size)",
                  rank_name(), why, consequence));
}

MpiWait MpiCore::set_up(const std::string& doing) const {
  return {rank(), rank_name(), doing, options().timeout};
}

IntrusivePtr<MpiCore> MpiCore::subgroup(const std::vector<int>& members) {
  IntrusivePtr<MpiCore> core(new MpiCore(options(), pretended_node_));
  core->owner_ = owner_;
  const MpiRanks ranks = ranks_.some(members);
  core->introduce(ranks.rank(), ranks.size(), host_name());
  core->ranks_ = ranks.apart(core->set_up("making a group"));
  core->make_the_rest();
  return core;
}

IntrusivePtr<Storage> MpiCore::allocate_shared(std::size_t bytes) {
  start(Operation{}).wait();
  std::string why;
  const auto segment = node_->allocate(bytes, set_up("a shared buffer"), why);
  warn_of_shortage(why, "Its tensors travel");
  if (!segment) return Storage::allocate(bytes);
  const auto locked = lock();
  return node_->adopt(segment, bytes);
}

void MpiCore::enable_wakeup(std::chrono::microseconds awake, bool by_datagrams) {
  if ((*node_)->is_whole_group()) return;  // every rank is notified in shared memory
  std::string why = "it was not asked for";
  std::unique_ptr<DatagramNotifier> notifier;
  if (by_datagrams) {
    try {
      notifier = std::make_unique<DatagramNotifier>(event(), awake);
    } catch (const std::exception& error) {
      why = error.what();
    }
  }
  auto addresses = all_gather_values(notifier ? notifier->address() : NotifierAddress{}, ranks_,
                                     set_up("waking over nodes"));
  for (int r = 0; r < (*node_)->size(); ++r) {
    addresses[static_cast<std::size_t>((*node_)->group_rank(r))] = {};
  }
  const int reached = notifier ? notifier->connect(addresses) : 0;
  if (log_enabled(LogLevel::debug)) {
    log(LogLevel::debug,
        notifier
            ? fmt::format("{}: datagrams to port {} wake this rank; it wakes {} of {} ranks of "
                          "other nodes this way",
                          rank_name(), notifier->address().port, reached, size() - (*node_)->size())
            : fmt::format("{}: no datagrams wake this rank ({}): it polls every 2 ms", rank_name(),
                          why));
  }
  const auto locked = lock();
  datagram_notifier_ = std::move(notifier);
}

void MpiCore::notify(int rank) noexcept {
  (*node_)->notify(rank);
  if (datagram_notifier_) datagram_notifier_->notify(rank);
}

// MPICH answers the sender of a message of some KiB after the receive has completed, when the
// shared queue to the sender was full: in the receiver's next MPI call. Waits for a rendezvous in
// shared memory make none. The probe is for a message that nobody sends: one that finds a message
// lets nothing go on.
void MpiCore::progress_transport() noexcept {
  static std::atomic<Clock::rep> next{0};
  constexpr Clock::duration between{std::chrono::microseconds(50)};
  const Clock::rep now = Clock::now().time_since_epoch().count();
  Clock::rep due = next.load(std::memory_order_relaxed);
  if (now < due || !next.compare_exchange_strong(due, now + between.count())) return;
  int found = 0;
  static_cast<void>(MPI_Iprobe(MPI_ANY_SOURCE, ranks_.tag(MpiRanks::Purpose::set_up, 1),
                               ranks_.collectives(), &found, MPI_STATUS_IGNORE));
}

void MpiCore::close() {
  // With a barrier: MPI_Comm_free may wait for the other ranks without a deadline.
  if (!drain_and_close()) return;
  datagram_notifier_.reset();
  const int status = ranks_.leave();
  const IntrusivePtr<MpiCore> alive(this);
  disown(this);
  check_mpi(status, "MPI_Comm_free");
}

void MpiCore::at_finalize() noexcept {
  // A communicator with operations that can never complete is left to MPI: freeing it may wait for
  // them.
  const bool was_idle = finalize("MPI has been finalised.");
  datagram_notifier_.reset();
  if (was_idle) static_cast<void>(ranks_.leave());
}

void MpiCore::expect_right_thread() const {
  if (thread_level_ >= MPI_THREAD_SERIALIZED || std::this_thread::get_id() == owner_) return;
  throw ErrorOnRank<CommError>(
      {rank(), host_name()},
      rank_name() +
          ": a communication was started or awaited on a thread other than the one that made the "
          "group, but MPI was initialised below MPI_THREAD_SERIALIZED. "
          "Initialise it with MPI_THREAD_MULTIPLE, or communicate from one thread.");
}

// Some reductions use Lockstep's own functions, which run on the host; and few MPI libraries have
// others for devices that do not block.
DeviceReach MpiCore::reach_of(const Operation& operation) const noexcept {
  const bool takes =
      options().cuda_aware_mpi && operation.device.type == DeviceType::cuda && !operation.reduces();
  return takes ? DeviceReach::by_host : DeviceReach::by_pinned_memory;
}

IntrusivePtr<InFlight> MpiCore::make(Operation&& operation) {
  return IntrusivePtr<InFlight>(
      ObjectPool<MpiInFlight>::instance().make(*this, std::move(operation)));
}

std::string MpiCore::missing_ranks(const InFlight& work) const {
  const ComputeNode& node = **node_;
  std::string here = lockstep::missing_ranks(node, work.operation());
  if (!here.empty() || node.is_whole_group()) return here;
  return "at least one rank of another node has not entered it";
}

}  // namespace lockstep
