#include <lockstep/comm/mpi/max_all_reduce.hpp>

#include <algorithm>

namespace lockstep {

int MaxAllReduce::start(const MpiRanks& ranks, int tag, const Numbers& mine) {
  known_ = mine;
  tag_ = tag;
  distance_ = 1;
  return tell(ranks);
}

int MaxAllReduce::tell(const MpiRanks& ranks) {
  const int size = ranks.size(), rank = ranks.rank();
  if (distance_ >= size) return MPI_SUCCESS;
  const int before = ranks.mpi_rank((rank + size - distance_) % size);
  const int after = ranks.mpi_rank((rank + distance_) % size);
  going_ = known_;
  const int status = MPI_Irecv(coming_.data(), static_cast<int>(coming_.size()), MPI_UINT64_T,
                               before, tag_, ranks.collectives(), &received_);
  if (status != MPI_SUCCESS) return status;
  return MPI_Isend(going_.data(), static_cast<int>(going_.size()), MPI_UINT64_T, after, tag_,
                   ranks.collectives(), &sent_);
}

bool MaxAllReduce::move(const MpiRanks& ranks, int& status) {
  while (distance_ < ranks.size()) {
    for (MPI_Request* request : {&received_, &sent_}) {
      int over = 0;
      status = MPI_Test(request, &over, MPI_STATUS_IGNORE);
      if (status != MPI_SUCCESS || over == 0) return false;
    }
    std::ranges::transform(known_, coming_, known_.begin(),
                           [](std::uint64_t a, std::uint64_t b) { return std::max(a, b); });
    distance_ *= 2;
    status = tell(ranks);
    if (status != MPI_SUCCESS) return false;
  }
  return true;
}

}  // namespace lockstep
