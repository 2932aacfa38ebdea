#include "supervisor.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <thread>

#include <lockstep/io/file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/run/elastic_report.hpp>

#include "leftovers.hpp"
#include "stop_signals.hpp"

namespace lockstep::elastic {
namespace {

constexpr Seconds look_each{0.25};
constexpr double last_words_s = 5;     // between SIGTERM and SIGKILL for a hanging job
constexpr double ask_again_s = 30;     // the first signal may have come too early
constexpr double second_stop_s = 0.5;  // a second signal sooner than this is a copy of the first

std::atomic<int> stops{0};
std::atomic<std::int64_t> first_stop_ms{0};

std::int64_t now_ms() {
  return std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now().time_since_epoch())
      .count();
}

void note_stop(int /*signal*/) {
  std::int64_t none = 0;
  first_stop_ms.compare_exchange_strong(none, now_ms());
  stops = now_ms() - first_stop_ms < second_stop_s * 1e3 ? 1 : stops + 1;
}

Clock::duration to_duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(Seconds(seconds));
}

bool is_in_allocation() { return std::getenv("SLURM_JOB_ID") != nullptr; }

Members make_members(const Options& options) {
  if (!options.members.empty()) return members_of_file(options.members);
  if (is_in_allocation()) return members_of_slurm();
  return members_of_this_machine(options.max);
}

Launcher make_launcher(const Options& options) {
  const bool on_slurm = options.members.empty() && is_in_allocation();
  const std::string usual = on_slurm ? "srun" : usual_mpiexec();
  return {launcher_words(options.launcher.empty() ? usual : options.launcher),
          on_slurm || !options.members.empty()};
}

ExitCode code_after(const Ending& ending) {
  const bool own = ending.why == Why::failure || ending.why == Why::memory;
  return own ? ExitCode::failure : ExitCode::communication;
}

}  // namespace

Supervisor::Supervisor(const Options& options)
    : options_(options),
      hang_after_is_given_(options.hang_after > 0),
      assignment_(read_assignment(options)),
      members_(make_members(options)),
      launcher_(make_launcher(options)),
      run_(assignment_.run_dir, assignment_.own_loop),
      history_(assignment_.run_dir),
      budget_(options.restarts, Seconds(options.within)) {
  constexpr double longer_than_ranks_wait_s = 60;
  if (options_.hang_after <= 0)
    options_.hang_after = assignment_.comm_timeout_s + longer_than_ranks_wait_s;
  expect_no_launcher("lockstep elastic");
  const Hosts hosts = members_(true);
  if (options.members.empty() && place(hosts, assignment_.sizes).ranks() == 0) {
    throw InputError(
        fmt::format("{} ranks are needed at least{}, but the allocation has fewer slots",
                    assignment_.sizes.smallest(),
                    assignment_.condition.empty() ? " (--min)" : ": " + assignment_.condition));
  }
  if (assignment_.own_loop) take_folder();
}

void Supervisor::take_folder() {
  const auto& dir = assignment_.run_dir;
  try {
    lock_.emplace(dir);
  } catch (const FileError& error) {
    throw InputError(
        fmt::format("{}. Name a folder for what lockstep elastic writes with --dir", error.what()));
  }
  lock_refreshed_ = Clock::now();
  std::error_code ignored;
  std::filesystem::remove(dir / train::ElasticReport::file_name, ignored);  // an earlier run's
  history_.folder_is_there();
}

void Supervisor::show_life_in_folder() {
  if (!lock_ || Clock::now() - lock_refreshed_ < FolderLock::heartbeat) return;
  lock_->refresh();
  lock_refreshed_ = Clock::now();
}

ExitCode Supervisor::over(Why why, ExitCode code, const std::string& text) {
  history_.over(why, static_cast<int>(code), text);
  return code;
}

/// mpiexec gets SIGTERM when its supervisor dies, and its ranks save before they end.
void Supervisor::wait_for_leftovers() {
  constexpr double looked_each_s = 0.1;
  const auto begun = Clock::now();
  for (bool said = false; seconds_since(begun) < options_.wait; said = true) {
    const auto processes = leftovers(assignment_.run_dir);
    if (processes.empty()) return;
    if (!said) {
      history_.note(
          fmt::format("waiting for {} process{} of this run left behind by a killed supervisor: {}",
                      processes.size(), processes.size() == 1 ? "" : "es",
                      fmt::join(processes, ", ")),
          "wait");
    }
    if (!sleep(looked_each_s)) return;
  }
}

