#pragma once
#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/node/node.hpp>
#include <lockstep/comm/node/stages.hpp>

namespace lockstep {

/// A zero-copy collective of ranks of one node, whose tensors are in shared buffers: each rank
/// reads the others' tensors directly and, for all_reduce, writes its share of the result into all
/// of them. Reductions go in rank order: same bits on every rank and in every run.
class InPlace {
 public:
  /// True if every tensor that others must reach lies in a shared buffer; the same on every rank,
  /// once all have posted.
  [[nodiscard]] static bool fits(const ComputeNode& node, const Operation& operation) noexcept;

  /// Makes progress; over once every rank has done its part.
  [[nodiscard]] Motion move(ComputeNode& node, const Operation& operation, WorkClock& clock);

 private:
  Stages stages_;
  std::int64_t cursor_ = 0;  // how far this rank's part has come
};

}  // namespace lockstep
