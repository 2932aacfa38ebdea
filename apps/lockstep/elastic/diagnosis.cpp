#include "diagnosis.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <set>

#include <lockstep/base/error.hpp>
#include <lockstep/base/process_state.hpp>
#include <lockstep/comm/flight/verdict.hpp>

namespace lockstep::elastic {
namespace {

constexpr int sigterm_of_launcher = 128 + 15;

bool is(const Evidence& evidence, ExitCode code) {
  // After a signal mpiexec returns the signal's number, which may equal an exit code.
  return evidence.blame.signal == 0 && evidence.code == static_cast<int>(code);
}

/// The rank that died in a job. srun names the first rank first. mpiexec ends the others before it
/// reports, and then names any of them, so its report counts last. The watched order of deaths
/// counts only if all ranks run on this machine, since ranks here are also ended for a failure
/// elsewhere.
int dead_rank(const Evidence& evidence, const Placement& placement, const RunView& run) {
  const Blame& blame = evidence.blame;
  if (blame.rank >= 0) return blame.rank;
  const bool all_are_here = static_cast<int>(run.ranks().size()) == placement.ranks();
  if (all_are_here && evidence.first_dead >= 0) return evidence.first_dead;
  if (!evidence.rings.empty()) {
    const auto missed = flight_verdict(evidence.rings).ranks;
    if (missed.size() == 1) return missed.front();
  }
  if (blame.pid == 0) return -1;
  const auto process = std::ranges::find(run.ranks(), blame.pid, &RankProcess::pid);
  return process != run.ranks().end() ? process->rank : -1;
}

std::vector<int> stopped_ranks(const std::vector<FlightRing>& rings) {
  std::vector<int> ranks;
  for (const FlightRing& ring : rings) {
    const bool stands =
        ring.observed == ProcessState::stopped || ring.observed == ProcessState::traced;
    if (stands) ranks.push_back(ring.rank);
  }
  return ranks;
}

std::string names(const std::vector<int>& ranks, const Placement& placement) {
  std::vector<std::string> text;
  constexpr std::size_t most = 8;
  for (std::size_t i = 0; i < std::min(most, ranks.size()); ++i)
    text.push_back(fmt::format("{} ({})", ranks[i], placement.host_of(ranks[i])));
  if (ranks.size() > most) text.push_back(fmt::format("{} more", ranks.size() - most));
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s", fmt::join(text, ", "));
}

/// The first rank that recorded why it gave up.
const FlightRing* ring_with_last_words(const std::vector<FlightRing>& rings) {
  const auto at =
      std::ranges::find_if(rings, [](const FlightRing& ring) { return !ring.last_words.empty(); });
  return at == rings.end() ? nullptr : &*at;
}

void diagnose_hung(const Evidence& evidence, const Placement& placement, Ending& ending) {
  ending.why = Why::hung;
  ending.ranks = stopped_ranks(evidence.rings);
  ending.text = fmt::format("no sign of life for {:.0f} s", evidence.silent_s);
  if (!ending.ranks.empty()) {
    ending.text += fmt::format("; stopped: {}", names(ending.ranks, placement));
  } else if (!evidence.rings.empty()) {
    const FlightVerdict verdict = flight_verdict(evidence.rings);
    ending.ranks = verdict.ranks;
    ending.text += "; " + verdict.text;
  }
}

void diagnose_no_answer(const Evidence& evidence, const Placement& placement, Ending& ending) {
  ending.why = Why::no_answer;
  ending.ranks = stopped_ranks(evidence.rings);
  if (ending.ranks.empty() && !evidence.rings.empty())
    ending.ranks = flight_verdict(evidence.rings).ranks;
  ending.text = ending.ranks.empty()
                    ? "communication failed (see its message above)"
                    : fmt::format("no answer from {}", names(ending.ranks, placement));
}

void diagnose_failure(const Evidence& evidence, const Placement& placement,
                      const MemoryWatch& memory, Ending& ending) {
  ending.why = Why::failure;
  ending.text = "it failed (see its message above)";
  const FlightRing* who = ring_with_last_words(evidence.rings);
  if (!who) return;
  ending.ranks = {who->rank};
  ending.text = fmt::format("{} failed: {}", names(ending.ranks, placement), who->last_words);
  if (who->failure_kind != FailureKind::out_of_memory) return;
  ending.why = Why::memory;
  ending.text = fmt::format("{} ran out of memory: it held {}", names(ending.ranks, placement),
                            memory.in_words(who->rank));
}

void diagnose_killed(const Evidence& evidence, const Placement& placement, const RunView& run,
                     const MemoryWatch& memory, Ending& ending) {
  const int rank = dead_rank(evidence, placement, run);
  if (rank >= 0) ending.ranks = {rank};
  if (const auto finding = memory.finding(rank)) {
    ending.why = Why::memory;
    if (finding->rank >= 0) ending.ranks = {finding->rank};
    ending.text = finding->text;
    return;
  }
  ending.why = evidence.blame.out_of_memory ? Why::memory : Why::killed;
  const int signal = evidence.blame.signal;
  const std::string how =
      evidence.blame.out_of_memory
          ? fmt::format("was killed for lack of memory (Slurm's report); it held {}",
                        memory.in_words(rank))
      : signal > 0 ? fmt::format("ended by signal {} ({})", signal, strsignal(signal))
                   : "ended without a message";
  if (rank >= 0) {
    ending.text = fmt::format("{} {}", names(ending.ranks, placement), how);
  } else if (!evidence.blame.host.empty()) {
    ending.text = fmt::format("a rank on {} {}", evidence.blame.host, how);
  } else if (evidence.code == 0) {
    ending.text = "exit code 0, but the run is not complete: a rank left without a message";
  } else {
    ending.text = fmt::format("the launcher ended with exit code {}", evidence.code);
  }
}

/// Of a program with its own loop, where its exit code and not its report decides. False: it does
/// not.
bool diagnose_exit_code(const Evidence& evidence, const RunView& run, Ending& ending) {
  constexpr int most = 127;  // above: what shells make of a signal
  const bool is_own_code = evidence.blame.signal == 0 && evidence.code >= 0 &&
                           evidence.code <= most && evidence.blame.failed_node.empty();
  if (!run.is_own_loop() || !is_own_code) return false;
  if (evidence.code == 0 && run.has_spoken()) {
    ending.why = Why::failure;
    ending.text =
        "exit code 0, but the program has not said that it is complete: main() is to return "
        "StopRequest::exit_code(true)";
    return true;
  }
  if (evidence.code == 0) {
    ending.why = Why::completed;
    ending.text = "completed: exit code 0";
    return true;
  }
  const bool is_known = is(evidence, ExitCode::failure) || is(evidence, ExitCode::communication) ||
                        is(evidence, ExitCode::bad_input) || is(evidence, ExitCode::checkpoint);
  if (is_known) return false;
  ending.why = Why::failure;
  ending.text = fmt::format("a rank ended with exit code {}", evidence.code);
  return true;
}

const char* why_stopped_before(const RunView& run) {
  if (!run.is_own_loop()) return "stopped on request before it began";
  return "ended on request: it has made no train::StopRequest, so it was not asked to save";
}

}  // namespace

Ending diagnose(const Evidence& evidence, const Placement& placement, const RunView& run,
                const MemoryWatch& memory) {
  Ending ending{.code = evidence.code, .ranks = {}, .hosts = {}, .text = "", .step = run.step()};
  const bool saved = is(evidence, ExitCode::requeue) || run.stopped_early();
  const bool never_began =
      evidence.stop_was_asked && evidence.stopped_before_up &&
      (evidence.blame.signal != 0 || evidence.code == sigterm_of_launcher || run.is_own_loop());
  if (run.completed()) {
    ending.why = Why::completed;
    ending.text = "completed";
  } else if (!evidence.nobody_answers.empty()) {
    ending.why = Why::input;
    ending.text = fmt::format(
        "the launcher cannot start a process on any host: {}. Run `{}` by hand to see why",
        evidence.nobody_answers, "mpiexec -hosts HOST -n 1 true");
  } else if (evidence.hung) {
    diagnose_hung(evidence, placement, ending);
  } else if (evidence.unheeded) {
    ending.why = Why::unheeded;
    ending.text = fmt::format("asked to save and end, it went on for {:.0f} s, and was killed",
                              evidence.waited_s);
  } else if (!evidence.blame.failed_node.empty()) {
    ending.why = Why::host_lost;
    ending.hosts = {evidence.blame.failed_node};
    ending.text = fmt::format("node {} has failed (Slurm's report)", evidence.blame.failed_node);
    return ending;
  } else if (evidence.blame.not_started) {
    ending.why = Why::killed;
    ending.text = "srun could not start it (see its message above)";
  } else if (saved && evidence.change_was_asked && !evidence.stop_was_asked) {
    ending.why = Why::members;
    ending.text = fmt::format("saved at step {}, for a change of members", ending.step);
  } else if (saved || never_began) {
    ending.why = Why::stopped;
    ending.text = saved ? fmt::format("stopped on request, saved at step {}", ending.step)
                        : why_stopped_before(run);
  } else if (diagnose_exit_code(evidence, run, ending)) {
    // It is in `ending`.
  } else if (is(evidence, ExitCode::bad_input)) {
    ending.why = Why::input;
    ending.text = "bad command line, deck or data";
  } else if (is(evidence, ExitCode::checkpoint)) {
    ending.why = Why::checkpoint;
    ending.text = "a checkpoint cannot be read or written";
  } else if (is(evidence, ExitCode::failure)) {
    diagnose_failure(evidence, placement, memory, ending);
  } else if (is(evidence, ExitCode::communication)) {
    diagnose_no_answer(evidence, placement, ending);
  } else {
    diagnose_killed(evidence, placement, run, memory, ending);
  }
  std::set<std::string> hosts;
  for (const int rank : ending.ranks) hosts.insert(placement.host_of(rank));
  ending.hosts.assign(hosts.begin(), hosts.end());
  return ending;
}

}  // namespace lockstep::elastic
