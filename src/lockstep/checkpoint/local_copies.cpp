#include <lockstep/checkpoint/local_copies.hpp>

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <tuple>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/expect_given.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/saving.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr const char* local_prefix = "lockstep-local-";

std::string names_of(const std::string& start) { return fmt::format("{}{}-", local_prefix, start); }

template <class Visit>
void for_each_file(const fs::path& folder, const std::string& prefix, const Visit& visit) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->path().filename().string().starts_with(prefix)) visit(at->path());
  }
}

/// Whether the name still belongs to the open file.
bool has_its_name(const File& file) {
  struct stat open {
  }, named{};
  return ::fstat(file.descriptor(), &open) == 0 && ::stat(file.path().c_str(), &named) == 0 &&
         open.st_dev == named.st_dev && open.st_ino == named.st_ino;
}

/// Outcome for a copy on the rank that holds it. At most one is set.
struct Taken {
  std::string bad;                       ///< reason it is not used
  std::string refused;                   ///< reason it does not belong to this run
  std::string not_published;             ///< reason it could not be written
  ExitCode code = ExitCode::checkpoint;  ///< type of `refused`

  static auto fields(auto& self) {
    return std::tie(self.bad, self.refused, self.not_published, self.code);
  }
};

/// Publishes a copy as `target` if it is whole, of `step` and of this run.
Taken take(const LocalCopy& copy, const fs::path& target, const ExpectFits& expect_fits) {
  Taken taken;
  std::error_code unknown;
  const auto bytes = static_cast<std::int64_t>(fs::file_size(copy.path, unknown));
  const auto publish = [&] {
    AtomicFile file(target);
    try {
      copy_bytes(File::open_for_reading(copy.path), file.file());
    } catch (const FileError& error) {
      if (error.path() == file.temporary_path()) throw;
      taken.bad = error.what();
      return;
    } catch (const Error& error) {
      taken.bad = error.what();
      return;
    }
    // Verified in its new place: the copy may be rewritten while it is read.
    const fs::path& written = file.temporary_path();
    try {
      verify_checkpoint(written);
      const std::int64_t step = CheckpointFile(written).integer("/train/step");
      if (step != copy.step) {
        taken.bad = fmt::format("it now holds step {}: a running job is writing to it", step);
        return;
      }
    } catch (const std::exception& error) {
      taken.bad = error.what();
      return;
    }
    try {
      if (expect_fits) expect_fits(CheckpointFile(written));
    } catch (const Error& error) {
      taken.refused = error.what();
      taken.code = error.exit_code();
      return;
    }
    file.publish();
  };
  if (const auto failure = failure_of(explained(target, bytes, publish)))
    taken.not_published = failure->message;
  return taken;
}

}  // namespace

LocalCopies::LocalCopies(std::shared_ptr<ProcessGroup> node, fs::path folder,
                         const std::string& start, const std::string& node_name)
    : node_(expect_given("LocalCopies", "the group of the node", std::move(node))) {
  for (std::size_t i = 0; i < generations_.size(); ++i)
    generations_[i].path = folder / fmt::format("{}{}-{}.h5", names_of(start), node_name, i);
}

void LocalCopies::save(const CheckpointContents& contents, NotFinite not_finite) {
  const TraceScope scope("checkpoint", "local copy", nullptr, contents.train.step);
  Generation& target = generations_[next_];
  const StagedSave save =
      stage_save(*node_, plan_save(*node_, target.path, contents), not_finite, nullptr);
  try {
    write(target, save);
  } catch (...) {
    target.offsets.clear();
    target.layout.reset();
    throw;
  }
  next_ = 1 - next_;
  // Nothing waits for this: the next save writes the other file.
  if (!target.layout) return;
  const auto finish = [&] { target.layout->finish(target.file, save.hashes); };
  if (const auto failure = failure_of(explained(target.path, save.plan.bytes, finish)))
    throw CheckpointError(not_written(target.path) + ": " + failure->message);
}

