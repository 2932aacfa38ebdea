// Killed or stopped ranks.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "fault.hpp"
#include "job.hpp"

namespace lockstep::reliability {
namespace {

using test::Finished;
using test::ScratchFolder;

/// How often ranks 0 and 1 of an undisturbed run make the calls at which they can be killed.
const std::array<std::map<std::string, std::uint32_t>, 2>& calls_of_a_run() {
  static const auto counted = [] {
    const ScratchFolder scratch;
    const std::string mark = scratch.file("mark");
    static_cast<void>(start({.dir = scratch.file("run"), .luck = "-1 count", .mark = mark}));
    std::array<std::map<std::string, std::uint32_t>, 2> all;
    for (int rank = 0; rank < 2; ++rank) {
      std::istringstream counts(test::read_file(mark + "." + std::to_string(rank)));
      std::string call;
      for (std::uint32_t count = 0; counts >> call >> count;)
        all[static_cast<std::size_t>(rank)][call] = count;
    }
    return all;
  }();
  return counted;
}

struct Moment {
  std::string luck, words;
};

/// Up to one and a half times the duration of a run: some tries come too late.
std::uint32_t some_time_us(PhiloxSequence& random) {
  return random.below(static_cast<std::uint32_t>(undisturbed().seconds * 1.5e6));
}

/// Half of the kills are at a time, half at a call of a save.
Moment moment_to_die(PhiloxSequence& random) {
  if (random.below(2) == 0) {
    const int whose = static_cast<int>(random.below(3)) - 1;
    return {std::to_string(whose) + " kill after " + std::to_string(some_time_us(random)),
            whose == -1 ? "both killed at a random time" : "one killed at a random time"};
  }
  constexpr std::array<std::pair<const char*, const char*>, 5> saving = {
      {{"hash", "killed while the state was copied and hashed"},
       {"pwrite", "killed in writing"},
       {"fsync", "killed in writing"},
       {"rename", "killed in publishing"},
       {"link", "killed in publishing"}}};
  const auto& calls = calls_of_a_run();
  for (;;) {
    const auto& [call, words] = saving[random.below(saving.size())];
    const std::uint32_t rank = random.below(2);
    const std::uint32_t count = calls[rank].at(call);
    if (count == 0) continue;  // that rank never makes that call
    return {std::to_string(rank) + " kill " + call + " " + std::to_string(1 + random.below(count)),
            words};
  }
}

/// A job with a randomly chosen kill, repeated until the kill has occurred.
struct Killed {
  std::string luck;
  std::string words;
  std::string error;  ///< it hung, or left a damaged checkpoint
};
Killed kill_somebody(PhiloxSequence& random, Job job) {
  for (;;) {
    const bool goes_on = job.more.end() != std::ranges::find(job.more, "--resume");
    if (!goes_on) std::filesystem::remove_all(job.dir);
    for (int rank = 0; rank < 2; ++rank)
      std::filesystem::remove(job.mark + "." + std::to_string(rank));
    const Moment moment = moment_to_die(random);
    job.luck = moment.luck;
    const Finished finished = start(job);
    Killed killed{moment.luck, moment.words, damaged_checkpoint(job.dir)};
    if (finished.exit_code == 124) killed.error = "it hung: " + told(finished);
    if (has_come(job.mark) || !killed.error.empty()) return killed;
    if (goes_on) return {"nobody", "", ""};  // too little was left to do
  }
}

/// Every other try is killed once more, in its second start.
Outcome kill_and_resume(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"), .mark = scratch.file("mark")};
  Killed killed = kill_somebody(random, job);
  if (killed.error.empty() && random.below(2) == 0) {
    job.more = {"--resume"};
    const Killed again = kill_somebody(random, job);
    killed.luck += ", then " + again.luck;
    killed.error = again.error;
    job.more.clear();
  }
  if (killed.error.empty()) killed.error = resumed_to(undisturbed(), job);
  return killed.error.empty() ? right(killed.words) : wrong(killed.luck + ": " + killed.error);
}

Outcome kill_and_resume_on_others(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"), .more = invariant(), .mark = scratch.file("mark")};
  Killed killed = kill_somebody(random, job);
  job.ranks = random.below(2) == 0 ? 1 : 3;
  if (killed.error.empty()) killed.error = resumed_to(undisturbed(invariant()), job);
  return killed.error.empty() ? right("resumed on " + std::to_string(job.ranks))
                              : wrong(killed.luck + ": " + killed.error);
}

/// The samples of each step of a start.
using Samples = std::vector<std::multiset<int>>;
Samples samples_of(const std::string& record, int ranks) {
  Samples steps;
  for (int rank = 0; rank < ranks; ++rank) {
    std::ifstream in(record + "." + std::to_string(rank));
    std::size_t step = 0;
    for (std::string line; std::getline(in, line) && !in.eof(); ++step) {
      if (steps.size() <= step) steps.resize(step + 1);
      std::istringstream numbers(line);
      for (int number = 0; numbers >> number;) steps[step].insert(number);
    }
  }
  return steps;
}

std::string epochs_are_whole(const Samples& steps) {
  constexpr std::size_t an_epoch = 8;
  constexpr int samples = 190;
  if (steps.size() != 3 * an_epoch) return std::to_string(steps.size()) + " steps were made";
  for (std::size_t epoch = 0; epoch < 3; ++epoch) {
    std::multiset<int> seen;
    for (std::size_t step = 0; step < an_epoch; ++step)
      seen.insert(steps[epoch * an_epoch + step].begin(), steps[epoch * an_epoch + step].end());
    for (int sample = 0; sample < samples; ++sample) {
      if (seen.count(sample) != 1)
        return "sample " + std::to_string(sample) + " came " + std::to_string(seen.count(sample)) +
               " times in epoch " + std::to_string(epoch + 1);
    }
  }
  return "";
}

Outcome kill_and_count_samples(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"),
          .program = "tests/reliability/recorded",
          .mark = scratch.file("mark"),
          .record = scratch.file("first")};
  const Killed killed = kill_somebody(random, job);
  job.luck.clear();
  job.ranks = random.below(2) == 0 ? 1 : 3;
  job.record = scratch.file("second");
  job.more = {"--resume"};
  const Finished rest = start(job);
  if (rest.exit_code != 0) return wrong(killed.luck + ": --resume: " + told(rest));
  Samples steps = samples_of(scratch.file("first"), 2);
  const Samples later = samples_of(scratch.file("second"), job.ranks);
  steps.resize(static_cast<std::size_t>(resumed_at(rest)));
  steps.insert(steps.end(), later.begin(), later.end());
  const std::string error = epochs_are_whole(steps);
  return error.empty() ? right("resumed on " + std::to_string(job.ranks))
                       : wrong(killed.luck + ": " + error + "\n" + told(rest));
}

/// "rank 1 has not entered ...; its process 1234 on node a is stopped (state T)"
bool names_the_stopped(const Finished& finished, std::uint32_t rank) {
  return std::regex_search(finished.output, std::regex("rank " + std::to_string(rank) +
                                                       "[^\n]* is stopped \\(state T\\)"));
}

Outcome stop_and_resume(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"),
          .more = {"--set", "comm.timeout=3"},
          .mark = scratch.file("mark"),
          // The start, the time-out, the ranks' comparison of records, the launcher's end.
          .hung_after_s = 15};
  std::uint32_t rank = 0;
  Finished finished;
  do {
    std::filesystem::remove_all(job.dir);
    rank = random.below(2);
    job.luck = std::to_string(rank) + " stop after " + std::to_string(some_time_us(random));
    finished = start(job);
  } while (!has_come(job.mark));
  const std::string who = job.luck + ": ";
  if (finished.exit_code == 124 && finished.says("\nrun folder  ") &&
      difference(job.dir, undisturbed()).empty())
    return right("complete, the others gone: mpiexec waited for the stopped process");
  if (finished.exit_code != 3 || !names_the_stopped(finished, rank))
    return wrong(who + told(finished));
  job.hung_after_s = 60;
  const std::string error = resumed_to(undisturbed(), job);
  return error.empty() ? right("exit code 3, the rank named; resumed") : wrong(who + error);
}

}  // namespace

std::vector<Fault> faults_of_processes() {
  return {
      {"kill",
       "SIGKILL of a rank or of both, in every other try once more after `--resume`; then "
       "`--resume`: "
       "the undisturbed run's bits and metrics",
       100, 3, kill_and_resume},
      {"kill-invariant",
       "the same with `train.reduction = \"invariant\"`, resumed on another number of ranks", 30, 1,
       kill_and_resume_on_others},
      {"kill-samples",
       "the same with \"fast\", resumed on another number of ranks: each sample once an epoch", 30,
       1, kill_and_count_samples},
      {"stop",
       "SIGSTOP of a rank: exit code 3 and its name after `comm.timeout` (3 s); then `--resume` as "
       "above",
       20, 1, stop_and_resume},
  };
}

}  // namespace lockstep::reliability