ExitCode Supervisor::run() {
  on_stop_signals(note_stop);
  wait_for_leftovers();
  for (int number = 1;; ++number) {
    const auto placement = wait_for_members();
    if (!placement && stops > 0)
      return over(Why::stopped, ExitCode::requeue, "stopped on request while it waited");
    if (!placement) {
      return over(Why::too_few, ExitCode::requeue,
                  fmt::format("giving up: fewer than {} slots for {:.0f} s",
                              assignment_.sizes.smallest(), options_.wait));
    }
    tell_of_idle_slots(*placement);
    Ending ending = run_start(number, *placement);
    history_.end(number, *placement, ending);
    if (const auto code = final_code(ending)) return *code;
    expect_working_directory();  // on each attempt mpiexec ends by a signal without one
    if (ending.why == Why::members) continue;
    if (const auto code = answer_failure(ending, *placement)) return *code;
  }
}

Hosts Supervisor::available(bool now) const { return losses_.left(members_(now), Clock::now()); }

void Supervisor::tell_of_idle_slots(const Placement& placement) {
  std::int64_t slots = 0;
  for (const Host& host : available(/*now=*/false)) slots += host.slots;
  slots = std::min<std::int64_t>(slots, options_.max);
  if (placement.ranks() >= slots || assignment_.condition.empty()) return;
  history_.note(
      fmt::format("{} of {} slots are used: {}", placement.ranks(), slots, assignment_.condition));
}

std::optional<Placement> Supervisor::wait_for_members() {
  const auto begun = Clock::now();
  for (bool said = false;; said = true) {
    if (stops > 0) return std::nullopt;
    look_after_lost_hosts();
    Placement placement = place(available(/*now=*/!said), assignment_.sizes);
    if (placement.ranks() > 0) return placement;
    // Keeps the slot of a dead rank free in case the slot is at fault, unless that leaves too few.
    Losses lenient = losses_;
    lenient.forgive_slots();
    placement = place(lenient.left(members_(false), Clock::now()), assignment_.sizes);
    if (placement.ranks() > 0) {
      losses_ = std::move(lenient);
      return placement;
    }
    if (!said) {
      history_.note(
          fmt::format("waiting for slots: at least {} are needed{}", assignment_.sizes.smallest(),
                      assignment_.condition.empty() ? "" : ": " + assignment_.condition),
          "wait");
    }
    if (seconds_since(begun) > options_.wait) return std::nullopt;
    constexpr double members_asked_each_s = 0.1;
    if (!sleep(members_asked_each_s)) return std::nullopt;
  }
}

void Supervisor::look_after_lost_hosts() {
  for (const std::string& host : losses_.hosts_due(Clock::now())) {
    auto& probe = probes_[host];
    if (!probe.valid()) {
      probe =
          std::async(std::launch::async, [launcher = launcher_, host, limit_s = answers_within_s_] {
            return launcher.why_silent(host, limit_s);
          });
    } else if (probe.wait_for(Seconds(0)) == std::future_status::ready) {
      if (!probe.get()) {
        losses_.host_is_back(host);
      } else {
        losses_.lose_host(host, Clock::now() + to_duration(options_.rejoin));
      }
    }
  }
}

bool Supervisor::wants_change(const Placement& current) {
  look_after_lost_hosts();
  Hosts hosts = available(/*now=*/false);
  const bool leaves = !current.fits(hosts);
  const bool grows = place(hosts, assignment_.sizes).ranks() > current.ranks();
  if (!(leaves || grows) || hosts != candidate_) {
    candidate_ = std::move(hosts);
    candidate_since_ = Clock::now();
    return false;
  }
  // A start that has not begun cannot save; one without a step would have been for nothing.
  return seconds_since(candidate_since_) >= options_.settle && run_.is_up() &&
         (leaves || run_.has_stepped());
}

