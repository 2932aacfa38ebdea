#pragma once
#include <cstdint>
#include <filesystem>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// What a save cost.
struct SaveReport {
  std::int64_t bytes = 0;  ///< size of the file
  double seconds = 0;
};

/// Writes checkpoints: all ranks together, each its own slabs of bytes, into one HDF5 file that
/// appears under its name whole and checksummed, or not at all (docs/checkpoints.md).
class CheckpointWriter {
 public:
  /// Collective; `path` (on a file system all ranks see) and the names, dtypes and global shapes of
  /// the state must be the same on every rank. Contents are not changed. Throws CheckpointError on
  /// all ranks, with the sentence of the first rank that failed, and then no file of that save is
  /// left and any previous one under `path` is as it was; CommError if a peer is lost.
  SaveReport save(ProcessGroup& group, const std::filesystem::path& path,
                  const CheckpointContents& contents);
};

}  // namespace lockstep
