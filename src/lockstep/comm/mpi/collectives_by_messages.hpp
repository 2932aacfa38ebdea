#pragma once
#include <lockstep/comm/mpi/call_list.hpp>

namespace lockstep {

/// A collective of ranks that have no communicator of their own: each sends each what it is to get.
/// In reductions a rank sums, in rank order, one block of the elements for all, so that nobody
/// sends or holds more than twice the tensor.
class CollectiveByMessages : public CallList {
 public:
  using CallList::CallList;

  void start();
  /// The blocks of a reduction have arrived: sums its own. True if there is more to send for it.
  [[nodiscard]] bool go_on();

 private:
  /// The block that a rank sums.
  [[nodiscard]] Block summed_by(int rank) const;
  void exchange_blocks();
};

}  // namespace lockstep
