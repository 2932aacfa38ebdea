#pragma once
#include <cstdint>
#include <filesystem>
#include <string>

namespace lockstep {

/// Bytes that this user may still write on the file system of `folder` (of its nearest existing
/// parent). Throws FileError.
[[nodiscard]] std::int64_t available_bytes(const std::filesystem::path& folder);

/// Makes `folder` if necessary and tries to write a file in it: mode bits alone do not tell (root,
/// read-only mounts, quotas). Empty on success, else one sentence with the reason.
[[nodiscard]] std::string why_not_writable(const std::filesystem::path& folder);

/// Makes `folder` and its missing parents. Throws FileError.
void make_folder(const std::filesystem::path& folder);

/// Throws InputError if the working directory no longer exists: relative paths cannot be resolved
/// then.
void expect_working_directory();

/// Puts the folder's list of names on stable storage, as a rename requires. Throws FileError.
void sync_folder(const std::filesystem::path& folder);

/// "4.0 MiB", "17 bytes": for messages.
[[nodiscard]] std::string format_bytes(std::int64_t bytes);

}  // namespace lockstep
