#pragma once
#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/engine/work_clock.hpp>
#include <lockstep/comm/node/node.hpp>
#include <lockstep/comm/node/stages.hpp>

namespace lockstep {

/// An all_reduce of ranks of one node, of any tensors: piece by piece through a small staging
/// buffer that they share and that stays in cache, one operation at a time. Each rank copies its
/// piece in, reduces its share of it for all, and copies the result out.
class StagedAllReduce {
 public:
  [[nodiscard]] static bool fits(const ComputeNode& node, const Operation& operation) noexcept;
  /// Makes progress; over once the result is complete.
  [[nodiscard]] Motion move(ComputeNode& node, const Operation& operation, WorkClock& clock);

 private:
  [[nodiscard]] bool step(ComputeNode& node, const Operation& operation, WorkClock& clock);

  Stages stages_;
  std::int64_t cursor_ = 0;  // the first element of the piece that is on its way
};

}  // namespace lockstep