Ending Supervisor::run_start(int number, const Placement& placement) {
  run_.begin();
  memory_.begin();
  candidate_.clear();
  std::vector<std::string> app{assignment_.program};
  const auto& arguments = resumes_ ? assignment_.later : assignment_.first;
  app.insert(app.end(), arguments.begin(), arguments.end());
  Launcher::Command command = launcher_.command(placement, number, app);
  const Environment mark = mark_of_this_supervisor(assignment_.run_dir);
  command.environment.insert(command.environment.end(), mark.begin(), mark.end());
  if (assignment_.own_loop) {
    command.environment.emplace_back(train::ElasticReport::folder_variable,
                                     std::filesystem::absolute(assignment_.run_dir).string());
  }
  const bool knows_from = resumes_ && run_.knows_checkpoints();
  const std::int64_t from_step = knows_from ? run_.checkpoint_step() : 0;
  history_.start(number, placement, knows_from ? run_.checkpoint() : "", from_step,
                 knows_from ? std::max<std::int64_t>(0, reached_ - from_step) : 0,
                 down_since_ ? seconds_since(*down_since_) : 0);

  const auto begun = Clock::now();
  LauncherWords words;
  Watch watch;
  Evidence evidence;
  if (number == 1) ask_hosts(placement, watch);
  {
    Child child(command.words, command.environment, [&](std::string_view line) {
      words.line(line);
      if (assignment_.own_loop) watch.life = Clock::now();
    });
    const auto is_ended = [&] { return watch.hung || watch.unheeded || nobody_answers(watch); };
    while (!is_ended() && !child.wait(look_each)) look_after(child, placement, watch);
    down_since_ = Clock::now();
    if (!watch.hung && !watch.unheeded) await_answers(watch);
    evidence.nobody_answers = why_nobody_answers(watch);
    watch.contact.reset();
    if (child.kill_all() > 0 || child.code() != 0) launcher_.end_elsewhere(number);
    evidence.code = child.code();
  }
  static_cast<void>(run_.shows_life());  // from a start that ended before the first scan
  if (run_.is_up()) history_.folder_is_there();
  has_been_up_ = has_been_up_ || run_.is_up();
  // A start from a given file repeats that until there is a newer checkpoint.
  resumes_ = resumes_ || (run_.is_up() && (!assignment_.names_checkpoint || run_.has_saved()));

  evidence.blame = words.blame();
  evidence.first_dead = watch.deaths.first().value_or(-1);
  evidence.hung = watch.hung;
  evidence.unheeded = watch.unheeded;
  evidence.waited_s = watch.waited_s;
  evidence.change_was_asked = watch.change_was_asked;
  evidence.stop_was_asked = stops > 0;
  evidence.stopped_before_up = watch.stopped_before_up || !run_.is_up();
  evidence.silent_s = watch.silent_s;
  evidence.rings = run_.take_rings();
  if (watch.hung) evidence.rings = std::move(watch.rings_when_hung);
  Ending ending = diagnose(evidence, placement, run_, memory_);
  if (ending.why != Why::input) run_.release();
  ending.seconds = seconds_since(begun);
  reached_ = ending.step;
  if (evidence.nobody_answers.empty()) find_lost_hosts(placement, evidence.blame, ending);
  return ending;
}

void Supervisor::look_after(Child& child, const Placement& placement, Watch& watch) {
  if (run_.shows_life()) watch.life = Clock::now();
  if (run_.is_up()) history_.folder_is_there();
  show_life_in_folder();
  memory_.look(run_.ranks());
  watch.deaths.add(run_.ranks());
  if (stops > 1) {
    static_cast<void>(child.kill_all());
  } else if (stops == 1) {
    ask_to_stop(child, watch);
  } else if (stops == 0 && seconds_since(watch.asked) > ask_again_s && wants_change(placement)) {
    watch.asked = Clock::now();
    if (!std::exchange(watch.change_was_asked, true)) {
      watch.first_asked = watch.asked;
      history_.note("members have changed: asking the ranks to save");
    }
    child.signal(SIGUSR1);
  }
  look_at_hosts(watch);
  watch.silent_s = seconds_since(watch.life);
  if (is_hung(watch)) {
    watch.hung = true;
    watch.rings_when_hung = run_.take_rings();  // while stopped processes are there to be seen
    end(child);
  } else if (watch.first_asked && seconds_since(*watch.first_asked) > options_.save_within) {
    watch.unheeded = true;
    watch.waited_s = seconds_since(*watch.first_asked);
    end(child);
  }
}

