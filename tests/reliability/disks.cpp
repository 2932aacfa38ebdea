// Disks that are full or fail.
#include <array>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <system_error>

#include "fault.hpp"
#include "job.hpp"

namespace lockstep::reliability {
namespace {

namespace fs = std::filesystem;
using test::Finished;
using test::ScratchFolder;

/// Allowed ends of a run whose disk fails: it goes on and completes, or ends with a sentence.
Outcome judged(const Job& job, const Finished& finished, const std::string& fault) {
  const int code = finished.exit_code;
  if (code != 0 && code != 1 && code != 2 && code != 4) return wrong(fault + ": " + told(finished));
  if (!has_said_why(job, finished)) return wrong(fault + ": not a word: " + told(finished));
  std::string error = damaged_checkpoint(job.dir);
  if (error.empty() && code == 0) error = difference(job.dir, undisturbed());
  if (!error.empty()) return wrong(fault + ": " + error + "\n" + told(finished));
  return right(code == 0 ? "completed, and said what failed"
                         : "ended with exit code " + std::to_string(code));
}

Outcome some_call_fails(PhiloxSequence& random, const std::string& call, std::uint32_t among) {
  constexpr std::array errors = {EIO, ENOSPC, EROFS, EDQUOT};
  const int error = errors[random.below(errors.size())];
  const ScratchFolder scratch;
  Job job{.dir = scratch.file("run"), .mark = scratch.file("mark")};
  Finished finished;
  do {
    fs::remove_all(job.dir);
    job.luck = std::to_string(random.below(2)) + " fail " + call + " " +
               std::to_string(1 + random.below(among)) + " " + std::to_string(error);
    finished = start(job);
  } while (!has_come(job.mark));
  const Outcome outcome = judged(job, finished, job.luck);
  if (!outcome.right) return outcome;
  const std::string left = resumed_to(undisturbed(), job);
  return left.empty() ? outcome : wrong(job.luck + ": " + left + "\nbefore: " + told(finished));
}

Outcome rename_fails(PhiloxSequence& random) { return some_call_fails(random, "rename", 30); }
Outcome fsync_fails(PhiloxSequence& random) { return some_call_fails(random, "fsync", 70); }
Outcome write_fails(PhiloxSequence& random) { return some_call_fails(random, "pwrite", 250); }

/// The run folder on a file system of so many bytes. Afterwards there is room, and the run is
/// resumed.
Outcome disk_is_full(PhiloxSequence& random) {
  const ScratchFolder scratch;
  const std::string disk = scratch.file("disk"), copy = scratch.file("copy");
  fs::create_directory(disk);
  Job job{.dir = disk + "/run"};
  const std::string bytes = std::to_string(4096 + random.below(200 << 10));
  const std::string train = in_shell(command(job));
  const Finished finished = test::run(
      {"unshare", "-Urm", "sh", "-c",
       "mount -t tmpfs -o size=" + bytes + " tmpfs " + disk + " || exit 77; " + train +
           "; echo exit=$?; mount -o remount,size=16m " + disk + "; cp -r " + job.dir + " " + copy +
           " && mv " + copy + " " + scratch.file("before") + "; " + train + " --resume >" +
           scratch.file("resumed") + " 2>&1; echo resumed=$?; cp -r " + job.dir + " " + copy},
      {}, 120);
  if (finished.exit_code == 77 || finished.says("unshare failed")) {
    std::fprintf(stderr, "[  SKIPPED ] a full disk: this machine forbids namespaces\n");
    return right("not tried: this machine forbids namespaces");
  }
  const std::string size = bytes + " bytes: ";
  const auto at = finished.output.find("\nexit=");
  const int code = at == std::string::npos ? -1 : std::atoi(finished.output.c_str() + at + 6);
  if (code != 0 && code != 1 && code != 2 && code != 4) return wrong(size + told(finished));
  if (code != 0 && !has_said_why(job, finished))
    return wrong(size + "not a word: " + told(finished));
  std::string error = damaged_checkpoint(scratch.file("before"));
  if (error.empty() && !finished.says("resumed=0"))
    error = test::read_file(scratch.file("resumed"));
  if (error.empty()) error = difference(copy, undisturbed());
  if (!error.empty()) return wrong(size + error + "\n" + told(finished));
  if (code == 0) return right("completed");
  return right("ended with exit code " + std::to_string(code));
}

}  // namespace

std::vector<Fault> faults_of_disks() {
  return {
      {"disk-full",
       "run folder on a disk of 4 to 204 KB: a sentence; with room again, `--resume` as above", 50,
       1, disk_is_full},
      {"rename-error", "a rename in the run folder fails (EIO, ENOSPC, EROFS, EDQUOT); as above",
       20, 1, rename_fails},
      {"fsync-error", "an fsync fails; as above", 20, 1, fsync_fails},
      {"write-error", "a write of a checkpoint fails; as above", 20, 1, write_fails},
  };
}

}  // namespace lockstep::reliability
