#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/save/plan.hpp>
#include <lockstep/checkpoint/save/staging.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/io/file.hpp>

// The stages of a save, in order: plan, stage, compress, write, publish. Planning and staging read
// the state. The later stages need only the staged bytes, so they may run later, on another thread
// and another group of the same ranks. All are collective. A failure throws CheckpointError on all
// ranks, with the sentence of the first rank that failed; no file of that save is left.

namespace lockstep {

/// Assignment of bytes to ranks.
struct SavePlan {
  std::filesystem::path path;
  /// First the state's data sets, the same on every rank; on rank 0, then the rest.
  std::vector<PlannedDataset> datasets;
  std::size_t of_state = 0;
  std::int64_t bytes = 0;  ///< total of all ranks' data sets
  Compression compression = Compression::none;
  MayWrite may_write = {};
};
[[nodiscard]] SavePlan plan_save(ProcessGroup& group, const std::filesystem::path& path,
                                 const CheckpointContents& contents,
                                 Compression compression = Compression::none);

/// Gives every rank rank 0's data sets beside the state's, as part of its plan. Collective.
void share_rest(ProcessGroup& group, SavePlan& plan);

/// Staged bytes and their checksums.
struct StagedSave {
  SavePlan plan;  ///< without the tensors
  StagedSlabs mine;
  std::vector<std::vector<std::uint64_t>> hashes;  ///< of each rank's slabs, in order
  std::string not_finite;                          ///< as in SaveReport, the same on every rank
  std::vector<std::vector<std::byte>> compressed;  ///< compressed bytes that `mine` then refers to
};
/// With a buffer, the state may change after this call. Throws NotFiniteError as
/// CheckpointWriter::save does.
[[nodiscard]] StagedSave stage_save(ProcessGroup& group, SavePlan plan, NotFinite not_finite,
                                    StagingBuffer* buffer);

/// Building blocks of the stages. Local; also for callers with a file of their own (LocalCopies).
[[nodiscard]] std::vector<DatasetEntry> entries_of(const SavePlan& plan);
/// "checkpoint x.h5 was not written"
[[nodiscard]] std::string not_written(const std::filesystem::path& path);
/// For a catch block around a rank's own part of a save of `needed_bytes`: throws CheckpointError
/// with the caught message and, if the disk is full, a remedy.
[[noreturn]] void rethrow_explained(const std::filesystem::path& path, std::int64_t needed_bytes);
/// Runs the rank's part, for agree(); throws in this way.
template <class Part>
[[nodiscard]] auto explained(const std::filesystem::path& path, std::int64_t needed_bytes,
                             Part part) {
  return [path, needed_bytes, part = std::move(part)] {
    try {
      return part();
    } catch (...) {
      rethrow_explained(path, needed_bytes);
    }
  };
}
/// Writes this rank's slabs at the data sets' offsets in the file. Throws FileError.
void write_slabs(const File& file, const StagedSave& save,
                 const std::vector<std::int64_t>& offsets);
/// Writes the bytes of one slab, not a chunk, of a data set that begins at `offset` in the file.
void write_slab(const File& file, std::int64_t offset, const Slab& slab, const std::byte* data);

/// How the ranks wait for each other before they agree.
using WaitFor = std::function<void(Work&)>;

/// Compresses this rank's slabs of the data sets planned for it; all ranks learn their sizes. Does
/// nothing if there are none.
void compress_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait);

/// Bytes in a file that has no name yet. The file is removed unless published.
class WrittenSave {
 public:
  WrittenSave();
  WrittenSave(WrittenSave&&) noexcept;
  ~WrittenSave();

 private:
  class FileOnRankZero;
  friend WrittenSave write_save(ProcessGroup&, StagedSave&, const WaitFor&);
  friend std::int64_t publish_save(ProcessGroup&, const StagedSave&, WrittenSave&, const WaitFor&);

  std::unique_ptr<FileOnRankZero> target_;  // null elsewhere
  std::int64_t file_bytes_ = 0;
};
[[nodiscard]] WrittenSave write_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait);
/// Publishes the file under its name and returns its size.
std::int64_t publish_save(ProcessGroup& group, const StagedSave& save, WrittenSave& written,
                          const WaitFor& wait);

}  // namespace lockstep
