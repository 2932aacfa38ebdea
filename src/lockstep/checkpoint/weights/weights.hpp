#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>

namespace lockstep {

/// The weights in a checkpoint, a safetensors file, or any HDF5 file (read_hdf5_weights), told
/// apart by their first bytes; of a checkpoint also everything else. GPT-2's weights of Hugging
/// Face come under nn::Gpt's names (hugging_face.hpp). Local. Throws CheckpointError.
[[nodiscard]] CheckpointContents read_whole(const std::filesystem::path& path);

/// The same without an optimizer's slots.
[[nodiscard]] CheckpointContents read_weights(const std::filesystem::path& path);

enum class WeightsFormat { h5, safetensors };

/// Puts the model of `contents`, without the optimizer, into one file that appears whole or not at
/// all. h5 is a checkpoint, which other HDF5 programs read too. What else `contents` says is in a
/// safetensors file's metadata: "step", "epoch", "deck". Local. Throws CheckpointError or
/// FileError.
void write_weights(const std::filesystem::path& path, const CheckpointContents& contents,
                   WeightsFormat format);

}  // namespace lockstep
