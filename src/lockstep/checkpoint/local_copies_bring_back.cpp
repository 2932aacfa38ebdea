// A checkpoint of the run from the copies in its nodes' memory.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/checkpoint/save/saving.hpp>
#include <lockstep/comm/objects.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Outcome of an attempt. At most one of the texts is set.
struct Taken {
  std::string bad;                       ///< reason the step is not used
  std::string refused;                   ///< reason it does not belong to this run
  std::string not_published;             ///< reason it could not be written
  ExitCode code = ExitCode::checkpoint;  ///< type of `refused`

  static auto fields(auto& self) {
    return std::tie(self.bad, self.refused, self.not_published, self.code);
  }
  [[nodiscard]] bool is_good() const {
    return bad.empty() && refused.empty() && not_published.empty();
  }
};

/// A rank's copies of one step.
struct Found {
  std::vector<std::string> files;  ///< unique over machines
  std::vector<std::uint64_t> hashes;

  static auto fields(auto& self) { return std::tie(self.files, self.hashes); }
};

struct DatasetSlab {
  const DatasetEntry* entry;
  const Slab* slab;
};

std::vector<DatasetSlab> slabs_of(const CheckpointFile& file) {
  std::vector<DatasetSlab> slabs;
  for (const DatasetEntry& entry : file.manifest().datasets) {
    for (const Slab& slab : entry.slabs) slabs.push_back({&entry, &slab});
  }
  return slabs;
}

/// Copies everything but the data sets' bytes.
void copy_structure(const fs::path& from, const File& to) {
  const File file = File::open_for_reading(from);
  Header::Block block{};
  file.read_at(0, block.data(), Header::bytes);
  const Header header = Header::parse(block);
  std::vector<Extent> extents =
      structure_extents(header, CheckpointFile(from).manifest());  // verifies it
  extents.push_back(header.manifest);
  to.resize(header.file_bytes);
  to.write_at(0, block.data(), Header::bytes);
  std::vector<char> bytes;
  for (const Extent& extent : extents) {
    bytes.resize(static_cast<std::size_t>(extent.bytes));
    file.read_at(extent.offset, bytes.data(), extent.bytes);
    to.write_at(extent.offset, bytes.data(), extent.bytes);
  }
}

void copy_slab(const File& from, const DatasetSlab& part, const File& to) {
  std::vector<char> bytes;
  for (const Run& run : runs_of(*part.slab)) {
    bytes.resize(static_cast<std::size_t>(run.bytes));
    from.read_at(part.entry->offset + run.begin, bytes.data(), run.bytes);
    to.write_at(part.entry->offset + run.begin, bytes.data(), run.bytes);
  }
}

