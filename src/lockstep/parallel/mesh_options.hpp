#pragma once
#include <cstdint>
#include <vector>

#include <lockstep/parallel/device_mesh.hpp>

namespace lockstep {

class DeckTable;

/// [mesh]: how the ranks share out the batch and the model. One size may be -1: it takes the ranks
/// that the others leave.
struct MeshOptions {
  std::int64_t dp = -1;  ///< data parallel: parts of a batch
  std::int64_t tp = 1;   ///< tensor parallel: parts of the model's tensors
};
void declare(DeckTable& table, MeshOptions& options);

/// The dimensions from the outermost to the innermost, which is on one node where that is possible;
/// sizes as in the options.
[[nodiscard]] std::vector<MeshDim> dims_of(const MeshOptions& options);

}  // namespace lockstep
