#include <lockstep/comm/mpi/in_flight.hpp>

#include <lockstep/base/pool.hpp>
#include <lockstep/comm/mpi/status.hpp>
#include <lockstep/comm/node/in_slots.hpp>

namespace lockstep {

bool MpiInFlight::post() {
  return Meeting::post(*core_.node(), operation(), core_.options().contract);
}

Agreement MpiInFlight::agree() {
  MpiNode& node = core_.node();
  const Contract contract = core_.options().contract;
  if (!nodes_meeting_.has_started()) {
    const Agreement here = meeting_.look(*node, operation(), contract);
    if (here == Agreement::pending || node->is_whole_group()) return here;
    expect_success(nodes_meeting_.start(node, operation(), here == Agreement::reached));
  }
  int status = MPI_SUCCESS;
  const auto equal = nodes_meeting_.look(node, operation(), status);
  expect_success(status);
  if (!equal) return Agreement::pending;
  return *equal || contract == Contract::off ? Agreement::reached : Agreement::refused;
}

std::string MpiInFlight::dispute() {
  MpiNode& node = core_.node();
  std::string other;
  if (!node->is_whole_group()) {  // every leader takes part
    other = NodesMeeting::dispute(node, operation(), meeting_.disputed(),
                                  core_.set_up("comparing calls"));
  }
  return meeting_.disputed() >= 0 ? meeting_.dispute(*node, operation()) : other;
}

void MpiInFlight::begin() {
  const bool sets_out = !operation().is_message() &&
                        (core_.node()->is_whole_group() ? begin_on_node() : begin_over_nodes());
  if (!sets_out) call_mpi();
}

bool MpiInFlight::begin_on_node() {
  ComputeNode& node = *core_.node();
  if (goes_in_slots(operation())) {
    perform_in_slots(node, operation());
    return true;
  }
  if (InPlace::fits(node, operation())) {
    way_.emplace<InPlace>();
    return true;
  }
  if (!Relay::fits(node, operation())) return false;
  way_.emplace<Relay>();
  return true;
}

bool MpiInFlight::begin_over_nodes() {
  if (operation().kind == Operation::Kind::barrier) return true;  // all nodes have met
  MpiNode& node = core_.node();
  if (!OverNodes::fits(node, operation())) return false;
  way_.emplace<OverNodes>(node, operation(), core_.place().max_count);
  return true;
}

Motion MpiInFlight::move() {
  if (auto* way = std::get_if<InPlace>(&way_)) {
    return way->move(*core_.node(), operation(), core_.clock());
  }
  if (auto* way = std::get_if<Relay>(&way_)) {
    return way->move(*core_.node(), operation(), core_.clock());
  }
  if (auto* way = std::get_if<OverNodes>(&way_)) return move_over_nodes(*way);
  if (auto* way = std::get_if<ByMpi>(&way_)) return move_by_mpi(*way);
  return Motion::over;  // it was when it began
}

void MpiInFlight::call_mpi() {
  MpiPlace place = core_.place();
  // MPI would give a receive that is posted what an older one looks for.
  if (operation().is_message() && !core_.pending_receives().empty()) place.probes = true;
  expect_success(way_.emplace<ByMpi>().start(operation(), place, core_.pending_receives()));
  if (operation().kind == Operation::Kind::send) core_.ring(operation().root);
}

void MpiInFlight::give_up() noexcept {
  if (operation().kind != Operation::Kind::receive) return;
  if (auto* way = std::get_if<ByMpi>(&way_)) way->give_up(core_.pending_receives());
}

Motion MpiInFlight::move_by_mpi(ByMpi& way) {
  switch (way.move(operation(), core_.place(), core_.pending_receives())) {
    case ByMpi::State::waiting:
      return Motion::none;
    case ByMpi::State::moved:
      return Motion::some;
    case ByMpi::State::mpi_failed:
      expect_success(way.status());
      return Motion::none;
    case ByMpi::State::wrong_message:
      core_.fail(operation(), way.finding());
    case ByMpi::State::over:
      break;
  }
  if (operation().kind == Operation::Kind::receive) {
    const MpiReceive& received = way.received();
    cancelled_ = received.cancelled;
    if (!cancelled_) source_ = core_.ranks().rank_of(received.source);
    message_ = received.message;
  }
  return Motion::over;
}

Motion MpiInFlight::move_over_nodes(OverNodes& way) {
  switch (way.move(core_.node(), operation(), core_.clock())) {
    case OverNodes::State::waiting:
      return Motion::none;
    case OverNodes::State::moved:
      return Motion::some;
    case OverNodes::State::mpi_failed:
      expect_success(way.status());
      return Motion::none;
    case OverNodes::State::over:
      break;
  }
  return Motion::over;
}

void MpiInFlight::expect_success(int status) {
  if (status != MPI_SUCCESS) core_.transport_failed(operation(), mpi_error_text(status));
}

void MpiInFlight::release() noexcept { ObjectPool<MpiInFlight>::instance().recycle(this); }

}  // namespace lockstep
