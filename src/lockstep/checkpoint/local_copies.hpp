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

/// Checkpoints in the memory of a node, as SCR and VELOC give other codes: the state as it was some
/// steps ago, for a restart after a process has died, much more often than a file system bears.
///
/// The ranks of a node write them together, every node all of the state: as long as one node of a
/// job lives, its copy does. Two files in turn, so that one of them is whole whenever the ranks are
/// killed; each is an ordinary checkpoint, whose bytes are nowhere but in memory (/dev/shm), are
/// written in place and never flushed. The header commits it, and checksums tell a torn one.
class LocalCopies {
 public:
  /// `node`: the ranks that share `folder`. `start`, a word for file names, tells the copies of one
  /// start of a run from those of all others; `node_name` those of one node from others', where
  /// they share a folder. Local.
  LocalCopies(std::shared_ptr<ProcessGroup> node, std::filesystem::path folder,
              const std::string& start, const std::string& node_name);
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Writes one over the older of the two. The state must be replicated over the node's ranks.
  /// A file that somebody has removed is made anew. Throws, on all of them, CheckpointError, and
  /// NotFiniteError as CheckpointWriter::save does; the newer of the two stays. Where the last
  /// write alone has failed, by which a copy becomes valid, CheckpointError on the node's first
  /// rank only; all may go on. Collective over `node`.
  void save(const CheckpointContents& contents, NotFinite not_finite = NotFinite::refuse);

  /// Removes both files, and closes the node's group. Collective over `node`.
  void close_and_remove();

 private:
  struct Generation {
    std::filesystem::path path;
    File file;
    std::vector<std::int64_t> offsets;    ///< of the data sets; empty: not laid out
    std::optional<LaidOutFile> layout{};  ///< on the node's first rank
  };
  /// All but manifest and header.
  void write(Generation& target, const StagedSave& save);

  std::shared_ptr<ProcessGroup> node_;
  std::array<Generation, 2> generations_;
  std::size_t next_ = 0;
};

/// The copies of that start in `folder`, whole ones as far as their headers tell, newest first.
/// Local.
struct LocalCopy {
  std::filesystem::path path;
  std::int64_t step = 0;
};
[[nodiscard]] std::vector<LocalCopy> list_local_copies(const std::filesystem::path& folder,
                                                       const std::string& start);

/// Removes the copies of that start. Local.
void remove_local_copies(const std::filesystem::path& folder, const std::string& start) noexcept;
/// Removes copies in `folder` that nobody has written to for a day: what killed jobs left. Local.
void remove_old_local_copies(const std::filesystem::path& folder) noexcept;

/// Throws an Error where a copy is not of the run that wants it.
using ExpectFits = std::function<void(const CheckpointFile&)>;

/// The newest of all ranks' copies of that start whose step is beyond `newer_than`, as a checkpoint
/// like any other in `checkpoints`, written by the first rank that has it; nothing if there is none
/// that is good; a bad one is a warning. What was written there is verified, and `expect_fits`
/// asked, before it gets its name: a copy that another process rewrites meanwhile stays where it
/// is. Throws, on all ranks, what `expect_fits` throws (InputError or CheckpointError by its exit
/// code), and CheckpointError where the copy cannot be written. Collective.
[[nodiscard]] std::optional<std::filesystem::path> bring_back_local_copy(
    ProcessGroup& group, const std::filesystem::path& folder, const std::string& start,
    const std::filesystem::path& checkpoints, std::int64_t newer_than,
    const ExpectFits& expect_fits = {});

}  // namespace lockstep
