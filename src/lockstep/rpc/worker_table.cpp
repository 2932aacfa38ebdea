#include <lockstep/rpc/worker_table.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <set>
#include <utility>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/flight/verdict.hpp>
#include <lockstep/rpc/function.hpp>

namespace lockstep::rpc {
namespace {

/// Throws the same error on every rank.
void expect_names(const std::vector<WorkerInfo>& workers) {
  std::set<std::string> names;
  for (const WorkerInfo& worker : workers) {
    if (worker.name.empty()) {
      throw InputError(fmt::format("rpc::init: rank {} gave no name", worker.id));
    }
    if (!names.insert(worker.name).second) {
      throw InputError(
          fmt::format("rpc::init: two ranks have the name \"{}\" (one is rank {}): a worker's name "
                      "must be unique",
                      worker.name, worker.id));
    }
  }
}

}  // namespace

WorkerTable::WorkerTable(const std::string& name, ProcessGroup& group) : id_(group.rank()) {
  const auto tell = [&] {
    if (const std::string twice = registered_twice(); !twice.empty())
      throw InputError("rpc::init: " + twice);
    const auto recorder = FlightRecorder::current();
    return Process{.name = name,
                   .host = host_name(),
                   .pid = ::getpid(),
                   .world_rank = recorder ? recorder->rank() : -1,
                   .cores = allowed_cores()};
  };
  const auto refuse = [](const AgreedFailure& failure) {
    throw Agreed<InputError>(failure, failure.message);
  };
  processes_ = agree(group, tell, {.refuse = refuse});
  for (const Process& process : processes_)
    workers_.push_back({.name = process.name, .id = size()});
  expect_names(workers_);
}

int WorkerTable::resolve(const To& to) const {
  if (to.id() >= 0 || to.name().empty()) {
    if (to.id() >= 0 && to.id() < size()) return to.id();
    throw InputError(
        fmt::format("{}: there is no worker {}; there are {}", own_name(), to.id(), size()));
  }
  for (const WorkerInfo& worker : workers_) {
    if (worker.name == to.name()) return worker.id;
  }
  std::string names;
  for (const WorkerInfo& worker : workers_) names += (names.empty() ? "" : ", ") + worker.name;
  throw InputError(
      fmt::format("{}: there is no worker \"{}\"; there are {}", own_name(), to.name(), names));
}

std::string WorkerTable::own_name() const {
  return fmt::format("rank {} of {} ({})", id_, size(), name(id_));
}

bool WorkerTable::is_crowded() const {
  std::size_t workers = 0;
  std::set<int> cores;
  for (const Process& other : processes_) {
    if (other.host != process(id_).host) continue;
    ++workers;
    cores.insert(other.cores.begin(), other.cores.end());
  }
  return workers > cores.size();
}

std::string WorkerTable::place_of(int worker) const {
  return fmt::format("process {} on node {}", process(worker).pid, process(worker).host);
}

std::string WorkerTable::state_of(int worker) const {
  const Process& its = process(worker);
  if (its.pid == ::getpid()) return "a thread of this process; it is busy, or waits too";
  if (its.host != process(id_).host) return "on node " + its.host;
  std::string text = fmt::format("its {} {}", place_of(worker), words(process_state(its.pid)));
  try {
    if (const auto recorder = FlightRecorder::current(); recorder && its.world_rank >= 0) {
      const FlightRing ring = read_flight_ring(recorder->path().parent_path() /
                                               ring_file_name(recorder->job(), its.world_rank));
      if (const FlightCall* last = newest_completed_call(ring)) {
        text += "; its last completed operation was " + last->what;
      }
    }
  } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): then without
  }
  return text;
}

std::map<int, ProcessState> WorkerTable::stopped_here() const {
  std::map<int, ProcessState> stopped;
  int speaks = -1;
  for (const WorkerInfo& worker : workers_) {
    if (process(worker.id).host != process(id_).host) continue;
    const ProcessState state = process_state(process(worker.id).pid);
    if (!can_run(state)) {
      stopped[worker.id] = state;
    } else if (speaks < 0) {
      speaks = worker.id;
      if (speaks != id_) return {};
    }
  }
  return stopped;
}

}  // namespace lockstep::rpc
