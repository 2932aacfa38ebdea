#pragma once
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/rpc/call.hpp>
#include <lockstep/rpc/future.hpp>
#include <lockstep/rpc/options.hpp>
#include <lockstep/rpc/rref.hpp>

// Remote procedure calls between the ranks of a group; docs/guide/rpc.md is a guide.

namespace lockstep {
class ProcessGroup;
}

namespace lockstep::rpc {

/// A worker's end of all calls.
class Agent;

/// The findings of a shutdown.
struct ShutdownReport {
  /// References that this rank still held and that were released.
  std::int64_t taken_back = 0;
  /// Objects of this rank that still had references after that, and their holders.
  std::vector<std::string> left;
  /// Unanswered calls: only of an immediate shutdown.
  std::int64_t unanswered = 0;
};

/// Makes this rank a worker of that name, which the ranks of `group` call functions of from now on.
/// Calls travel over duplicate groups of its own. Collective over `group`, with equal options.
/// Throws InputError on every rank if two names are the same or empty, if two functions are
/// registered under one name, or if the group's backend is neither mpi nor threads; Error if this
/// rank is a worker already. Shut down before MPI_Finalize.
void init(const std::string& name, ProcessGroup& group, const Options& options = {});

/// Ends it. Graceful: collective; waits until every call on every rank has completed, releases the
/// references that are still held, and returns (and logs) what was left. Throws TimeoutError when
/// nobody has worked for Options::shutdown_timeout. Otherwise local and soon, whatever the others
/// do: calls that wait get an Error, and theirs to this rank their deadline. Not from within a
/// function that is executed.
ShutdownReport shutdown(bool graceful = true);

/// Executes other ranks' calls on this thread for this long, if there are no pool threads
/// (Options::workers). With pool threads it only waits.
void serve(std::chrono::milliseconds time);
/// The same until `over`, which is asked again and again. Throws InputError if it is empty.
void serve_until(const std::function<bool()>& over);

/// The calling thread's. Throws Error if it is of no worker.
[[nodiscard]] Agent& current_agent();
/// This rank.
[[nodiscard]] WorkerInfo this_worker();
[[nodiscard]] WorkerInfo worker(const To& to);
[[nodiscard]] std::vector<WorkerInfo> all_workers();

/// While it lives, the calling thread works for the rank that `agent` is of. Threads that a rank
/// starts need one if ranks are threads of one process; otherwise the process is the rank.
class WorksFor {
 public:
  explicit WorksFor(Agent& agent);
  ~WorksFor();
  WorksFor(const WorksFor&) = delete;
  WorksFor& operator=(const WorksFor&) = delete;

 private:
  Agent* before_;
};

}  // namespace lockstep::rpc
