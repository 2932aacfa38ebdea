#include <lockstep/checkpoint/save/saving.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <tuple>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/checkpoint/save/laid_out_file.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// Summary of the slabs that a rank staged.
struct Staged {
  std::string not_finite;
  std::vector<std::uint64_t> hashes;

  static auto fields(auto& self) { return std::tie(self.not_finite, self.hashes); }
};

Staged facts_of(const StagedSlabs& staged) {
  Staged facts{.not_finite = staged.not_finite, .hashes = {}};
  for (const auto& [dataset, slab, data] : staged.slabs) facts.hashes.push_back(slab.hash);
  return facts;
}

/// File layout from rank 0, for the other ranks' writes.
struct Target {
  fs::path temporary;
  std::int64_t file_bytes = 0;
  std::vector<std::int64_t> offsets;  ///< of the state's data sets
  std::vector<std::int64_t> chunks;   ///< of their compressed chunks

  static auto fields(auto& self) {
    return std::tie(self.temporary, self.file_bytes, self.offsets, self.chunks);
  }
};

/// How much space a full disk lacks; nothing if even its free space cannot be determined.
std::string lacking_room(const fs::path& path, std::int64_t needed_bytes) {
  try {
    return fmt::format(" ({} needed, {} free)", format_bytes(needed_bytes),
                       format_bytes(available_bytes(path.parent_path())));
  } catch (const Error&) {
    return {};
  }
}

Target target_of(const LaidOutFile& file, const fs::path& temporary, std::size_t of_state) {
  Target target{.temporary = temporary, .file_bytes = file.bytes(), .offsets = {}, .chunks = {}};
  for (std::size_t i = 0; i < of_state; ++i) {
    const DatasetEntry& entry = file.datasets()[i];
    target.offsets.push_back(entry.offset);
    if (!entry.is_compressed()) continue;
    for (const Slab& slab : entry.slabs) target.chunks.push_back(slab.chunk.at);
  }
  return target;
}

/// Extracts the locations of this rank's chunks from those of all.
void place_chunks(StagedSave& save, int rank, const std::vector<std::int64_t>& chunks) {
  std::size_t mine = 0, place = 0;
  for (std::size_t i = 0; i < save.plan.of_state; ++i) {
    for (const Slab& slab : save.plan.datasets[i].entry.slabs) {
      const std::int64_t at = slab.chunk.full > 0 ? chunks[place++] : 0;
      if (slab.owner == rank) save.mine.slabs[mine++].slab.chunk.at = at;
    }
  }
}

AgreeOptions refusal(const SavePlan& plan, const WaitFor& wait) {
  AgreeOptions options = refuse_with(not_written(plan.path));
  options.wait = wait;
  return options;
}

/// The message of a failed save: the cause as a sentence, and that nothing else is lost.
std::string with_comfort(const std::string& cause) {
  return cause + (cause.ends_with('.') ? "" : ".") + " Earlier checkpoints are unchanged.";
}

}  // namespace

std::string not_written(const fs::path& path) {
  return "checkpoint " + path.string() + " was not written";
}

void rethrow_explained(const fs::path& path, std::int64_t needed_bytes) {
  try {
    throw;
  } catch (const FileError& e) {
    const bool full = e.error_number() == ENOSPC || e.error_number() == EDQUOT;
    throw CheckpointError(
        with_comfort(e.what() + (full ? lacking_room(path, needed_bytes) : std::string())));
  } catch (const std::exception& e) {
    throw CheckpointError(with_comfort(e.what()));
  }
}

std::vector<DatasetEntry> entries_of(const SavePlan& plan) {
  std::vector<DatasetEntry> entries;
  for (const auto& planned : plan.datasets) entries.push_back(planned.entry);
  return entries;
}

void write_slabs(const File& file, const StagedSave& save,
                 const std::vector<std::int64_t>& offsets) {
  for (const auto& [dataset, slab, data] : save.mine.slabs) {
    if (slab.chunk.full > 0) {
      file.write_at(slab.chunk.at, data, slab.chunk.bytes);
      continue;
    }
    write_slab(file, offsets[dataset], slab, data);
  }
}

