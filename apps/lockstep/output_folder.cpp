#include "output_folder.hpp"

#include <fmt/format.h>

#include <system_error>

#include <lockstep/base/error.hpp>
#include <lockstep/base/for_each_entry.hpp>
#include <lockstep/io/folder_lock.hpp>

namespace lockstep::utility {
namespace fs = std::filesystem;

fs::path checked_output(const fs::path& folder, const std::string& results, const char* whose) {
  std::error_code error;
  if (fs::exists(folder / results, error) || !fs::exists(folder, error)) return folder;
  if (!fs::is_directory(folder, error))
    throw InputError(fmt::format("--output {} is not a folder", folder.string()));
  const auto refuse = [&](const fs::directory_entry& entry) {
    const std::string name = entry.path().filename().string();
    // Of a process that was killed at the very beginning.
    if (name.starts_with(FolderLock::file_name) || name.starts_with(results)) return;
    throw InputError(fmt::format("--output {} holds other files than {}: {}; name another",
                                 folder.string(), whose, name));
  };
  for_each_entry(folder, refuse, error);
  if (error) {
    throw InputError(fmt::format("--output {} cannot be read: {}; name another", folder.string(),
                                 error.message()));
  }
  return folder;
}

}  // namespace lockstep::utility
