#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/checkpoint/file/region.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// Length of a slab: large enough for a parallel file system, small enough to be in cache for the
/// checksum, and a useful answer to "which bytes are damaged".
inline constexpr std::int64_t slab_bytes = std::int64_t{4} << 20;

/// Throws Error unless HDF5 can hold `name` ("blocks.0.attn.weight", "a/b") as groups and a data
/// set, and the manifest can hold it as a line.
void check_name(const std::string& name);

/// Cuts [begin, begin + bytes) of a data set into slabs; all but the last have `slab_bytes`.
[[nodiscard]] std::vector<Slab> cut_slabs(std::int64_t begin, std::int64_t bytes, int owner = 0);

/// Assigns slabs of replicated data sets to `ranks` ranks. Laid end to end the data sets are one
/// run of bytes; each rank gets an equal contiguous part, to within a slab. The cut, and so the
/// file, does not depend on the number of ranks.
void deal_replicated(std::vector<DatasetEntry*> datasets, int ranks);

/// One data set of a save, and the bytes that this rank holds of it.
struct PlannedDataset {
  DatasetEntry entry;  ///< slabs of all ranks, with their owners
  Tensor local;        ///< on the host or a device
  /// Of a sharded tensor: the holders of each region. Empty: every rank holds all of it.
  std::vector<std::vector<RegionHolder>> holders = {};

  /// Where the slab begins in the tensor of `rank`; nothing if that does not hold it.
  [[nodiscard]] std::optional<std::int64_t> place_on(int rank, const Slab& slab) const;
};

/// Plans the tensors of `model` and `optimizer` as data sets under /model and /optimizer.
/// Collective: names, dtypes and global shapes must agree, and the ranks' parts of a sharded tensor
/// must tile it; else throws CheckpointError on all ranks. The slabs are the same on every rank.
/// With compression, replicated tensors of 64 KiB and more are cut into chunks.
[[nodiscard]] std::vector<PlannedDataset> plan_state(ProcessGroup& group, const StateDict& model,
                                                     const StateDict& optimizer,
                                                     Compression compression = Compression::none);

/// For agree(): a failure becomes a CheckpointError on all ranks. It holds the failed rank, `what`
/// ("checkpoint x.h5 was not written") and that rank's sentence.
[[nodiscard]] AgreeOptions refuse_with(const std::string& what);

}  // namespace lockstep
