#include <lockstep/comm/mpi/all_gather_values.hpp>

#include <algorithm>
#include <cstring>
#include <memory>

#include <lockstep/comm/engine/kept_memory.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {

void all_gather_bytes(const void* mine, std::size_t bytes, void* all, const MpiRanks& ranks,
                      int tag, const MpiWait& wait) {
  const int size = ranks.size(), rank = ranks.rank();
  // The values in order of rank, starting with this rank's.
  const auto known =
      std::make_shared<std::vector<std::byte>>(bytes * static_cast<std::size_t>(size));
  const auto block = [&](int i) { return known->data() + bytes * static_cast<std::size_t>(i); };
  std::memcpy(block(0), mine, bytes);
  try {
    for (int have = 1; have < size; have *= 2) {
      const int n = static_cast<int>(bytes) * std::min(have, size - have);
      const int from = ranks.mpi_rank((rank + have) % size);
      const int to = ranks.mpi_rank((rank + size - have) % size);
      MPI_Request coming = MPI_REQUEST_NULL, going = MPI_REQUEST_NULL;
      check_mpi(MPI_Irecv(block(have), n, MPI_BYTE, from, tag, ranks.collectives(), &coming),
                "MPI_Irecv");
      check_mpi(MPI_Isend(block(0), n, MPI_BYTE, to, tag, ranks.collectives(), &going),
                "MPI_Isend");
      wait(coming);
      wait(going);
    }
  } catch (...) {
    keep_until_exit(known);  // after a deadline MPI may still write here
    throw;
  }
  for (int i = 0; i < size; ++i) {
    std::memcpy(static_cast<std::byte*>(all) + bytes * static_cast<std::size_t>((rank + i) % size),
                block(i), bytes);
  }
}

}  // namespace lockstep
