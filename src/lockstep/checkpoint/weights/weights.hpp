#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/checkpoint.hpp>

namespace lockstep {

/// Reads the weights in a checkpoint, a safetensors file, or any HDF5 file (read_hdf5_weights),
/// recognized by their first bytes; from a checkpoint also everything else. Hugging Face's GPT-2
/// weights get nn::Gpt's names (hugging_face.hpp). Local. Throws CheckpointError.
[[nodiscard]] CheckpointContents read_whole(const std::filesystem::path& path);

/// The same without an optimizer's slots.
[[nodiscard]] CheckpointContents read_weights(const std::filesystem::path& path);

enum class WeightsFormat { h5, safetensors };

/// Writes the model of `contents`, without the optimizer, into one file that appears whole or not
/// at all. h5 is a checkpoint, which other HDF5 programs read too. In a safetensors file the
/// metadata hold the rest of `contents`: "step", "epoch", "deck". Local. Throws CheckpointError or
/// FileError.
void write_weights(const std::filesystem::path& path, const CheckpointContents& contents,
                   WeightsFormat format);

}  // namespace lockstep