bool Supervisor::is_hung(const Watch& watch) const {
  const bool is_watched = !assignment_.own_loop || hang_after_is_given_ || run_.is_up();
  return is_watched && watch.silent_s > options_.hang_after;
}

void Supervisor::ask_hosts(const Placement& placement, Watch& watch) const {
  // With more hosts, lost ones are found when the start has failed.
  constexpr std::size_t most = 64;
  if (!launcher_.names_hosts() || launcher_.is_srun() || placement.hosts.size() > most) return;
  watch.contact.emplace(launcher_, placement.hosts);
}

void Supervisor::look_at_hosts(Watch& watch) {
  constexpr double slower_later = 3;
  if (!watch.contact) return;
  watch.contact->look();
  answers_within_s_ = std::max(answers_within_s_, slower_later * watch.contact->slowest_s());
  if (run_.is_up()) return;
  if (const auto news = watch.contact->news()) {
    history_.note(fmt::format("{}. Waiting for it, at most {:.0f} s (--hang-after)", *news,
                              options_.hang_after));
  }
}

bool Supervisor::nobody_answers(const Watch& watch) const {
  return watch.contact && !run_.is_up() && watch.contact->failure();
}

/// For a launcher that fails at once, before the queries beside it have ended. They are killed with
/// it and report nothing more.
void Supervisor::await_answers(Watch& watch) {
  constexpr std::chrono::seconds patience{2};
  constexpr std::chrono::milliseconds between_looks{20};
  const auto until = Clock::now() + patience;
  while (watch.contact && !run_.shows_life() && !run_.is_up() && !watch.contact->has_answered() &&
         !nobody_answers(watch) && Clock::now() < until) {
    std::this_thread::sleep_for(between_looks);
    look_at_hosts(watch);
  }
}

/// Empty if a host answers, or if none was asked.
std::string Supervisor::why_nobody_answers(const Watch& watch) const {
  if (!watch.contact || run_.is_up()) return {};
  if (const auto failure = watch.contact->failure()) return *failure;
  if (!watch.hung || watch.contact->has_answered()) return {};
  const std::string words = watch.contact->words();
  return words.empty() ? fmt::format("nothing for {:.0f} s", watch.silent_s) : words;
}

/// SIGUSR1, which launchers pass on. srun turns SIGTERM into SIGKILL for the ranks, so SIGTERM is
/// only for ranks that have nothing to save yet.
void Supervisor::ask_to_stop(Child& child, Watch& watch) {
  if (!std::exchange(watch.stop_was_asked, true)) {
    watch.first_asked = Clock::now();
    history_.note("stopping: asking the ranks to save");
  } else if (seconds_since(watch.asked) < ask_again_s) {
    return;
  }
  watch.asked = Clock::now();
  watch.stopped_before_up = !run_.is_up();
  child.signal(watch.stopped_before_up ? SIGTERM : SIGUSR1);
}

void Supervisor::end(Child& child) const {
  child.signal(SIGTERM);
  if (!child.wait(Seconds(last_words_s))) static_cast<void>(child.kill_all());
}

void Supervisor::find_lost_hosts(const Placement& placement, const Blame& blame, Ending& ending) {
  const bool may_be =
      ending.why == Why::killed || ending.why == Why::no_answer || ending.why == Why::hung;
  if (!may_be || !launcher_.names_hosts() || launcher_.is_srun()) return;
  std::vector<std::string> asked = ending.hosts;
  // The launcher also ends the other hosts' ranks, which may be seen first.
  const bool may_be_another = ending.why == Why::killed && blame.signal == 0;
  if (may_be_another || asked.empty()) {
    asked.clear();
    for (const Host& host : placement.hosts) asked.push_back(host.name);
  }
  std::vector<std::future<std::optional<std::string>>> answers;
  for (const std::string& host : asked) {
    answers.push_back(std::async(std::launch::async, [this, host] {
      return launcher_.why_silent(host, answers_within_s_);
    }));
  }
  std::vector<std::string> lost;
  for (std::size_t i = 0; i < asked.size(); ++i) {
    if (answers[i].get()) lost.push_back(asked[i]);
  }
  if (lost.empty()) return;
  ending.why = Why::host_lost;
  ending.text =
      fmt::format("{} {} not answer", fmt::join(lost, ", "), lost.size() == 1 ? "does" : "do");
  ending.hosts = std::move(lost);
}

