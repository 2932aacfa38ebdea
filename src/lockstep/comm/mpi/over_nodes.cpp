#include <lockstep/comm/mpi/over_nodes.hpp>

namespace lockstep {
namespace {

// A rank's round k has three stages: it takes the result of the piece that had the slot before,
// brings piece k, and collects piece k. Whoever brings piece k has nothing left to take from its
// slot; and since nobody collects before all have brought, nor have the others.
enum Stage : unsigned { taken = 1, brought, collected };
constexpr unsigned stages_a_round = 3;

unsigned stage_of(std::int64_t round, Stage stage) {
  return static_cast<unsigned>(round) * stages_a_round + stage;
}

/// Larger for later ones: of each collective, the pieces whose result has come.
std::uint64_t mark(const Operation& operation, std::int64_t pieces) {
  return operation.sequence << 24U | static_cast<std::uint64_t>(pieces);
}

}  // namespace

bool OverNodes::fits(const MpiNode& node, const Operation& operation) noexcept {
  return node.depot() && Crossing::fits(node.depot()->map(), operation);
}

OverNodes::State OverNodes::move(MpiNode& node, const Operation& operation, WorkClock& clock) {
  const Operation*& user = node->relay_user();
  if (user && user != &operation) return State::waiting;
  user = &operation;
  auto state = State::waiting;
  for (bool moved = true; moved;) {
    moved = step(node, operation, clock);
    if (node->is_leader()) moved = lead(node, operation, clock) || moved;
    if (status_ != MPI_SUCCESS) return State::mpi_failed;
    if (moved) state = State::moved;
  }
  const std::int64_t pieces = crossing_.pieces();
  if (pieces > 0 && stages_.finished() < stage_of(pieces - 1 + Depot::slots, taken)) return state;
  user = nullptr;
  return State::over;
}

bool OverNodes::step(MpiNode& node, const Operation& operation, WorkClock& clock) {
  const std::int64_t round = stages_.finished() / stages_a_round, pieces = crossing_.pieces();
  const auto stage = static_cast<Stage>(stages_.finished() % stages_a_round + 1);
  const bool has_piece = round < pieces;
  const std::size_t bytes = operation.input.defined() ? operation.input.bytes() : 0;
  switch (stage) {
    case taken:
      if (round == pieces + Depot::slots || pieces == 0) return false;
      if (round >= Depot::slots) {
        const Board::Slot& leader = slot_of(*node, operation, 0);
        const std::int64_t piece = round - Depot::slots;
        if (leader.delivered.load(std::memory_order_acquire) < mark(operation, piece + 1)) {
          return false;
        }
        const WorkClock::Working working(clock, bytes);
        crossing_.take(*node.depot(), operation, piece);
      }
      break;
    case brought:
      if (has_piece) {
        const WorkClock::Working working(clock, bytes);
        crossing_.bring(*node.depot(), operation, round);
      }
      break;
    case collected:
      if (has_piece) {
        if (!stages_.all_have_finished(*node, operation, stage_of(round, brought))) return false;
        const WorkClock::Working working(clock, bytes);
        crossing_.collect(*node.depot(), operation, round);
      }
      break;
  }
  stages_.finish(*node, operation, stage_of(round, stage));
  return true;
}

/// True if a piece has set out or come.
bool OverNodes::lead(MpiNode& node, const Operation& operation, WorkClock& clock) {
  Depot& depot = *node.depot();
  const auto out = out_, back = back_;
  for (std::int64_t k = back_; k < out_; ++k) {
    const WorkClock::Working working(clock, crossing_.by_shares() ? operation.input.bytes() : 0);
    const bool over = node.exchange(k).move(node.leaders(), depot, crossing_, operation, status_);
    if (status_ != MPI_SUCCESS) return false;
    if (over && k == back_) {
      node->board()
          .mine(operation.sequence)
          .delivered.store(mark(operation, ++back_), std::memory_order_release);
    }
  }
  if (out_ < crossing_.pieces() && out_ < back_ + Depot::slots &&
      collected_.all_have_finished(*node, operation, stage_of(out_, collected))) {
    status_ = node.exchange(out_).start(node.leaders(), depot, crossing_, operation, out_);
    ++out_;
  }
  return out_ > out || back_ > back;
}

}  // namespace lockstep
