#pragma once
#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// What a save cost, and found.
struct SaveReport {
  std::int64_t bytes = 0;      ///< size of the file
  double seconds = 0;          ///< from the call until it was published
  double blocked_seconds = 0;  ///< until the state might change again
  /// A tensor with an infinity or NaN in it, "/model/conv1.weight"; empty if there is none.
  std::string not_finite;
};

/// What becomes of a state with an infinity or NaN in it.
enum class NotFinite { refuse, save };

/// A state that is not finite was to be saved, and was not.
class NotFiniteError : public Error {
 public:
  using Error::Error;
};

/// Asked by rank 0, on the thread that writes, before a save makes its file and before the file
/// gets its name. Throws Error where that must not be any more: the save then fails with that
/// sentence.
using MayWrite = std::function<void()>;

/// Writes checkpoints: all ranks together, each its own slabs of bytes, into one HDF5 file that
/// appears under its name whole and checksummed, or not at all (docs/guide/checkpoints.md).
class CheckpointWriter {
 public:
  explicit CheckpointWriter(Compression compression = Compression::none)
      : compression_(compression) {}

  /// Collective; `path` (on a file system all ranks see) and the names, dtypes and global shapes of
  /// the state must be the same on every rank. Contents are not changed. Throws CheckpointError on
  /// all ranks, with the sentence of the first rank that failed, and then no file of that save is
  /// left and any previous one under `path` is as it was; NotFiniteError, in the same way, if model
  /// or optimizer have elements that are not finite, unless `not_finite` lets them through;
  /// CommError if a peer is lost.
  SaveReport save(ProcessGroup& group, const std::filesystem::path& path,
                  const CheckpointContents& contents, NotFinite not_finite = NotFinite::refuse,
                  MayWrite may_write = {});

 private:
  Compression compression_;
};

}  // namespace lockstep
