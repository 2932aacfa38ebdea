#include <lockstep/comm/mpi/max_all_reduce.hpp>

#include <algorithm>

#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {

void MaxAllReduce::start(const MpiRanks& ranks, int tag, const Numbers& mine) {
  known_ = mine;
  tag_ = tag;
  distance_ = 1;
  tell(ranks);
}

void MaxAllReduce::tell(const MpiRanks& ranks) {
  const int size = ranks.size(), rank = ranks.rank();
  if (distance_ >= size) return;
  const int before = ranks.mpi_rank((rank + size - distance_) % size);
  const int after = ranks.mpi_rank((rank + distance_) % size);
  going_ = known_;
  expect_success(MPI_Irecv(coming_.data(), static_cast<int>(coming_.size()), MPI_UINT64_T, before,
                           tag_, ranks.collectives(), &received_));
  expect_success(MPI_Isend(going_.data(), static_cast<int>(going_.size()), MPI_UINT64_T, after,
                           tag_, ranks.collectives(), &sent_));
}

bool MaxAllReduce::move(const MpiRanks& ranks) {
  while (distance_ < ranks.size()) {
    if (!is_complete(received_) || !is_complete(sent_)) return false;
    std::ranges::transform(known_, coming_, known_.begin(),
                           [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); });
    distance_ *= 2;
    tell(ranks);
  }
  return true;
}

}  // namespace lockstep
