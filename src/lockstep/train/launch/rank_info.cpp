#include <lockstep/train/launch/rank_info.hpp>

#include <mpi.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <fstream>

#include <lockstep/base/cores.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/version.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>
#include <lockstep/tensor/device_memory.hpp>

namespace lockstep::train {
namespace {

/// XXH3 of the program's file: equal on all ranks unless a node has a stale copy.
std::string program_hash() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  Hasher hasher;
  std::vector<char> buffer(1U << 16U);
  while (file.read(buffer.data(), static_cast<std::streamsize>(buffer.size())) ||
         file.gcount() > 0) {
    hasher.update(buffer.data(), static_cast<std::size_t>(file.gcount()));
  }
  return to_hex(hasher.digest());
}

std::string thread_level() {
  int running = 0, level = MPI_THREAD_SINGLE;
  MPI_Initialized(&running);
  if (!running) return "";
  MPI_Query_thread(&level);
  return level == MPI_THREAD_SINGLE       ? "MPI_THREAD_SINGLE"
         : level == MPI_THREAD_FUNNELED   ? "MPI_THREAD_FUNNELED"
         : level == MPI_THREAD_SERIALIZED ? "MPI_THREAD_SERIALIZED"
                                          : "MPI_THREAD_MULTIPLE";
}

}  // namespace

RankInfo local_rank_info(const std::string& deck_hash, Device device) {
  RankInfo info{.host = host_name(),
                .pid = static_cast<int>(getpid()),
                .cores = allowed_cores(),
                .gpu = gpu_address(device),
                .thread_level = thread_level(),
                .version = version(),
                .program = program_hash(),
                .deck = deck_hash,
                .processor = cpu_features()};
  struct statvfs shm {};
  if (statvfs("/dev/shm", &shm) == 0) {
    const double block_mib = static_cast<double>(shm.f_frsize) / 0x1p20;
    info.shm_mib = static_cast<double>(shm.f_blocks) * block_mib;
    info.shm_free_mib = static_cast<double>(shm.f_bavail) * block_mib;
  }
  return info;
}

std::string core_list(const std::vector<int>& cores) {
  std::string list;
  for (std::size_t first = 0; first < cores.size();) {
    std::size_t last = first;
    while (last + 1 < cores.size() && cores[last + 1] == cores[last] + 1) ++last;
    list += (list.empty() ? "" : ",") + std::to_string(cores[first]);
    if (last > first) list += "-" + std::to_string(cores[last]);
    first = last + 1;
  }
  return list;
}

}  // namespace lockstep::train
