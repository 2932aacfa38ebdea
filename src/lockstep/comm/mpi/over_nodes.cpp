#include <lockstep/comm/mpi/over_nodes.hpp>

#include <lockstep/comm/node/in_place.hpp>
#include <lockstep/comm/node/memory.hpp>
#include <lockstep/comm/node/shares.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {

bool OverNodes::fits(const Node& node, const Operation& operation) noexcept {
  const DType dtype = operation.input.dtype();
  return operation.kind == Operation::Kind::all_reduce && dtype != DType::f16 &&
         dtype != DType::bf16 && InPlace::fits(node, operation);
}

OverNodes::State OverNodes::move(MpiNode& node, const Operation& operation, const MpiPlace& place,
                                 WorkClock& clock, bool& began) {
  if (stages_.finished() == 0) {
    const WorkClock::Working working(clock, operation.output.bytes());
    const ReduceOp op = operation.op == ReduceOp::avg ? ReduceOp::sum : operation.op;
    cursor_ = reduce_share(*node, operation, op, 1, cursor_);
    if (cursor_ >= 0) return State::running;
    stages_.finish(*node, operation, 1);
  }
  if (node->is_leader()) return lead(node, operation, place, began);
  const Board::Slot& leader = slot_of(*node, operation, 0);
  if (leader.delivered.load(std::memory_order_acquire) != operation.sequence) return State::running;
  copy_bytes(operation.output.data(), node->address(leader.output, 0),
             static_cast<std::int64_t>(operation.output.bytes()));
  stages_.finish(*node, operation, 2);
  return State::over;
}

OverNodes::State OverNodes::lead(MpiNode& node, const Operation& operation, const MpiPlace& place,
                                 bool& began) {
  if (stages_.finished() == 1) {
    if (calls_.requests.empty()) {
      if (!stages_.all_have_finished(*node, operation, 1)) return State::running;
      Operation among_nodes = operation;
      among_nodes.input = operation.output;
      const MpiPlace leaders{.collectives = node.leaders(), .max_count = place.max_count};
      status_ = start_calls(among_nodes, leaders, calls_);
      began = true;
      if (status_ != MPI_SUCCESS) return State::mpi_failed;
    }
    if (!requests_over(calls_, status_)) {
      return status_ == MPI_SUCCESS ? State::running : State::mpi_failed;
    }
    if (operation.op == ReduceOp::avg) scale(operation.output, 1.0 / place.size);
    node->board()
        .mine(operation.sequence)
        .delivered.store(operation.sequence, std::memory_order_release);
    stages_.finish(*node, operation, 2);
  }
  return stages_.all_have_finished(*node, operation, 2) ? State::over : State::running;
}

}  // namespace lockstep
