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

// The parts of a save, in their order: plan, stage, compress, write, publish. Planning and staging
// look at the state; what follows needs nothing but what was staged, and may come later, on
// another thread and another group of the same ranks. All are collective, and where one fails it
// throws CheckpointError on all ranks, with the sentence of the first that failed; then no file of
// that save is left.

namespace lockstep {

/// Which rank writes which bytes.
struct SavePlan {
  std::filesystem::path path;
  /// Of the state, the same on every rank; on rank 0, then the rest.
  std::vector<PlannedDataset> datasets;
  std::size_t of_state = 0;
  std::int64_t bytes = 0;  ///< of all ranks' data sets
  Compression compression = Compression::none;
  MayWrite may_write = {};
};
[[nodiscard]] SavePlan plan_save(ProcessGroup& group, const std::filesystem::path& path,
                                 const CheckpointContents& contents,
                                 Compression compression = Compression::none);

/// Bytes at rest, and their checksums.
struct StagedSave {
  SavePlan plan;  ///< without the tensors
  StagedSlabs mine;
  std::vector<std::vector<std::uint64_t>> hashes;  ///< of each rank's slabs, in their order
  std::string not_finite;                          ///< as in SaveReport, the same on every rank
  std::vector<std::vector<std::byte>> compressed;  ///< what of `mine` then lies here
};
/// With a buffer, the state may change from now on. Throws NotFiniteError as
/// CheckpointWriter::save does.
[[nodiscard]] StagedSave stage_save(ProcessGroup& group, SavePlan plan, NotFinite not_finite,
                                    StagingBuffer* buffer);

/// What the parts are made of: local, and for those who bring a file of their own (LocalCopies).
[[nodiscard]] std::vector<DatasetEntry> entries_of(const SavePlan& plan);
/// "checkpoint x.h5 was not written"
[[nodiscard]] std::string not_written(const std::filesystem::path& path);
/// Of a catch block around a rank's own part of a save of `needed_bytes`: throws CheckpointError
/// with what was caught and, where the disk is full, advice.
[[noreturn]] void rethrow_explained(const std::filesystem::path& path, std::int64_t needed_bytes);
/// The part, for agree(), which throws so.
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
/// This rank's slabs, to where the data sets lie in the file. Throws FileError.
void write_slabs(const File& file, const StagedSave& save,
                 const std::vector<std::int64_t>& offsets);

/// How the ranks wait for each other before they agree on something.
using WaitFor = std::function<void(Work&)>;

/// Of the data sets that are planned so: this rank's slabs are now compressed, and how long each of
/// them is all ranks know. Where there are none it does nothing.
void compress_save(ProcessGroup& group, StagedSave& save, const WaitFor& wait);

/// Bytes in a file that has not yet got its name, and loses the one it has unless published.
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
/// Returns the size of the file, which now has its name.
std::int64_t publish_save(ProcessGroup& group, const StagedSave& save, WrittenSave& written,
                          const WaitFor& wait);

}  // namespace lockstep
