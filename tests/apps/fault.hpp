#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include <support/process.hpp>

namespace lockstep::test {

/// A run in which one rank did something on purpose.
struct Fault {
  Finished finished;
  double seconds = 0;  ///< from that moment to the end of the job; 0 if it never came
};

/// Well below the 10 minutes for which a deck's ranks wait by default, and well above what a busy
/// machine takes to end a job.
inline constexpr double soon_s = 30;

/// For runs whose faults end by this deadline of theirs, the job's start included.
inline constexpr double timeout_s = 4;
inline const std::vector<std::string> with_timeout{"--set", "comm.timeout=4"};

/// A command that runs the program misbehave, with an `order` as misbehave.cpp describes it.
inline Fault misbehave(const std::vector<std::string>& command, const std::string& order) {
  const ScratchFolder scratch;
  const std::string mark = scratch.file("mark");
  Fault fault{.finished = run(command, {{"MISBEHAVE", order}, {"MISBEHAVE_MARK", mark}})};
  if (std::filesystem::exists(mark)) fault.seconds = seconds_since_written(mark);
  return fault;
}

inline Fault misbehave(int ranks, const std::string& order,
                       const std::vector<std::string>& arguments) {
  return misbehave(app(ranks, "tests/apps/misbehave", arguments), order);
}

}  // namespace lockstep::test
