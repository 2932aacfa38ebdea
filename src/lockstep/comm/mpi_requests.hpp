#pragma once
#include <array>
#include <cstddef>
#include <vector>

#include <mpi.h>

namespace lockstep {

/// The requests of one operation; few of them need no allocation.
class MpiRequests {
 public:
  /// Where MPI writes the next request.
  [[nodiscard]] MPI_Request* add() {
    if (count_ < few_.size()) return &few_[count_++];
    if (many_.empty()) many_.assign(few_.begin(), few_.end());
    ++count_;
    return &many_.emplace_back(MPI_REQUEST_NULL);
  }
  /// A call failed: the last one was never made.
  void drop_last() noexcept {
    --count_;
    if (!many_.empty()) many_.pop_back();
  }
  [[nodiscard]] MPI_Request* data() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] int count() const noexcept { return static_cast<int>(count_); }

 private:
  std::array<MPI_Request, 4> few_;
  std::vector<MPI_Request> many_;  // all of them, once there are more
  std::size_t count_ = 0;
};

}  // namespace lockstep
