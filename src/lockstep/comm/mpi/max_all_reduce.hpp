#pragma once
#include <array>
#include <cstdint>

#include <lockstep/comm/mpi/ranks.hpp>

namespace lockstep {

/// A non-blocking all-reduce of a few numbers by their maximum: in round k every rank sends what it
/// knows to the one 2^k after it, so ceil(log2 size) rounds do (dissemination, Hensgen et al. 1988;
/// a maximum may count a number twice). Its address must not change until it is over.
class MaxAllReduce {
 public:
  using Numbers = std::array<std::uint64_t, 2>;

  // These throw OperationFailure if MPI fails.
  /// Nothing else of `ranks` in flight has this tag.
  void start(const MpiRanks& ranks, int tag, const Numbers& mine);
  /// True once the largest are known.
  [[nodiscard]] bool move(const MpiRanks& ranks);
  [[nodiscard]] const Numbers& known() const noexcept { return known_; }

 private:
  void tell(const MpiRanks& ranks);

  Numbers known_{}, going_{}, coming_{};
  int tag_ = 0;
  int distance_ = 1;
  MPI_Request sent_ = MPI_REQUEST_NULL, received_ = MPI_REQUEST_NULL;
};

}  // namespace lockstep
