#pragma once
#include <future>
#include <map>
#include <optional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/io/folder_lock.hpp>

#include "assignment.hpp"
#include "budget.hpp"
#include "child.hpp"
#include "death_watch.hpp"
#include "diagnosis.hpp"
#include "first_contact.hpp"
#include "history.hpp"
#include "launcher.hpp"
#include "members.hpp"
#include "memory_watch.hpp"
#include "options.hpp"
#include "placement.hpp"
#include "run_view.hpp"

namespace lockstep::elastic {

/// Starts a training. After a failure or a change of members, restarts it from its newest
/// checkpoint on the members there are: docs/guide/elastic.md. A plain process that never enters
/// MPI.
class Supervisor {
 public:
  /// Throws InputError.
  explicit Supervisor(const Options& options);

  /// Runs until the training ends. At most one at a time in a process: it handles signals.
  ExitCode run();

 private:
  /// Reasons to end a start early.
  struct Watch {
    bool change_was_asked = false, stop_was_asked = false, stopped_before_up = false, hung = false;
    bool unheeded = false;
    Clock::time_point life = Clock::now(), asked{};
    std::optional<Clock::time_point> first_asked;  ///< to save and end
    double silent_s = 0, waited_s = 0;
    DeathWatch deaths;
    std::vector<FlightRing> rings_when_hung;
    std::optional<FirstContact> contact;  ///< hosts being asked at the first start
  };

  void wait_for_leftovers();
  std::optional<Placement> wait_for_members();
  void tell_of_idle_slots(const Placement& placement);
  Ending run_start(int number, const Placement& placement);
  void look_after(Child& child, const Placement& placement, Watch& watch);
  void ask_hosts(const Placement& placement, Watch& watch) const;
  void look_at_hosts(Watch& watch);
  [[nodiscard]] bool nobody_answers(const Watch& watch) const;
  void await_answers(Watch& watch);
  [[nodiscard]] std::string why_nobody_answers(const Watch& watch) const;
  void ask_to_stop(Child& child, Watch& watch);
  /// Whether it has shown no sign of life for too long. Not of a program that tells nothing of
  /// itself, unless the user has said for how long.
  [[nodiscard]] bool is_hung(const Watch& watch) const;
  void end(Child& child) const;
  void find_lost_hosts(const Placement& placement, const Blame& blame, Ending& ending);

  [[nodiscard]] std::optional<ExitCode> final_code(const Ending& ending);
  [[nodiscard]] std::optional<ExitCode> answer_failure(const Ending& ending,
                                                       const Placement& placement);
  [[nodiscard]] std::optional<ExitCode> answer_want_of_memory(const Ending& ending,
                                                              const Placement& placement);
  [[nodiscard]] bool sleep(double seconds);
  /// The folder of a program with its own loop is this supervisor's.
  void take_folder();
  void show_life_in_folder();
  ExitCode over(Why why, ExitCode code, const std::string& text);

  [[nodiscard]] bool wants_change(const Placement& current);
  void look_after_lost_hosts();
  [[nodiscard]] Hosts available(bool now) const;

  Options options_;
  bool hang_after_is_given_;
  Assignment assignment_;
  std::optional<FolderLock> lock_;  ///< for a program with its own loop
  Clock::time_point lock_refreshed_;
  Members members_;
  Launcher launcher_;
  RunView run_;
  History history_;
  Budget budget_;
  BackOff back_off_;
  Losses losses_;
  MemoryWatch memory_;
  std::map<std::string, std::future<std::optional<std::string>>>
      probes_;  ///< lost hosts being asked
  /// limit for a host after a failure; longer if the first answers took long
  double answers_within_s_ = Launcher::answers_within_s;
  bool has_been_up_ = false;               ///< any start
  bool resumes_ = false;                   ///< the next start, from the newest checkpoint
  std::int64_t reached_ = 0;               ///< the last start's newest step
  std::optional<std::int64_t> failed_at_;  ///< step of the last start, if it ended with exit code 1
  std::optional<Clock::time_point> down_since_;
  Hosts candidate_;  ///< members after a pending change, and since when
  Clock::time_point candidate_since_;
};

}  // namespace lockstep::elastic
