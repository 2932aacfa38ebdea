// Run folders that cannot be written, disappear, or are wanted by two.
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <future>
#include <thread>

#include "fault.hpp"
#include "job.hpp"

namespace lockstep::reliability {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::ScratchFolder;

/// A run that takes half a second longer, so that a fault can occur in it.
Job slow_job(const std::string& dir) { return {.dir = dir, .program = "tests/apps/misbehave"}; }

/// Runs the job, and applies `fault` at a random moment after its folder exists.
template <class F>
Finished with(const Job& job, PhiloxSequence& random, const F& fault) {
  auto running = std::async(std::launch::async, [&] {
    return test::run(command(job), {{"MISBEHAVE_PACE", "20"}}, 60);
  });
  const auto is_over = [&] {
    return running.wait_for(std::chrono::milliseconds(1)) == std::future_status::ready;
  };
  while (!fs::exists(job.dir + "/run.lock") && !is_over()) {
  }
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(700'000)));
  if (!is_over()) fault();
  return running.get();
}

Outcome anew(const Job& job, const std::string& fault, const Finished& before) {
  const std::string error = resumed_to(undisturbed(), job);
  if (!error.empty()) return wrong(fault + ": " + error + "\nbefore: " + told(before));
  if (before.exit_code == 0) return right("completed before");
  return right("ended with exit code " + std::to_string(before.exit_code));
}

/// Removed, or moved, or moved and replaced by an empty one.
Outcome folder_goes(PhiloxSequence& random, const std::string& how) {
  const ScratchFolder scratch;
  const Job job = slow_job(scratch.file("run"));
  const std::string away = scratch.file("away");
  const Finished finished = with(job, random, [&] {
    std::error_code error;
    fs::rename(job.dir, away, error);
    if (how == "removed") fs::remove_all(away, error);
    if (how == "replaced") fs::create_directories(job.dir + "/checkpoints", error);
  });
  const int code = finished.exit_code;
  if (code != 0 && code != 4 && code != 2) return wrong(told(finished));
  // It may have disappeared after everything was written and reported.
  const bool too_late = finished.says("\nrun folder  ");
  if (code == 0 && !too_late) return wrong("done, but nothing is there: " + told(finished));
  if (code != 0 && !has_said_why(job, finished)) return wrong("not a word: " + told(finished));
  if (code != 0 && difference(away, undisturbed()).empty())
    return wrong("the moved one is called completed: " + told(finished));
  return anew(job, how, finished);
}

Outcome folder_is_removed(PhiloxSequence& random) { return folder_goes(random, "removed"); }
Outcome folder_is_moved(PhiloxSequence& random) { return folder_goes(random, "moved"); }
Outcome folder_is_replaced(PhiloxSequence& random) { return folder_goes(random, "replaced"); }

/// Mode bits do not stop root, but the lack of a capability does. The loss comes in mid-run.
Outcome folder_is_read_only(PhiloxSequence& random) {
  const ScratchFolder scratch;
  Job job = slow_job(scratch.file("run"));
  std::vector<std::string> line = command(job);
  if (::geteuid() == 0) {
    const std::vector<std::string> mortal{"setpriv", "--bounding-set", "-dac_override",
                                          "--inh-caps", "-dac_override"};
    line.insert(line.begin(), mortal.begin(), mortal.end());
  }
  const auto set_writable = [&](bool writable) {
    for (const std::string& folder : {job.dir, job.dir + "/checkpoints"}) {
      std::error_code ignored;
      fs::permissions(folder, fs::perms::owner_write,
                      writable ? fs::perm_options::add : fs::perm_options::remove, ignored);
    }
  };
  auto running = std::async(std::launch::async, [&] {
    return test::run(line, {{"MISBEHAVE_PACE", "20"}}, 60);
  });
  if (random.below(4) == 0) {
    fs::create_directories(job.dir + "/checkpoints");
  } else {
    while (!fs::exists(job.dir + "/checkpoints") &&
           running.wait_for(std::chrono::milliseconds(1)) != std::future_status::ready) {
    }
    std::this_thread::sleep_for(std::chrono::microseconds(random.below(700'000)));
  }
  set_writable(false);
  const Finished finished = running.get();
  set_writable(true);
  const int code = finished.exit_code;
  if (code != 0 && code != 1 && code != 2 && code != 4) return wrong(told(finished));
  if (code != 0 && !has_said_why(job, finished)) return wrong("not a word: " + told(finished));
  const std::string error = damaged_checkpoint(job.dir);
  if (!error.empty()) return wrong(error + "\n" + told(finished));
  return anew(job, "read-only", finished);
}

/// Both complete, one after the other, or one of them is refused.
Outcome two_jobs(PhiloxSequence& random) {
  const ScratchFolder scratch;
  const Job job{.dir = scratch.file("run")};
  auto first = std::async(std::launch::async, [&] { return start(job); });
  std::this_thread::sleep_for(std::chrono::microseconds(random.below(400'000)));
  std::array<Finished, 2> both{start(job), first.get()};
  if (both[0].exit_code != 0) std::swap(both[0], both[1]);
  const std::string told_of_both = told(both[0]) + "\n" + told(both[1]);
  const bool refused =
      both[1].exit_code == 2 && both[1].says("another run is using the run folder");
  if (both[0].exit_code != 0 || (both[1].exit_code != 0 && !refused)) return wrong(told_of_both);
  const std::string error = difference(job.dir, undisturbed());
  if (!error.empty()) return wrong(error + "\n" + told_of_both);
  return right(refused ? "one refused, the other completed" : "completed one after the other");
}

}  // namespace

std::vector<Fault> faults_of_folders() {
  return {
      {"read-only",
       "the run folder becomes read-only, before or in the run; writable again, as above", 20, 1,
       folder_is_read_only},
      {"removed", "the run folder is removed in mid-run: exit code 4; started again, as above", 10,
       1, folder_is_removed},
      {"moved", "it is moved away", 10, 1, folder_is_moved},
      {"replaced", "it is moved away, and an empty one takes its place", 10, 1, folder_is_replaced},
      {"two-jobs",
       "two jobs in one folder, up to 0.4 s apart: the undisturbed run's bits and metrics", 20, 1,
       two_jobs},
  };
}

}  // namespace lockstep::reliability
