#include <lockstep/train/run/memory_limit.hpp>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep::train {
namespace {

// Measured with the bundled decks (VmPeak): 150 MiB of libraries before main(), then MPI's, HDF5's
// and Lockstep's memory. Each further rank adds its threads, whose stacks and heaps reserve far
// more than they use.
constexpr std::int64_t mib = 1 << 20, of_process = 512 * mib, of_rank = 192 * mib,
                       of_math_thread = 72 * mib;

}  // namespace

void expect_address_space(int ranks) {
  rlimit limit{};
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  const auto cores = std::max<std::int64_t>(1, std::ssize(allowed_cores()));
  const std::int64_t needed = of_process + ranks * of_rank + (cores - 1) * of_math_thread;
  const auto bytes = static_cast<std::size_t>(needed);
  void* const memory =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory != MAP_FAILED) {
    munmap(memory, bytes);
    return;
  }
  throw OutOfMemoryError(fmt::format(
      "out of memory: the limit on this process's address space, {} (ulimit -v), leaves less than "
      "the {} that its libraries and threads reserve. Raise the limit, or limit "
      "resident memory instead.",
      format_bytes(static_cast<std::int64_t>(limit.rlim_cur)), format_bytes(needed)));
}

void expect_file_size() {
  constexpr rlim_t of_mpi =
      8 * mib;  // measured with MPICH 4.0 with UCX 1.13: more than 4, less than 8
  rlimit limit{};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (limit.rlim_cur >= of_mpi) return;
  throw InputError(fmt::format(
      "the limit on the size of files, {} (ulimit -f), is below the {} that MPI's files in shared "
      "memory take. Raise it, or train without MPI: --ranks-as-threads.",
      format_bytes(static_cast<std::int64_t>(limit.rlim_cur)),
      format_bytes(static_cast<std::int64_t>(of_mpi))));
}

void raise_open_files_limit() noexcept {
  constexpr rlim_t most = 65536;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= most) return;
  limit.rlim_cur = std::min(limit.rlim_max, most);
  setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep::train
