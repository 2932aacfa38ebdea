#include <lockstep/comm/mpi/hierarchical_collective.hpp>

namespace lockstep {
namespace {

// A rank's round k has three stages: it copies out the result of the slot's previous piece, stages
// its input of piece k, and combines its share of piece k. A rank that stages piece k has emptied
// the slot. No rank combines before all have staged, so by then all have emptied it.
enum Stage : unsigned { copied_out = 1, staged, combined };
constexpr unsigned stages_a_round = 3;

unsigned stage_of(std::int64_t round, Stage stage) {
  return static_cast<unsigned>(round) * stages_a_round + stage;
}

/// Increases with the collective's number, then with its completed pieces.
std::uint64_t mark(const Operation& operation, std::int64_t pieces) {
  return operation.sequence << 24U | static_cast<std::uint64_t>(pieces);
}

}  // namespace

bool HierarchicalCollective::fits(const MpiNode& node, const Operation& operation) noexcept {
  return node.staging() && HierarchicalPlan::fits(node.staging()->map(), operation);
}

Motion HierarchicalCollective::move(WorkClock& clock) {
  const Operation*& user = node_->staging_user();
  if (user && user != &plan_.operation()) return Motion::none;
  user = &plan_.operation();
  auto motion = Motion::none;
  for (bool moved = true; moved;) {
    moved = step(clock);
    if (node_->is_leader()) moved = exchange_pieces(clock) || moved;
    if (moved) motion = Motion::some;
  }
  const std::int64_t pieces = plan_.pieces();
  if (pieces > 0 && stages_.finished() < stage_of(pieces - 1 + StagingBuffers::slots, copied_out))
    return motion;
  user = nullptr;
  return Motion::over;
}

bool HierarchicalCollective::step(WorkClock& clock) {
  const Operation& operation = plan_.operation();
  const std::int64_t round = stages_.finished() / stages_a_round, pieces = plan_.pieces();
  const auto stage = static_cast<Stage>(stages_.finished() % stages_a_round + 1);
  const bool has_piece = round < pieces;
  const std::size_t bytes = operation.input.defined() ? operation.input.bytes() : 0;
  switch (stage) {
    case copied_out:
      if (round == pieces + StagingBuffers::slots || pieces == 0) return false;
      if (round >= StagingBuffers::slots) {
        const SlotTable::Slot& leader = slot_of(*node_, operation, 0);
        const std::int64_t piece = round - StagingBuffers::slots;
        if (leader.delivered.load(std::memory_order_acquire) < mark(operation, piece + 1)) {
          return false;
        }
        const WorkClock::Working working(clock, bytes);
        plan_.copy_result_out(piece);
      }
      break;
    case staged:
      if (has_piece) {
        const WorkClock::Working working(clock, bytes);
        plan_.stage_input(round);
      }
      break;
    case combined:
      if (has_piece) {
        if (!stages_.all_have_finished(*node_, operation, stage_of(round, staged))) return false;
        const WorkClock::Working working(clock, bytes);
        plan_.combine(round);
      }
      break;
  }
  stages_.finish(*node_, operation, stage_of(round, stage));
  return true;
}

/// True if a piece was launched or has completed.
bool HierarchicalCollective::exchange_pieces(WorkClock& clock) {
  const Operation& operation = plan_.operation();
  const auto launched = launched_, over_before = over_;
  for (std::int64_t k = over_; k < launched_; ++k) {
    const WorkClock::Working working(clock, plan_.by_shares() ? operation.input.bytes() : 0);
    if (node_.exchange(k).move(node_.leaders(), plan_) && k == over_) {
      node_->slot_table()
          .mine(operation.sequence)
          .delivered.store(mark(operation, ++over_), std::memory_order_release);
    }
  }
  if (launched_ < plan_.pieces() && launched_ < over_ + StagingBuffers::slots &&
      combined_.all_have_finished(*node_, operation, stage_of(launched_, combined))) {
    node_.exchange(launched_).start(node_.leaders(), plan_, launched_);
    ++launched_;
  }
  return launched_ > launched || over_ > over_before;
}

}  // namespace lockstep
