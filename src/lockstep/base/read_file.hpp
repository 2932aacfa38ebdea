#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// All bytes of a regular file, however large. Throws InputError, saying which file cannot be read
/// and why: one that is not there, a folder, a disk that fails, and at once, without waiting or
/// reading, a pipe, a socket or a device such as /dev/zero.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

/// The same of a file that a person or an earlier run may have written, and that is small where it
/// is what it should be: a list of hosts, a note, a tokenizer, a vocabulary. Throws InputError for
/// one of more than `most_bytes`, too, of which no more than that is read.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& file,
                                          std::int64_t most_bytes);

/// The same for a file that may be missing or of any kind, as where it only helps: empty where
/// read_small_file throws.
[[nodiscard]] std::string read_small_file_or_nothing(const std::filesystem::path& file,
                                                     std::int64_t most_bytes);

}  // namespace lockstep
