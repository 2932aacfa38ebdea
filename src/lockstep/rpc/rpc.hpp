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

/// What a shutdown found.
struct ShutdownReport {
  /// References that this rank still held: they were taken back.
  std::int64_t taken_back = 0;
  /// Objects of this rank that were still referred to after that, and by whom.
  std::vector<std::string> left;
  /// Calls that were not answered: of a shutdown at once only.
  std::int64_t unanswered = 0;
};

/// Makes this rank a worker of that name, which the ranks of `group` call functions of from now on.
/// Groups of its own carry the calls. Collective over `group`, with equal options. Throws
/// InputError on every rank if two names are the same or empty, if two functions are registered
/// under one name, or if the group's backend is neither mpi nor threads; Error if this rank is a
/// worker already. Shut down before MPI_Finalize.
void init(const std::string& name, ProcessGroup& group, const Options& options = {});

/// Ends it. Graceful: collective; waits until every call anywhere is over, takes back the
/// references that are still held, and says what was left (also to the log). Throws TimeoutError
/// when nobody has worked for Options::shutdown_timeout. Otherwise local and soon, whatever the
/// others do: calls that wait get an Error, and theirs to this rank their deadline. Not from within
/// a function that is executed.
ShutdownReport shutdown(bool graceful = true);

/// Executes the calls of others on this thread, for so long: where there are no threads
/// (Options::workers). Elsewhere it only waits.
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
/// starts need one where ranks are threads of one process; elsewhere the process is the rank.
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
