#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lockstep::train {

/// Name and version of the libraries that a run's numbers and files depend on: math, HDF5, MPI.
/// MPI must be initialised.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> library_versions();

}  // namespace lockstep::train
