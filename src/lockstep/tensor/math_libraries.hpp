#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Lets oneDNN (through OpenMP) use `threads` threads for calls made from this thread; OpenBLAS,
/// which gets small products only, one in the whole process. Without this both take every core of
/// the machine, which ranks that share it pay for.
void set_math_threads(int threads);

/// Name and version of each, for reports: oneDNN, BLAS, Kokkos.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> math_library_versions();

}  // namespace lockstep
