#include <lockstep/rpc/worker_table.hpp>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <sstream>
#include <utility>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/flight/recorder.hpp>
#include <lockstep/comm/flight/ring.hpp>
#include <lockstep/comm/flight/verdict.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/rpc/function.hpp>

namespace lockstep::rpc {
namespace {

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

}  // namespace

WorkerTable::WorkerTable(const std::string& name, ProcessGroup& group) : id_(group.rank()) {
  const std::string twice = registered_twice();
  std::ostringstream mine;
  const auto recorder = FlightRecorder::current();
  mine << ::getpid() << ' ' << (recorder ? recorder->rank() : -1) << ' ' << host_name();
  for (const int core : allowed_cores()) mine << ' ' << core;
  mine << '\n' << twice << '\n' << name;
  for (const std::string& theirs : all_gather_object(group, mine.str())) {
    std::istringstream in(theirs);
    Process process;
    std::string clash, its_name, its_cores;
    in >> process.pid >> process.world_rank >> process.host;
    std::getline(in, its_cores);
    std::istringstream cores(its_cores);
    std::copy(std::istream_iterator<int>(cores), {}, std::back_inserter(process.cores));
    std::getline(in, clash);
    std::getline(in, its_name, '\0');
    if (!clash.empty()) throw InputError("rpc::init: " + clash);
    workers_.push_back({.name = its_name, .id = size()});
    processes_.push_back(std::move(process));
  }
  expect_names(workers_);
}

int WorkerTable::resolve(const To& to) const {
  if (to.id() >= 0 || to.name().empty()) {
    if (to.id() >= 0 && to.id() < size()) return to.id();
    throw InputError(
        fmt::format("{}: there is no worker {}; there are {}", speaker(), to.id(), size()));
  }
  for (const WorkerInfo& worker : workers_) {
    if (worker.name == to.name()) return worker.id;
  }
  std::string names;
  for (const WorkerInfo& worker : workers_) names += (names.empty() ? "" : ", ") + worker.name;
  throw InputError(
      fmt::format("{}: there is no worker \"{}\"; there are {}", speaker(), to.name(), names));
}

std::string WorkerTable::speaker() const {
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
  if (its.pid == ::getpid()) return "a thread of this process; it is busy, or waits itself";
  if (its.host != process(id_).host) return "on node " + its.host;
  std::string text = fmt::format("its {} {}", place_of(worker), words(process_state(its.pid)));
  try {
    if (const auto recorder = FlightRecorder::current(); recorder && its.world_rank >= 0) {
      const FlightRing ring = read_flight_ring(recorder->path().parent_path() /
                                               ring_file_name(recorder->job(), its.world_rank));
      if (const FlightCall* last = newest_completed_call(ring)) {
        text += "; the last operation that it completed was " + last->what;
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
