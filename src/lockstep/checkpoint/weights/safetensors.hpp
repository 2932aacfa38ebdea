#pragma once
#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// A file in the open format in which PyTorch's users exchange weights: the length of a JSON text
/// (u64, little-endian), the text ({name: {dtype, shape, data_offsets}}), the tensors' bytes.
/// https://huggingface.co/docs/safetensors
struct Safetensors {
  StateDict tensors;
  std::vector<std::pair<std::string, std::string>> metadata;  ///< "__metadata__"
};

/// All tensors, on the host, with names in the order of their bytes. Throws CheckpointError naming
/// the file, and the tensor: for invalid JSON, nesting deeper than the format's, duplicate names,
/// types that Lockstep lacks, and bytes that are missing, overlap or belong to no tensor.
[[nodiscard]] Safetensors read_safetensors(const std::filesystem::path& path);

/// Writes the file, which appears whole or not at all (AtomicFile). Tensors are replicated, on any
/// device. Throws FileError, and CheckpointError for a name or a text that the format cannot hold.
void write_safetensors(const std::filesystem::path& path, const Safetensors& contents);

}  // namespace lockstep
