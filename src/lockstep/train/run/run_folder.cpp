#include <lockstep/train/run/run_folder.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <iterator>
#include <system_error>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/file.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/io/folder_lock.hpp>
#include <lockstep/io/own_file.hpp>
#include <lockstep/train/launch/shared_folder.hpp>
#include <lockstep/train/run/failures.hpp>
#include <lockstep/train/run/run_watch.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

std::string cannot_be_written(const std::string& dir, const std::string& why,
                              const std::string& choose = "Choose") {
  return fmt::format(
      "the run folder {} cannot be written: {}. {} another with --set 'run.dir=\"...\"'.", dir, why,
      choose);
}

/// A run's deck.toml begins with its hash (RunFolder::deck_heading).
bool is_deck_of_a_run(const fs::path& deck) {
  if (!fs::is_regular_file(deck)) return false;  // reading a pipe would wait
  std::ifstream in(deck, std::ios::binary);
  std::string start(RunFolder::deck_heading.size(), '\0');
  in.read(start.data(), std::ssize(start));
  return in && start == RunFolder::deck_heading;
}

/// Also of a run that ended before its first step: deck.toml is the first of its files.
bool holds_a_run(const fs::path& dir) {
  return is_deck_of_a_run(dir / "deck.toml") || fs::exists(dir / "metrics.jsonl") ||
         !list_checkpoints(dir / "checkpoints").empty();
}

/// Throws InputError if the folder holds a deck.toml that no run wrote, or a file that this run
/// reads: the run would write over it, or the next one move it aside.
void expect_own_folder(const fs::path& dir, const RunOptions& options,
                       const std::vector<fs::path>& reads) {
  const auto refuse = [&](const std::string& what) {
    throw InputError(
        fmt::format("run.dir = \"{}\" {}: a run needs a folder of its own. Name another with --set "
                    "'run.dir=\"...\"'.",
                    options.dir, what));
  };
  const fs::path deck = dir / "deck.toml";
  const bool own_deck = is_deck_of_a_run(deck);
  if (fs::exists(deck) && !own_deck) refuse("holds files that no run wrote (deck.toml)");
  const fs::path whole = fs::weakly_canonical(fs::absolute(dir));
  for (const fs::path& file : reads) {
    const fs::path place = fs::weakly_canonical(fs::absolute(file));
    const bool inside =
        std::mismatch(whole.begin(), whole.end(), place.begin(), place.end()).first == whole.end();
    // A run's own deck.toml repeats the run, or resumes it.
    if (!inside || (own_deck && place == whole / "deck.toml")) continue;
    if (place == whole) refuse("is a folder that this run reads");
    refuse(fmt::format("holds files that this run reads ({})",
                       place.lexically_relative(whole).string()));
  }
}

/// The new place of the moved folder.
fs::path move_aside(const fs::path& dir) {
  for (int number = 1;; ++number) {
    fs::path aside = dir.parent_path() / fmt::format("{}.{}", dir.filename().string(), number);
    if (fs::exists(aside)) continue;
    fs::rename(dir, aside);
    log(LogLevel::warning,
        fmt::format("{} held an earlier run; it was moved to {} (--resume would have continued it)",
                    dir.string(), aside.string()));
    return aside;
  }
}

/// The folder itself, without a trailing slash and not a link. Throws InputError if it cannot be a
/// run's own.
fs::path resolved(const fs::path& dir) {
  fs::path clean = dir.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  if (fs::is_symlink(clean)) {
    if (!fs::exists(clean)) {
      throw InputError(
          fmt::format("run.dir = \"{}\" is a symbolic link to {}, which does not exist",
                      dir.string(), fs::read_symlink(clean).string()));
    }
    clean = fs::canonical(clean);
  }
  if (fs::exists(clean) && !fs::is_directory(clean))
    throw InputError(fmt::format("run.dir = \"{}\" is a file; name a folder", dir.string()));
  const fs::path whole = fs::weakly_canonical(fs::absolute(clean)), here = fs::current_path();
  const bool holds_this_one =
      std::mismatch(whole.begin(), whole.end(), here.begin(), here.end()).first == whole.end();
  if (holds_this_one || whole == whole.root_path()) {
    throw InputError(
        fmt::format("run.dir = \"{}\" is the working directory or one above it: a run needs a "
                    "folder of its own that can be moved aside. Name another with --set "
                    "'run.dir=\"...\"'.",
                    dir.string()));
  }
  return clean;
}

FolderLock prepare(const fs::path& dir, bool resume) {
  FolderLock lock(dir);
  if (!resume && holds_a_run(dir)) {
    lock.folder_moved(move_aside(dir));
    return prepare(dir, resume);
  }
  const fs::path checkpoints = dir / "checkpoints";
  if (fs::exists(fs::symlink_status(checkpoints)) && !fs::is_directory(checkpoints)) {
    throw InputError(fmt::format(
        "{} is neither a folder nor a link to one: remove it, or choose another folder with "
        "--set 'run.dir=\"...\"'.",
        checkpoints.string()));
  }
  make_folder(checkpoints);
  return lock;
}

}  // namespace

RunFolder RunFolder::open(ProcessGroup& group, const RunOptions& options, bool resume,
                          const std::vector<fs::path>& reads) {
  std::unique_ptr<RunWatch> watch;
  const fs::path dir = agree(group, 0, [&] {
    try {
      fs::path own = resolved(options.dir);
      expect_own_folder(own, options, reads);
      watch = std::make_unique<RunWatch>(prepare(own, resume), own, options);
      return own;
    } catch (const fs::filesystem_error& error) {
      throw InputError(cannot_be_written(options.dir, error.code().message()));
    } catch (const FileError& error) {
      const std::string why = std::generic_category().message(error.error_number());
      if (error.error_number() == ENOSPC || error.error_number() == EDQUOT)
        throw Error(cannot_be_written(options.dir, why, "Free space there, or choose"));
      throw InputError(cannot_be_written(options.dir, why));
    }
  });
  const Findings unusable = check_shared_folder(group, node_layout(group), dir / "checkpoints");
  if (!unusable.empty()) throw AgreedError(unusable.front().text(), ExitCode::bad_input);
  return {dir, std::move(watch)};
}

RunFolder::RunFolder(fs::path path, std::unique_ptr<RunWatch> watch)
    : path_(std::move(path)), watch_(std::move(watch)) {}
RunFolder::RunFolder(RunFolder&&) noexcept = default;
RunFolder::~RunFolder() = default;

StopReason RunFolder::stop_reason(double step_s) const noexcept {
  return watch_ ? watch_->reason(step_s) : StopReason::none;
}

void RunFolder::expect_there() const { expectation()(); }

void RunFolder::write_in(const std::function<void()>& part) const {
  try {
    part();
  } catch (const std::exception&) {
    expect_there();
    throw;
  }
}

std::function<void()> RunFolder::expectation() const {
  if (watch_) return watch_->expectation();
  return [] {};
}

void RunFolder::remove_stop_file() const noexcept {
  std::error_code ignored;
  if (watch_) fs::remove(path_ / RunWatch::stop_file, ignored);
}

void RunFolder::write(const std::string& name, const std::string& text,
                      Durability durability) const {
  const fs::path file = path_ / name;
  std::error_code ignored;
  // A folder that the run has lost would be made again.
  if (!fs::is_directory(file.parent_path(), ignored)) throw FileError("write", file, ENOENT);
  remove_link(file);
  try {
    write_atomically(file, text, durability);
  } catch (const FileError& error) {
    if (error.path() == file) throw;
    throw FileError("write", file, error.error_number());  // not the temporary file's name
  }
}

}  // namespace lockstep::train
