#pragma once
#include <array>
#include <cstdint>
#include <exception>
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
class NodeLayout;
class NodeShares;
struct SavePlan;
struct StagedSave;

/// Checkpoints in a node's memory, like those of SCR and VELOC: the state of some steps ago, for a
/// restart after a process has died. They can be far more frequent than a file system allows.
///
/// Each node keeps the shares of its ranks, and of those of the node before it (NodeShares). So
/// replicated state survives as long as one node of the job does, and sharded state as long as no
/// two nodes in a row are lost. Two files alternate, so one is whole on every node whenever the
/// ranks are killed. Each is a checkpoint in memory (/dev/shm) that lists all of the state and has
/// holes where other nodes hold it, written in place and never flushed. The header commits it, and
/// checksums reveal a torn one.
class LocalCopies {
 public:
  /// `ranks`: all of the job, on `nodes`. `folder` is the node's own, or shared by several: files
  /// have the node's number. `start`, a word for file names, separates the copies of one start of a
  /// run from all others. Local.
  LocalCopies(std::shared_ptr<ProcessGroup> ranks, const NodeLayout& nodes,
              const std::filesystem::path& folder, const std::string& start);
  ~LocalCopies();
  LocalCopies(const LocalCopies&) = delete;
  LocalCopies& operator=(const LocalCopies&) = delete;

  /// Bytes that this rank's node keeps of such a state, in one copy. Collective over `ranks`;
  /// throws CheckpointError if it cannot be saved.
  [[nodiscard]] static std::int64_t bytes_of_node(ProcessGroup& ranks, const NodeLayout& nodes,
                                                  const StateDict& model,
                                                  const StateDict& optimizer);

  /// Writes a copy over the older of the two. State may be replicated or sharded, as for
  /// CheckpointWriter::save; shares for a partner node travel by messages, a tensor at a time. A
  /// removed file is made anew. On failure all ranks throw CheckpointError (or NotFiniteError as
  /// CheckpointWriter::save does), and the newer copy stays. If only the last write fails, which
  /// makes a node's copy valid, only that node's first rank throws CheckpointError, and all may go
  /// on. Collective over `ranks`.
  void save(const CheckpointContents& contents, NotFinite not_finite = NotFinite::refuse);

  /// Removes both files of every node, and closes the group. Collective over `ranks`.
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
  void lay_out(Generation& target, const StagedSave& save);
  [[nodiscard]] std::exception_ptr write_shares(Generation& target, const SavePlan& plan);
  [[nodiscard]] bool is_leader() const;
  /// Copies the tensors of devices that this rank writes or sends.
  void take_to_host(SavePlan& plan) const;

  std::shared_ptr<ProcessGroup> ranks_;
  std::unique_ptr<const NodeShares> shares_;
  int node_;
  std::array<Generation, 2> generations_;
  std::size_t next_ = 0;
};

/// The nodes' copies of that start in `folder` whose headers say they are complete, newest first.
/// Local.
struct LocalCopy {
  std::filesystem::path path;
  std::int64_t step = 0;
  std::uint64_t hash = 0;  ///< the same in the copies of all nodes of one save
};
[[nodiscard]] std::vector<LocalCopy> list_local_copies(const std::filesystem::path& folder,
                                                       const std::string& start);

/// Removes the copies of that start. Local.
void remove_local_copies(const std::filesystem::path& folder, const std::string& start) noexcept;
/// Removes copies in `folder` that were not written to for a day: leftovers of killed jobs. Local.
void remove_old_local_copies(const std::filesystem::path& folder) noexcept;

/// Throws an Error if a copy does not belong to the caller's run.
using ExpectFits = std::function<void(const CheckpointFile&)>;

/// Of the steps beyond `newer_than` takes the newest one of which the ranks' copies of that start
/// have all bytes, on whichever nodes, and good ones. The ranks that have them write them together
/// to `checkpoints` as an ordinary checkpoint, which any mesh reads. Returns nothing if there is
/// none; a step with missing or damaged bytes gives a warning. The written file is verified and
/// passed to `expect_fits` before it gets its name: a copy that another process rewrites meanwhile
/// stays where it is. Throws on all ranks what `expect_fits` throws (InputError or CheckpointError
/// by its exit code), and CheckpointError if the copy cannot be written. Collective.
[[nodiscard]] std::optional<std::filesystem::path> bring_back_local_copy(
    ProcessGroup& group, const std::filesystem::path& folder, const std::string& start,
    const std::filesystem::path& checkpoints, std::int64_t newer_than,
    const ExpectFits& expect_fits = {});

}  // namespace lockstep
