#pragma once
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace lockstep::test {

/// Whether the system's python3 has h5py and numpy (Debian: python3-h5py).
inline bool python_has_h5py() {
  return std::system("/usr/bin/python3 -c 'import h5py, numpy' 2>/dev/null") == 0;
}

/// Runs a script by it, in that folder; 0 if it went well.
inline int run_python(const std::filesystem::path& folder, const std::string& script) {
  std::ofstream(folder / "script.py") << script;
  return std::system(("cd " + folder.string() + " && /usr/bin/python3 script.py").c_str());
}

}  // namespace lockstep::test
