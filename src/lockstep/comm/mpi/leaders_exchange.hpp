#pragma once
#include <vector>

#include <mpi.h>
#include <lockstep/comm/node/crossing.hpp>

namespace lockstep {

/// What the leaders of all nodes send each other for one piece of a collective, in one call of MPI
/// or two. MPI only moves bytes, each at its own size: 16-bit floats travel as 16 bits. The calls
/// of two pieces never alternate, so that their order is the same on every leader.
class LeadersExchange {
 public:
  /// Piece k sets out, of which the node's part has been collected; returns MPI's status. `leaders`
  /// is for pieces only.
  [[nodiscard]] int start(MPI_Comm leaders, Depot& depot, const Crossing& crossing,
                          const Operation& operation, std::int64_t k);
  /// Goes on; true once the result is there. `status` is MPI's.
  [[nodiscard]] bool move(MPI_Comm leaders, Depot& depot, const Crossing& crossing,
                          const Operation& operation, int& status);
  /// Whether all calls have been made: the next piece may set out.
  [[nodiscard]] bool has_called() const noexcept { return !sums_share_; }

 private:
  /// How many elements go to, or come from, each node; MPI reads them until the call is over.
  struct Counts {
    std::vector<int> counts, begins;
    void clear();
    void add(std::int64_t count, std::int64_t begin);
  };

  [[nodiscard]] int send_sums(MPI_Comm leaders, Depot& depot, const Operation& operation,
                              std::int64_t count);

  std::int64_t k_ = 0;
  bool sums_share_ = false;  // when the first of two calls is over
  MPI_Request request_ = MPI_REQUEST_NULL;
  Counts to_, from_;
};

}  // namespace lockstep
