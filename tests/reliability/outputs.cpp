// Standard outputs that block, and clocks that jump.
#include <algorithm>

#include "fault.hpp"
#include "job.hpp"

namespace lockstep::reliability {
namespace {

using test::Finished;
using test::ScratchFolder;

/// A run whose ranks have an output set up by `script`, which gets the command as "$@": two ranks
/// as processes, or as threads. (mpiexec's own output is not tested here.)
Outcome with_output(PhiloxSequence& random, const std::string& script) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run")};
  const bool threads = random.below(2) == 0;
  if (threads) {
    job.ranks = 0;
    job.more = {"--ranks-as-threads", "2"};
  }
  std::vector<std::string> line = command(job);
  const std::vector<std::string> shell{"bash", "-c", "cd " + scratch.path() + "; " + script,
                                       "bash"};
  line.insert(std::ranges::find(line, test::built(job.program)), shell.begin(), shell.end());
  const Finished finished = test::run(line, {}, 60);
  if (finished.exit_code != 0) return wrong(script + ": " + told(finished));
  const std::string error = difference(job.dir, undisturbed());
  if (!error.empty()) return wrong(script + ": " + error + "\n" + told(finished));
  return right(threads ? "completed (ranks are threads)" : "completed");
}

Outcome closed(PhiloxSequence& random) { return with_output(random, "exec \"$@\" >&-"); }
Outcome nobody_reads(PhiloxSequence& random) {
  return with_output(random, "exec 3> >(:); wait $!; exec \"$@\" >&3 3>&-");
}
Outcome device_is_full(PhiloxSequence& random) {
  return with_output(random, "exec \"$@\" >/dev/full");
}
/// The pipe has a reader that reads nothing.
Outcome pipe_is_full(PhiloxSequence& random) {
  return with_output(random,
                     "mkfifo pipe.$$; exec 3<>pipe.$$; head -c 65536 /dev/zero >&3; "
                     "exec \"$@\" >&3");
}

Outcome clock_jumps(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"), .more = {"--set", "run.max_minutes=5"}};
  job.luck = std::to_string(static_cast<int>(random.below(3)) - 1) + " clock after " +
             std::to_string(1000 + random.below(100'000));
  job.mark = scratch.file("mark");
  const Finished finished = start(job);
  if (finished.exit_code != 0 || !has_come(job.mark))
    return wrong(job.luck + ": " + told(finished));
  const std::string error = difference(job.dir, undisturbed());
  return error.empty() ? right("completed") : wrong(job.luck + ": " + error);
}

}  // namespace

std::vector<Fault> faults_of_outputs() {
  return {
      {"stdout-closed", "standard output closed: the undisturbed run's bits and metrics", 10, 1,
       closed},
      {"stdout-full", "on a full device", 10, 1, device_is_full},
      {"pipe-without-reader", "a pipe whose reader has gone", 10, 1, nobody_reads},
      {"pipe-full", "a full pipe whose reader reads nothing", 10, 1, pipe_is_full},
      {"clock",
       "the time of day jumps, by up to a year, every 1 to 101 ms, of one rank or both; as above",
       20, 1, clock_jumps},
  };
}

}  // namespace lockstep::reliability