void LocalCopies::write(Generation& target, const StagedSave& save) {
  const AgreeOptions options = refuse_with(not_written(target.path));
  // Shares the data sets' layout if it is new; only then is the file's structure rebuilt.
  const auto lay_out = [&] {
    std::vector<DatasetEntry> entries = entries_of(save.plan);
    if (target.layout && target.layout->fits(entries) && has_its_name(target.file)) {
      const Header::Block nothing{};
      target.file.write_at(0, nothing.data(), Header::bytes);
      return std::vector<std::int64_t>();
    }
    target.file = File::create(target.path);
    target.layout.emplace(target.file, std::move(entries));
    target.offsets = target.layout->offsets();
    return target.offsets;
  };
  const auto news = agree(*node_, 0, explained(target.path, save.plan.bytes, lay_out), options);
  const auto write_own = [&] {
    if (node_->rank() != 0 && !news.empty()) {
      target.offsets = news;
      target.file = File::open_for_writing(target.path);
    }
    write_slabs(target.file, save, target.offsets);
  };
  agree(*node_, explained(target.path, save.plan.bytes, write_own), options);
}

void LocalCopies::close_and_remove() {
  node_->close();
  if (node_->rank() != 0) return;
  for (const Generation& generation : generations_) {
    std::error_code ignored;
    fs::remove(generation.path, ignored);
  }
}

std::vector<LocalCopy> list_local_copies(const fs::path& folder, const std::string& start) {
  std::vector<LocalCopy> copies;
  for_each_file(folder, names_of(start), [&](const fs::path& path) {
    try {
      copies.push_back({path, CheckpointFile(path).integer("/train/step")});
    } catch (const Error&) {  // its ranks were killed while writing it; the other one is whole
    }
  });
  std::ranges::sort(copies, std::greater<>(), &LocalCopy::step);
  return copies;
}

void remove_local_copies(const fs::path& folder, const std::string& start) noexcept {
  for_each_file(folder, names_of(start), [](const fs::path& path) {
    std::error_code ignored;
    fs::remove(path, ignored);
  });
}

void remove_old_local_copies(const fs::path& folder) noexcept {
  for_each_file(folder, local_prefix, [](const fs::path& path) {
    std::error_code gone;
    const auto age = fs::file_time_type::clock::now() - fs::last_write_time(path, gone);
    if (!gone && age > std::chrono::hours(24)) fs::remove(path, gone);
  });
}

std::optional<fs::path> bring_back_local_copy(ProcessGroup& group, const fs::path& folder,
                                              const std::string& start, const fs::path& checkpoints,
                                              std::int64_t newer_than,
                                              const ExpectFits& expect_fits) {
  std::vector<LocalCopy> mine = list_local_copies(folder, start);
  while (true) {
    const std::int64_t step = mine.empty() ? -1 : mine.front().step;
    const auto newest = static_cast<std::int64_t>(
        all_reduce_scalar(group, static_cast<double>(step), ReduceOp::max));
    if (newest <= newer_than) return {};
    const auto rank = static_cast<int>(
        all_reduce_scalar(group, step == newest ? group.rank() : group.size(), ReduceOp::min));
    const fs::path target = checkpoint_path(checkpoints, newest);
    const Taken taken = agree(group, rank, [&] { return take(mine.front(), target, expect_fits); });
    if (!taken.bad.empty()) {
      if (group.rank() != rank) continue;
      log(LogLevel::warning, fmt::format("the copy of step {} in {} is not used: {}", newest,
                                         folder.string(), taken.bad));
      mine.erase(mine.begin());
      continue;
    }
    if (!taken.refused.empty()) {
      const std::string sentence = fmt::format(
          "the newest state of the run, a copy of step {} in {}, does not belong to this run: {}",
          newest, folder.string(), taken.refused);
      if (taken.code == ExitCode::bad_input) throw Agreed<InputError>(sentence);
      throw Agreed<CheckpointError>(sentence);
    }
    if (taken.not_published.empty()) return target;
    throw Agreed<CheckpointError>(fmt::format(
        "the newest state of the run, a copy of step {} in {}, was not written to the run folder: "
        "{} The copy stays where it is: resume again once there is room.",
        newest, folder.string(), taken.not_published));
  }
}

}  // namespace lockstep
