#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <support/process.hpp>

namespace lockstep::test {

/// A run in which one rank has an injected fault.
struct Fault {
  Finished finished;
  double seconds = 0;  ///< from the fault to the end of the job; 0 if there was none
};

/// Well below the 10 minutes for which ranks wait by default, and well above the time that a busy
/// machine takes to end a job.
inline constexpr double soon_s = 30;

/// For runs whose faults end by their own deadline, including the job's start.
inline const std::vector<std::string> with_timeout{"--set", "comm.timeout=4"};
/// They wait at least that long after the fault: a rank may have been waiting before it.
inline constexpr double least_wait_s = 0.5;

/// Removes the run folder in a command.
inline void remove_run(const std::vector<std::string>& command) {
  const std::string key = "run.dir=\"";
  for (const std::string& word : command) {
    if (!word.starts_with(key)) continue;
    std::filesystem::remove_all(word.substr(key.size(), word.size() - key.size() - 1));
  }
}

/// A command that runs the program misbehave with an `order` as in misbehave.cpp. Ranks of a busy
/// machine may miss a deadline at their start; they are then started once more.
inline Fault misbehave(const std::vector<std::string>& command, const std::string& order) {
  for (int start = 1;; ++start) {
    const ScratchFolder scratch;
    const std::string mark = scratch.file("mark");
    Fault fault{.finished = run(command, {{"MISBEHAVE", order}, {"MISBEHAVE_MARK", mark}})};
    const bool came = std::filesystem::exists(mark);
    if (came) fault.seconds = seconds_since_written(mark);
    const bool is_too_late = !came && fault.finished.exit_code == 3 && !order.starts_with("late");
    if (!is_too_late || start == 3) return fault;
    remove_run(command);
  }
}

inline Fault misbehave(int ranks, const std::string& order,
                       const std::vector<std::string>& arguments) {
  return misbehave(app(ranks, "tests/apps/misbehave", arguments), order);
}

}  // namespace lockstep::test
