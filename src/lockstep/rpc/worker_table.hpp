#pragma once
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include <lockstep/base/process_state.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/rpc/options.hpp>

namespace lockstep::rpc {

/// All workers of a group, and the processes that they live in. The same on every rank, and never
/// changed.
class WorkerTable {
 public:
  /// Collective over `group`. Throws InputError on every rank if two names are the same or empty,
  /// or if some rank has registered two functions under one name.
  WorkerTable(const std::string& name, ProcessGroup& group);

  [[nodiscard]] int id() const noexcept { return id_; }  ///< of this rank
  [[nodiscard]] int size() const noexcept { return static_cast<int>(workers_.size()); }
  [[nodiscard]] const std::vector<WorkerInfo>& all() const noexcept { return workers_; }
  [[nodiscard]] const std::string& name(int id) const {
    return workers_[static_cast<std::size_t>(id)].name;
  }
  /// Throws InputError if there is no such worker.
  [[nodiscard]] int resolve(const To& to) const;
  /// "rank 0 of 2 (trainer)": this one.
  [[nodiscard]] std::string own_name() const;

  /// Whether the workers of this machine are more than the cores that they may run on.
  [[nodiscard]] bool is_crowded() const;
  /// The state of a worker's process, in words.
  [[nodiscard]] std::string state_of(int worker) const;
  /// Workers of this machine whose processes are stopped or dead. Only on the first rank that is
  /// neither, so that one rank reports.
  [[nodiscard]] std::map<int, ProcessState> stopped_here() const;
  /// "process 4711 on node n3".
  [[nodiscard]] std::string place_of(int worker) const;

 private:
  struct Process {
    std::string name, host;
    int pid = 0, world_rank = -1;
    std::vector<int> cores;  ///< that it may run on

    static auto fields(auto& self) {
      return std::tie(self.name, self.host, self.pid, self.world_rank, self.cores);
    }
  };
  [[nodiscard]] const Process& process(int worker) const {
    return processes_[static_cast<std::size_t>(worker)];
  }

  int id_ = -1;
  std::vector<WorkerInfo> workers_;
  std::vector<Process> processes_;
};

}  // namespace lockstep::rpc
