#pragma once
#include <filesystem>
#include <string>
#include <vector>

namespace lockstep::report {

/// Writes the page of runs and scaling studies, in that order, whole or not at all. Several of a
/// kind are overlaid. Returns its size in bytes. Throws InputError: one is neither; FileError.
std::int64_t write_report(const std::vector<std::filesystem::path>& paths,
                          const std::filesystem::path& output);

}  // namespace lockstep::report
