#pragma once
#include <filesystem>

#include <lockstep/checkpoint/inspect.hpp>

namespace lockstep {

/// Compares two checkpoints, or other files of weights (read_weights). One line for each tensor
/// that is only in one file, differs in shape or type, or has elements that differ by more than
/// `tolerance` (0: other bits), with their number and largest difference. For two checkpoints also
/// compares optimizer tensors, progress of the training, and decks. Code 0: no difference; 1: some
/// difference; 4: a file is bad, with a sentence on the fault.
[[nodiscard]] CheckpointReport compare_checkpoints(const std::filesystem::path& first,
                                                   const std::filesystem::path& second,
                                                   double tolerance);

}  // namespace lockstep