std::optional<ExitCode> Supervisor::final_code(const Ending& ending) {
  switch (ending.why) {
    case Why::completed:
      return over(ending.why, ExitCode::done, "the run is complete");
    case Why::stopped:
      return over(ending.why, ExitCode::requeue,
                  assignment_.own_loop ? "stopped on request; start it again to continue"
                                       : "stopped on request; continue with --resume");
    case Why::input:
      return over(ending.why, ExitCode::bad_input, "not started again: it would fail again");
    case Why::checkpoint:
      return over(ending.why, ExitCode::checkpoint, "not started again: it would fail again");
    default:
      break;
  }
  if (stops > 0 && ending.why != Why::members)
    return over(Why::stopped, code_after(ending), "stopped on request, but not saved");
  return std::nullopt;
}

std::optional<ExitCode> Supervisor::answer_failure(const Ending& ending,
                                                   const Placement& placement) {
  const auto until = Clock::now() + to_duration(options_.rejoin);
  if (ending.why == Why::host_lost) {
    for (const std::string& host : ending.hosts) losses_.lose_host(host, until);
  } else if (ending.why == Why::memory) {
    if (auto code = answer_want_of_memory(ending, placement)) return code;
  } else if (ending.why != Why::failure) {
    for (const int rank : ending.ranks) losses_.lose_slot(placement.host_of(rank), until);
  }

  const auto failed_before = std::exchange(failed_at_, std::nullopt);
  if (ending.why == Why::failure) {
    if (failed_before && ending.step <= *failed_before) {
      return over(
          Why::failure, ExitCode::failure,
          ending.step == 0 && assignment_.own_loop
              ? std::string("not started again: it has failed twice, the last time before "
                            "its first step")
              : fmt::format("not started again: it has failed twice at step {}", ending.step));
    }
    failed_at_ = ending.step;
  }
  if (!budget_.allows(Clock::now())) {
    return over(Why::budget, code_after(ending),
                fmt::format("giving up: more than {} failures{}{}", options_.restarts,
                            options_.within > 0 ? fmt::format(" in {:.0f} s", options_.within)
                                                : std::string(),
                            has_been_up_           ? ""
                            : assignment_.own_loop ? "; no start has made a train::StopRequest"
                                                   : "; no start has opened its run folder"));
  }
  const double pause =
      back_off_.after_failure(run_.knows_checkpoints() ? run_.checkpoint_step() : ending.step);
  if (pause > 0) {
    history_.note(fmt::format("restarting in {:.0f} s; {} restart{} left", pause, budget_.left(),
                              budget_.left() == 1 ? " is" : "s are"));
  }
  if (!sleep(pause))
    return over(Why::stopped, ExitCode::requeue, "stopped on request while it waited");
  return std::nullopt;
}

std::optional<ExitCode> Supervisor::answer_want_of_memory(const Ending& ending,
                                                          const Placement& placement) {
  const auto stop = [&](const std::string& why) {
    return over(Why::memory, ExitCode::failure, "not started again: " + why);
  };
  if (ending.code == static_cast<int>(ExitCode::failure))
    return stop("it would hit the same limit again");
  if (ending.ranks.empty()) return stop("the host that ran out of memory is unknown");
  for (const int rank : ending.ranks) {
    const std::string host = placement.host_of(rank);
    const auto at = std::ranges::find(placement.hosts, host, &Host::name);
    if (at == placement.hosts.end()) continue;
    losses_.limit(host, at->slots - 1);
    history_.note(fmt::format("from now on at most {} ranks on {}", at->slots - 1, host));
  }
  Losses lenient = losses_;
  lenient.forgive_slots();
  if (place(lenient.left(members_(false), Clock::now()), assignment_.sizes).ranks() == 0)
    return stop(fmt::format("with fewer ranks per host there are fewer than {} slots",
                            assignment_.sizes.smallest()));
  return std::nullopt;
}

/// False if a signal asks to stop.
bool Supervisor::sleep(double seconds) {
  const auto begun = Clock::now();
  while (stops == 0 && seconds_since(begun) < seconds) {
    show_life_in_folder();
    std::this_thread::sleep_for(std::min(Seconds(0.05), Seconds(seconds)));
  }
  return stops == 0;
}

}  // namespace lockstep::elastic
