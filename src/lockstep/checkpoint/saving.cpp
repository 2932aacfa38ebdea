#include <lockstep/checkpoint/saving.hpp>

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/checkpoint/laid_out_file.hpp>
#include <lockstep/checkpoint/region.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// What a rank tells of the slabs it staged.
std::string to_bytes(const StagedSlabs& staged) {
  std::string bytes = staged.not_finite + '\n';
  for (const auto& [dataset, slab, data] : staged.slabs)
    bytes.append(reinterpret_cast<const char*>(&slab.hash), sizeof slab.hash);
  return bytes;
}

/// What helps against a full disk; nothing where even asking for its free space fails.
std::string advice_on_room(const fs::path& path, std::int64_t needed_bytes) {
  try {
    return fmt::format(" ({} needed, {} free). Free space there or use another file system",
                       format_bytes(needed_bytes),
                       format_bytes(available_bytes(path.parent_path())));
  } catch (const Error&) {
    return {};
  }
}

/// The size of the file, then where the state's data sets lie, then its chunks.
std::vector<std::int64_t> places_of(const LaidOutFile& file, std::size_t of_state) {
  std::vector<std::int64_t> places{file.bytes()}, chunks;
  for (std::size_t i = 0; i < of_state; ++i) {
    const DatasetEntry& entry = file.datasets()[i];
    places.push_back(entry.offset);
    if (!entry.is_compressed()) continue;
    for (const Slab& slab : entry.slabs) chunks.push_back(slab.chunk.at);
  }
  places.insert(places.end(), chunks.begin(), chunks.end());
  return places;
}

/// Takes the places of this rank's chunks from behind those of the data sets.
void place_chunks(StagedSave& save, int rank, const std::vector<std::int64_t>& places) {
  std::size_t mine = 0, place = save.plan.of_state;
  for (std::size_t i = 0; i < save.plan.of_state; ++i) {
    for (const Slab& slab : save.plan.datasets[i].entry.slabs) {
      const std::int64_t at = slab.chunk.full > 0 ? places[place++] : 0;
      if (slab.owner == rank) save.mine.slabs[mine++].slab.chunk.at = at;
    }
  }
}

}  // namespace

std::string not_written(const SavePlan& plan) {
  return "checkpoint " + plan.path.string() + " was not written";
}

std::string failure_of(const fs::path& path, std::int64_t needed_bytes,
                       const std::function<void()>& part) {
  const char* comfort = ". Earlier checkpoints are as they were.";
  try {
    part();
    return {};
  } catch (const FileError& e) {
    const bool full = e.error_number() == ENOSPC || e.error_number() == EDQUOT;
    return e.what() + (full ? advice_on_room(path, needed_bytes) : std::string()) + comfort;
  } catch (const std::exception& e) {
    return std::string(e.what()) + comfort;
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
    for (const auto& [begin, bytes, at] : runs_of(slab))
      file.write_at(offsets[dataset] + begin, data + at, bytes);
  }
}

/// The file under its temporary name, from its structure to its publishing.
class WrittenSave::FileOnRankZero {
 public:
  explicit FileOnRankZero(const SavePlan& plan)
      : target_(plan.path), layout_(target_.file(), entries_of(plan)) {}

  [[nodiscard]] const File& file() const { return target_.file(); }
  [[nodiscard]] std::string name() const { return target_.temporary_path().string(); }
  [[nodiscard]] const LaidOutFile& layout() const { return layout_; }

  void publish(const std::vector<std::string>& hashes) {
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
  const std::string error = failure_of(save.plan.path, save.plan.bytes, [&] {
    const TraceScope scope("checkpoint", "stage");
    save.mine = stage_slabs(save.plan.datasets, group.rank(), buffer);
  });
  if (buffer) {
    for (auto& planned : save.plan.datasets) planned.local = Tensor();
  }
  const std::string what = not_written(save.plan);
  save.hashes = agree(group, what, error, to_bytes(save.mine));
  for (auto& of_rank : save.hashes) {
    const auto end = of_rank.find('\n');
    if (save.not_finite.empty()) save.not_finite = of_rank.substr(0, end);
    of_rank.erase(0, end + 1);
  }
  if (!save.not_finite.empty() && not_finite == NotFinite::refuse) {
    throw NotFiniteError(fmt::format(
        "{}: {} has elements that are not finite numbers. Earlier checkpoints are as they were.",
        what, save.not_finite));
  }
  return save;
}

WrittenSave write_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait) {
  const SavePlan& plan = save.plan;
  const std::string what = not_written(plan);
  WrittenSave written;
  std::vector<std::int64_t> layout;
  std::string error;
  if (group.rank() == 0) {
    error = failure_of(plan.path, plan.bytes, [&] {
      if (plan.may_write) plan.may_write();
      written.target_ = std::make_unique<WrittenSave::FileOnRankZero>(plan);
      layout = places_of(written.target_->layout(), plan.of_state);
    });
  }
  std::string laid_out;  // the name to write under, which ends with a zero, and the layout
  if (written.target_) {
    laid_out = written.target_->name() + '\0';
    laid_out.append(reinterpret_cast<const char*>(layout.data()), layout.size() * sizeof layout[0]);
  }
  const std::string of_rank_zero = agree(group, what, error, laid_out, wait).front();
  const std::string temporary = of_rank_zero.c_str();
  const std::string_view places = std::string_view(of_rank_zero).substr(temporary.size() + 1);
  layout.resize(places.size() / sizeof layout[0]);
  std::memcpy(layout.data(), places.data(), places.size());
  written.file_bytes_ = layout.front();
  layout.erase(layout.begin());
  place_chunks(save, group.rank(), layout);

  error = failure_of(plan.path, written.file_bytes_, [&] {
    const TraceScope scope("checkpoint", "write");
    if (written.target_)
      return write_slabs(written.target_->file(), save, written.target_->layout().offsets());
    File file = File::open_for_writing(temporary);
    write_slabs(file, save, layout);
    file.sync();
    file.close();
  });
  agree(group, what, error, {}, wait);
  return written;
}

std::int64_t publish_save(ProcessGroup& group, const StagedSave& save, WrittenSave& written,
                          const WaitFor& wait) {
  std::string error;
  if (written.target_) {
    error = failure_of(save.plan.path, written.file_bytes_, [&] {
      const TraceScope scope("checkpoint", "publish");
      if (save.plan.may_write) save.plan.may_write();
      written.target_->publish(save.hashes);
    });
  }
  agree(group, not_written(save.plan), error, {}, wait);
  return written.file_bytes_;
}

}  // namespace lockstep
