#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Cost and findings of a save.
struct SaveReport {
  std::int64_t bytes = 0;      ///< size of the file
  double seconds = 0;          ///< from the call to publication
  double blocked_seconds = 0;  ///< until the state may change again
  /// A tensor with an infinity or NaN, "/model/conv1.weight"; empty if there is none.
  std::string not_finite;
};

/// How to treat a state with an infinity or NaN.
enum class NotFinite { refuse, save };

/// Thrown instead of saving a state that is not finite.
class NotFiniteError : public Error {
 public:
  using Error::Error;
};

/// Called by rank 0, on the writing thread, before a save creates its file and before the file gets
/// its name. Throws Error to forbid it; the save then fails with that sentence.
using MayWrite = std::function<void()>;

/// Writes checkpoints: all ranks together, each its own slabs of bytes, into one HDF5 file that
/// appears under its name whole and checksummed, or not at all (docs/guide/checkpoints.md).
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Compression compression = Compression::none)
      : compression_(compression) {}

  /// Collective; `path` (on a file system that all ranks see) and the names, dtypes and global
  /// shapes of the state must be the same on every rank. Contents are not changed. Throws
  /// CheckpointError on all ranks, with the sentence of the first rank that failed; then no file of
  /// that save is left, and any previous one under `path` is unchanged. Throws NotFiniteError in
  /// the same way if model or optimizer have elements that are not finite, unless `not_finite`
  /// permits them; CommError if a peer is lost.
  SaveReport save(ProcessGroup& group, const std::filesystem::path& path,
                  const CheckpointContents& contents, NotFinite not_finite = NotFinite::refuse,
                  MayWrite may_write = {});

 private:
  Compression compression_;
};

}  // namespace lockstep