void write_slab(const File& file, std::int64_t offset, const Slab& slab, const std::byte* data) {
  for (const auto& [begin, bytes, at] : runs_of(slab))
    file.write_at(offset + begin, data + at, bytes);
}

/// The file under its temporary name, from its structure to its publication.
class WrittenSave::FileOnRankZero {
 public:
  explicit FileOnRankZero(const SavePlan& plan)
      : target_(plan.path), layout_(target_.file(), entries_of(plan)) {}

  [[nodiscard]] const File& file() const { return target_.file(); }
  [[nodiscard]] const fs::path& temporary() const { return target_.temporary_path(); }
  [[nodiscard]] const LaidOutFile& layout() const { return layout_; }

  void publish(const std::vector<std::vector<std::uint64_t>>& hashes) {
    layout_.finish(target_.file(), hashes);
    target_.publish();
  }

 private:
  AtomicFile target_;
  LaidOutFile layout_;
};

WrittenSave::WrittenSave() = default;
WrittenSave::WrittenSave(WrittenSave&&) noexcept = default;
WrittenSave::~WrittenSave() = default;

StagedSave stage_save(ProcessGroup& group, SavePlan plan, NotFinite not_finite,
                      StagingBuffer* buffer) {
  StagedSave save{.plan = std::move(plan), .mine = {}, .hashes = {}, .not_finite = {}};
  const std::string what = not_written(save.plan.path);
  const auto stage = [&] {
    const TraceScope scope("checkpoint", "stage");
    save.mine = stage_slabs(save.plan.datasets, group.rank(), buffer);
    return facts_of(save.mine);
  };
  std::vector<Staged> all =
      agree(group, explained(save.plan.path, save.plan.bytes, stage), refuse_with(what));
  if (buffer) {
    for (auto& planned : save.plan.datasets) planned.local = Tensor();
  }
  for (Staged& of_rank : all) {
    if (save.not_finite.empty()) save.not_finite = of_rank.not_finite;
    save.hashes.push_back(std::move(of_rank.hashes));
  }
  if (!save.not_finite.empty() && not_finite == NotFinite::refuse) {
    throw Agreed<NotFiniteError>(
        fmt::format("{}: {} has elements that are not finite. Earlier checkpoints are unchanged.",
                    what, save.not_finite));
  }
  return save;
}

WrittenSave write_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait) {
  const SavePlan& plan = save.plan;
  WrittenSave written;
  const auto lay_out = [&] {
    if (plan.may_write) plan.may_write();
    written.target_ = std::make_unique<WrittenSave::FileOnRankZero>(plan);
    return target_of(written.target_->layout(), written.target_->temporary(), plan.of_state);
  };
  const Target target =
      agree(group, 0, explained(plan.path, plan.bytes, lay_out), refusal(plan, wait));
  written.file_bytes_ = target.file_bytes;
  place_chunks(save, group.rank(), target.chunks);

  const auto write = [&] {
    const TraceScope scope("checkpoint", "write");
    if (written.target_)
      return write_slabs(written.target_->file(), save, written.target_->layout().offsets());
    File file = File::open_for_writing(target.temporary);
    write_slabs(file, save, target.offsets);
    file.sync();
    file.close();
  };
  agree(group, explained(plan.path, written.file_bytes_, write), refusal(plan, wait));
  return written;
}

std::int64_t publish_save(ProcessGroup& group, const StagedSave& save, WrittenSave& written,
                          const WaitFor& wait) {
  const SavePlan& plan = save.plan;
  const auto publish = [&] {
    const TraceScope scope("checkpoint", "publish");
    if (plan.may_write) plan.may_write();
    written.target_->publish(save.hashes);
  };
  agree(group, 0, explained(plan.path, written.file_bytes_, publish), refusal(plan, wait));
  return written.file_bytes_;
}

}  // namespace lockstep
