#include <lockstep/train/run_folder.hpp>

#include <fmt/format.h>

#include <fstream>
#include <system_error>

#include <lockstep/base/log.hpp>
#include <lockstep/comm/node_layout.hpp>
#include <lockstep/train/agreement.hpp>
#include <lockstep/train/launch/shared_folder.hpp>

namespace lockstep::train {
namespace fs = std::filesystem;
namespace {

bool holds_a_run(const fs::path& dir) {
  return fs::exists(dir / "deck.toml") || fs::exists(dir / "metrics.jsonl");
}

void move_aside(const fs::path& dir) {
  for (int number = 1;; ++number) {
    const fs::path aside =
        dir.parent_path() / fmt::format("{}.{}", dir.filename().string(), number);
    if (fs::exists(aside)) continue;
    fs::rename(dir, aside);
    log(LogLevel::warning,
        fmt::format(
            "{} held an earlier run; it was moved to {} (--resume would have gone on with it)",
            dir.string(), aside.string()));
    return;
  }
}

void prepare(const fs::path& dir, bool resume) {
  try {
    if (fs::exists(dir) && !fs::is_directory(dir)) {
      throw InputError(fmt::format("run.dir = \"{}\" is a file; name a folder", dir.string()));
    }
    if (!resume && holds_a_run(dir)) move_aside(dir);
    fs::create_directories(dir / "checkpoints");
  } catch (const fs::filesystem_error& error) {
    throw InputError(fmt::format(
        "the run folder {} cannot be written: {}. Choose another with --set 'run.dir=\"...\"'.",
        dir.string(), error.code().message()));
  }
}

}  // namespace

RunFolder RunFolder::open(ProcessGroup& group, const fs::path& dir, bool resume) {
  fs::path clean = dir.lexically_normal();
  if (!clean.has_filename()) clean = clean.parent_path();
  agree(group, [&] {
    if (group.rank() == 0) prepare(clean, resume);
  });
  const Findings unusable = check_shared_folder(group, node_layout(group), clean / "checkpoints");
  if (!unusable.empty()) throw AgreedError(unusable.front().text(), ExitCode::bad_input);
  return RunFolder(clean);
}

void RunFolder::write(const std::string& name, const std::string& text) const {
  const fs::path temporary = path_ / ("." + name + ".tmp");
  std::ofstream out(temporary, std::ios::binary);
  out << text << std::flush;
  if (!out) throw Error(fmt::format("cannot write {}: is the disk full?", (path_ / name).string()));
  out.close();
  fs::rename(temporary, path_ / name);
}

}  // namespace lockstep::train
