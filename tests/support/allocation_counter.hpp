#pragma once
#include <cstdint>

namespace lockstep::test {

/// Calls of operator new by this process so far, in all threads, without those of MPI, HDF5, BLAS
/// and oneDNN. Counts only in programs that compile tests/support/allocation_counter.cpp, which
/// replaces operator new and delete.
[[nodiscard]] std::int64_t allocation_count() noexcept;

}  // namespace lockstep::test
