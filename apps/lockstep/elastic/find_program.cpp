#include "find_program.hpp"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

namespace lockstep::elastic {
namespace fs = std::filesystem;

bool can_run(const fs::path& file) {
  std::error_code error;
  return fs::is_regular_file(file, error) && access(file.c_str(), X_OK) == 0;
}

fs::path this_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

fs::path program_beside(const std::string& name) { return this_program().parent_path() / name; }

fs::path find_program(const std::string& name) {
  if (name.find('/') != std::string::npos) return can_run(name) ? fs::path(name) : fs::path();
  const char* path = std::getenv("PATH");
  std::istringstream folders(path ? path : "/bin:/usr/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (fs::path file = fs::path(folder) / name; can_run(file)) return file;
  }
  return {};
}

}  // namespace lockstep::elastic
