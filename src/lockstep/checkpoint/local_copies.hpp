#pragma once
#include <array>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/save/laid_out_file.hpp>
#include <lockstep/checkpoint/save/writer.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

class CheckpointFile;
struct StagedSave;

/// Checkpoints in a node's memory, like those of SCR and VELOC: the state of some steps ago, for a
/// restart after a process has died. They can be far more frequent than a file system allows.
///
/// The ranks of a node write them together; every node holds the whole state. So a copy survives as
/// long as one node of the job does. Two files alternate, so one is whole whenever the ranks are
/// killed. Each is an ordinary checkpoint in memory (/dev/shm), written in place and never flushed.
/// The header commits it, and checksums reveal a torn one.
class LocalCopies {
 public:
  /// `node`: the ranks that share `folder`. `start`, a word for file names, separates the copies of
  /// one start of a run from all others; `node_name` separates nodes that share a folder. Local.
  LocalCopies(std::shared_ptr<ProcessGroup> node, std::filesystem::path folder,
              const std::string& start, const std::string& node_name);
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Writes a copy over the older of the two. The state must be replicated over the node's ranks. A
  /// removed file is made anew. On failure all of them throw CheckpointError (or NotFiniteError as
  /// CheckpointWriter::save does), and the newer copy stays. If only the last write fails, which
  /// makes a copy valid, only the node's first rank throws CheckpointError, and all may go on.
  /// Collective over `node`.
  void save(const CheckpointContents& contents, NotFinite not_finite = NotFinite::refuse);

  /// Removes both files, and closes the node's group. Collective over `node`.
  void close_and_remove();

 private:
  struct Generation {
    std::filesystem::path path;
    File file;
    std::vector<std::int64_t> offsets;    ///< layout of the data sets; empty: not laid out
    std::optional<LaidOutFile> layout{};  ///< on the node's first rank
  };
  /// Writes everything but manifest and header.
  void write(Generation& target, const StagedSave& save);

  std::shared_ptr<ProcessGroup> node_;
  std::array<Generation, 2> generations_;
  std::size_t next_ = 0;
};

/// The copies of that start in `folder` whose headers say they are whole, newest first. Local.
struct LocalCopy {
  std::filesystem::path path;
  std::int64_t step = 0;
};
[[nodiscard]] std::vector<LocalCopy> list_local_copies(const std::filesystem::path& folder,
                                                       const std::string& start);

/// Removes the copies of that start. Local.
void remove_local_copies(const std::filesystem::path& folder, const std::string& start) noexcept;
/// Removes copies in `folder` that were not written to for a day: leftovers of killed jobs. Local.
void remove_old_local_copies(const std::filesystem::path& folder) noexcept;

/// Throws an Error if a copy does not belong to the caller's run.
using ExpectFits = std::function<void(const CheckpointFile&)>;

/// Among all ranks' copies of that start, takes the newest good one whose step is beyond
/// `newer_than`. The first rank that has it writes it to `checkpoints` as an ordinary checkpoint.
/// Returns nothing if there is none; a bad copy gives a warning. The written file is verified and
/// passed to `expect_fits` before it gets its name: a copy that another process rewrites meanwhile
/// stays where it is. Throws on all ranks what `expect_fits` throws (InputError or CheckpointError
/// by its exit code), and CheckpointError if the copy cannot be written. Collective.
[[nodiscard]] std::optional<std::filesystem::path> bring_back_local_copy(
    ProcessGroup& group, const std::filesystem::path& folder, const std::string& start,
    const std::filesystem::path& checkpoints, std::int64_t newer_than,
    const ExpectFits& expect_fits = {});

}  // namespace lockstep
