#pragma once
#include <string>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <support/process.hpp>

// Tiny trainings of two ranks, faults in them, and their required outcomes: three epochs of eight
// steps, a checkpoint after each.

namespace lockstep::reliability {

/// How to start a training.
struct Job {
  std::string dir;  ///< its run folder
  int ranks = 2;    ///< 0: without mpiexec
  std::string program = "apps/classify";
  std::vector<std::string> more;  ///< arguments of the command line
  std::string luck;               ///< BAD_LUCK, see bad_luck.cpp; empty: no fault
  std::string mark;               ///< BAD_LUCK_MARK
  std::string record;             ///< RECORD of the program recorded
  double hung_after_s = 60;
};

/// The command, for run().
[[nodiscard]] std::vector<std::string> command(const Job& job);
/// Runs it. After `hung_after_s` it is killed: exit code 124.
[[nodiscard]] test::Finished start(const Job& job);
/// The command as a line for a shell.
[[nodiscard]] std::string in_shell(const std::vector<std::string>& command);

/// Options of a run of shards whose bits do not depend on the number of ranks.
[[nodiscard]] std::vector<std::string> invariant();

/// An undisturbed run.
struct Reference {
  std::string dir;
  double seconds;
};
/// Done once for each options.
[[nodiscard]] const Reference& undisturbed(const std::vector<std::string>& more = {});

/// Whether run `dir` has ended like `reference`: the same bits of weights and optimizer, the same
/// lines of metrics.jsonl except times, completed. Empty, or the first difference.
[[nodiscard]] std::string difference(const std::string& dir, const Reference& reference);
/// Resumes with --resume, and expects the end of `reference`: empty, or the fault.
[[nodiscard]] std::string resumed_to(const Reference& reference, Job job);

/// The step from which a run says it resumed; 0 where it began anew.
[[nodiscard]] std::int64_t resumed_at(const test::Finished& finished);
/// Whether a program has given the reason of its end or a failure.
[[nodiscard]] bool has_said_why(const Job& job, const test::Finished& finished);
/// Whether the fault has occurred on rank `rank`; -1: on any of the first three.
[[nodiscard]] bool has_come(const std::string& mark, int rank = -1);
/// Checkpoints in the run folder that do not verify: empty, or the first message.
[[nodiscard]] std::string damaged_checkpoint(const std::string& dir);

/// For the words of an outcome.
[[nodiscard]] std::string told(const test::Finished& finished);

}  // namespace lockstep::reliability
