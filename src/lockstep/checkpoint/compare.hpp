#pragma once
#include <filesystem>

#include <lockstep/checkpoint/inspect.hpp>

namespace lockstep {

/// Compares two checkpoints, or other files of weights (read_weights): a line for each tensor that
/// is only in one, of another shape or type, or whose elements differ by more than `tolerance` (0:
/// other bits), with how many do and by how much at most. Of two checkpoints also the optimizers'
/// tensors, where the trainings stood, and the decks. Code 0 if nothing differs, 1 if something
/// does, 4 with the sentence of what is wrong with a file.
[[nodiscard]] CheckpointReport compare_checkpoints(const std::filesystem::path& first,
                                                   const std::filesystem::path& second,
                                                   double tolerance);

}  // namespace lockstep
