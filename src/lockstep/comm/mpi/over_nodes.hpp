#pragma once
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/mpi/calls.hpp>
#include <lockstep/comm/mpi/node.hpp>
#include <lockstep/comm/node/stages.hpp>

namespace lockstep {

/// An all_reduce of a group on several nodes, of tensors in shared buffers: each node's sum in its
/// leader's output, then the leaders' among themselves, then the others copy it.
class OverNodes {
 public:
  /// On this node; it goes this way if it fits on every node.
  [[nodiscard]] static bool fits(const Node& node, const Operation& operation) noexcept;

  enum class State : std::uint8_t { running, over, mpi_failed };
  /// `began` is set once the leaders have called each other.
  [[nodiscard]] State move(MpiNode& node, const Operation& operation, const MpiPlace& place,
                           WorkClock& clock, bool& began);
  /// MPI's, after State::mpi_failed.
  [[nodiscard]] int status() const noexcept { return status_; }

 private:
  [[nodiscard]] State lead(MpiNode& node, const Operation& operation, const MpiPlace& place,
                           bool& began);

  Stages stages_;
  std::int64_t cursor_ = 0;
  MpiCalls calls_;
  int status_ = MPI_SUCCESS;
};

}  // namespace lockstep
