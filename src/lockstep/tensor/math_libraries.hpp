#pragma once
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

/// Limits the math libraries (oneDNN through OpenMP, OpenBLAS) to `threads` threads for calls made
/// from this thread; OpenBLAS's limit holds for the whole process. Without it they take every core
/// of the machine, which ranks that share it pay for.
void set_math_threads(int threads);

/// Name and version of each, for reports: oneDNN, BLAS, Kokkos.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> math_library_versions();

}  // namespace lockstep
