#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// All bytes of a regular file, however large. Throws InputError with the file and the reason: it
/// does not exist, it is a folder, the disk fails; for a pipe, a socket or a device like /dev/zero
/// it throws at once, without waiting or reading.
[[nodiscard]] std::string read_file(const std::filesystem::path& file);

/// The same for a file that a user or an earlier run may have written and that should be small: a
/// list of hosts, a note, a tokenizer, a vocabulary. Throws InputError also for a file larger than
/// `most_bytes`, and reads no more than that.
[[nodiscard]] std::string read_small_file(const std::filesystem::path& file,
                                          std::int64_t most_bytes);

/// The same for an optional file: empty where read_small_file throws.
[[nodiscard]] std::string read_small_file_or_nothing(const std::filesystem::path& file,
                                                     std::int64_t most_bytes);

}  // namespace lockstep