/// The copies of one step that the ranks have, each read by one of them.
class CopiesOfStep {
 public:
  /// Collective. `mine`: those that this rank sees. All of `step`, at least one somewhere.
  CopiesOfStep(ProcessGroup& group, std::vector<LocalCopy> mine)
      : group_(group), mine_(std::move(mine)) {
    const auto all = agree(group_, [&] {
      Found found;
      for (const LocalCopy& copy : mine_) {
        found.files.push_back(host_name() + ":" + copy.path.string());
        found.hashes.push_back(copy.hash);
      }
      return found;
    });
    std::set<std::string> seen;
    std::optional<std::uint64_t> wanted;
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
      for (std::size_t i = 0; i < all[rank].files.size(); ++i) {
        if (!wanted) root_ = static_cast<int>(rank);
        wanted = wanted.value_or(all[rank].hashes[i]);
        if (all[rank].hashes[i] != *wanted || !seen.insert(all[rank].files[i]).second) continue;
        if (static_cast<int>(rank) == group_.rank()) own_.push_back(mine_[i].path);
      }
    }
    count_ = seen.size();
  }

  /// Collective.
  [[nodiscard]] Taken write(std::int64_t step, const fs::path& target,
                            const ExpectFits& expect_fits) {
    Taken taken = find_readers();
    if (!taken.is_good()) return taken;
    std::unique_ptr<AtomicFile> file;
    const auto begin = [&] {
      return outcome_of(target, [&] {
        file = std::make_unique<AtomicFile>(target);
        copy_structure(own_.front(), file->file());
      });
    };
    taken = agree(group_, root_, begin);
    if (!taken.is_good()) return taken;
    const fs::path written = agree(group_, root_, [&] { return file->temporary_path(); });
    taken = first_failure([&] { return copy_own(target, written); });
    return agree(group_, root_, [&] {
      if (taken.is_good()) taken = publish(*file, step, target, expect_fits);
      file.reset();  // before the other ranks go on: an unpublished file is gone
      return taken;
    });
  }

 private:
  /// Runs `part`, which reads copies and writes `target`; tells the two kinds of failure apart.
  template <class Part>
  [[nodiscard]] Taken outcome_of(const fs::path& target, const Part& part) const {
    Taken taken;
    const auto read_and_write = [&] {
      try {
        part();
      } catch (const FileError& error) {
        if (std::ranges::find(own_, error.path()) == own_.end()) throw;
        taken.bad = error.what();
      } catch (const Error& error) {  // a copy is damaged, or is rewritten meanwhile
        taken.bad = error.what();
      }
    };
    if (const auto failure = failure_of(explained(target, bytes_, read_and_write)))
      taken.not_published = failure->message;
    return taken;
  }

  template <class Part>
  [[nodiscard]] Taken first_failure(const Part& part) {
    const std::vector<Taken> all = agree(group_, part);
    const auto failed = std::ranges::find_if(all, [](const Taken& t) { return !t.is_good(); });
    return failed == all.end() ? Taken{} : *failed;
  }

  /// For each slab the rank and the copy to read it from. Collective.
  [[nodiscard]] Taken find_readers() {
    // For each slab the first own copy that has it, counted from 1; 0: none.
    const std::vector<std::vector<std::int32_t>> all = agree(group_, [&] {
      std::vector<std::int32_t> good;
      for (std::size_t c = 0; c < own_.size(); ++c) {
        const auto unusable = failure_of([&] {
          const CheckpointFile file(own_[c]);
          bytes_ = file.bytes();
          const std::vector<DatasetSlab> slabs = slabs_of(file);
          good.resize(slabs.size());
          for (std::size_t i = 0; i < slabs.size(); ++i) {
            if (good[i] == 0 && file.has(*slabs[i].entry, *slabs[i].slab))
              good[i] = static_cast<std::int32_t>(c) + 1;
          }
        });
        if (unusable) continue;  // rewritten, or removed, meanwhile
      }
      return good;
    });
    const std::size_t slabs = std::ranges::max(all, {}, &std::vector<std::int32_t>::size).size();
    Taken taken;
    to_copy_.clear();
    std::optional<std::size_t> missing;
    if (slabs == 0) missing = 0;
    for (std::size_t i = 0; i < slabs && !missing; ++i) {
      const auto reader = std::ranges::find_if(
          all, [&](const auto& good) { return i < good.size() && good[i] > 0; });
      if (reader == all.end()) missing = i;
      if (reader - all.begin() == group_.rank())
        to_copy_.emplace_back(i, static_cast<std::size_t>((*reader)[i] - 1));
    }
    if (!missing) return taken;
    return agree(group_, root_, [&] {
      taken.bad =
          fmt::format("{} in none of the {} copies that are left", name_of(*missing), count_);
      return taken;
    });
  }

  /// On the root. "/model/fc.weight, bytes 0 to 99, is"
  [[nodiscard]] std::string name_of(std::size_t number) const {
    std::string name = "a part is";
    static_cast<void>(failure_of([&] {
      const CheckpointFile file(own_.front());
      const DatasetSlab part = slabs_of(file).at(number);
      name = fmt::format("{}, bytes {} to {}, is whole", part.entry->path, part.slab->begin,
                         part.slab->end() - 1);
    }));
    return name;
  }

  [[nodiscard]] Taken copy_own(const fs::path& target, const fs::path& written) {
    return outcome_of(target, [&] {
      if (to_copy_.empty()) return;
      const File to = File::open_for_writing(written);
      for (std::size_t c = 0; c < own_.size(); ++c) {
        const CheckpointFile copy(own_[c]);
        const std::vector<DatasetSlab> slabs = slabs_of(copy);
        const File from = File::open_for_reading(own_[c]);
        for (const auto& [slab, of_copy] : to_copy_) {
          if (of_copy == c) copy_slab(from, slabs.at(slab), to);
        }
      }
      if (group_.rank() != root_) to.sync();  // publish() does that for the root's machine
    });
  }

  /// On the root. Verified in its new place: a copy may be rewritten while it is read.
  [[nodiscard]] Taken publish(AtomicFile& file, std::int64_t step, const fs::path& target,
                              const ExpectFits& expect_fits) const {
    const fs::path& written = file.temporary_path();
    Taken taken;
    try {
      verify_checkpoint(written);
      const std::int64_t now = CheckpointFile(written).integer("/train/step");
      if (now != step)
        taken.bad = fmt::format("it now holds step {}: a running job is writing to it", now);
    } catch (const std::exception& error) {
      taken.bad = error.what();
    }
    if (!taken.bad.empty()) return taken;
    try {
      if (expect_fits) expect_fits(CheckpointFile(written));
    } catch (const Error& error) {
      taken.refused = error.what();
      taken.code = error.exit_code();
      return taken;
    }
    if (const auto failure = failure_of(explained(target, bytes_, [&] { file.publish(); })))
      taken.not_published = failure->message;
    return taken;
  }

  ProcessGroup& group_;
  std::vector<LocalCopy> mine_;
  std::vector<fs::path> own_;  ///< those of mine_ that this rank reads
  int root_ = 0;               ///< the first rank that has a copy
  std::size_t count_ = 0;      ///< of all ranks
  std::int64_t bytes_ = 0;
  std::vector<std::pair<std::size_t, std::size_t>> to_copy_;  ///< number of slab, index in own_
};

}  // namespace

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
    std::vector<LocalCopy> of_step;
    std::ranges::copy_if(mine, std::back_inserter(of_step),
                         [&](const LocalCopy& copy) { return copy.step == newest; });
    std::erase_if(mine, [&](const LocalCopy& copy) { return copy.step == newest; });
    const fs::path target = checkpoint_path(checkpoints, newest);
    const Taken taken = CopiesOfStep(group, std::move(of_step)).write(newest, target, expect_fits);
    if (!taken.bad.empty()) {
      if (group.rank() == 0) {
        log(LogLevel::warning, fmt::format("the copy of step {} in {} is not used: {}", newest,
                                           folder.string(), taken.bad));
      }
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
