#include <lockstep/comm/mpi/in_flight.hpp>

#include <lockstep/base/pool.hpp>
#include <lockstep/comm/node/eager.hpp>

namespace lockstep {

bool MpiInFlight::rendezvous(bool is_next) {
  if (!rendezvous_.post(*core_.node(), operation(), core_.options().contract) || !is_next) {
    return false;
  }
  const CallMatch match = compare();
  if (match == CallMatch::different) {
    throw OperationFailure(OperationFailure::Kind::mismatch, mismatch());
  }
  return match == CallMatch::equal;
}

CallMatch MpiInFlight::compare() {
  MpiNode& node = core_.node();
  const Contract contract = core_.options().contract;
  if (!leader_rendezvous_.has_started()) {
    const CallMatch here = rendezvous_.compare(*node, operation(), contract);
    if (here == CallMatch::pending || node->is_whole_group()) return here;
    leader_rendezvous_.start(node, operation(), here == CallMatch::equal);
  }
  const auto equal = leader_rendezvous_.compare(node, operation());
  if (!equal) return CallMatch::pending;
  return *equal || contract == Contract::off ? CallMatch::equal : CallMatch::different;
}

std::string MpiInFlight::mismatch() {
  MpiNode& node = core_.node();
  std::string other;
  if (!node->is_whole_group()) {  // every leader takes part
    other = LeaderRendezvous::mismatch(node, operation(), rendezvous_.mismatched_rank(),
                                       core_.set_up("comparing calls"));
  }
  return rendezvous_.mismatched_rank() >= 0 ? rendezvous_.mismatch(*node, operation()) : other;
}

Motion MpiInFlight::transfer() {
  if (!is_launched_) launch();
  if (auto* algorithm = std::get_if<InPlace>(&algorithm_)) {
    return algorithm->move(*core_.node(), operation(), core_.clock());
  }
  if (auto* algorithm = std::get_if<StagedAllReduce>(&algorithm_)) {
    return algorithm->move(*core_.node(), operation(), core_.clock());
  }
  if (auto* algorithm = std::get_if<HierarchicalCollective>(&algorithm_)) {
    return algorithm->move(core_.clock());
  }
  if (auto* algorithm = std::get_if<ByMpi>(&algorithm_)) return move_by_mpi(*algorithm);
  return Motion::over;  // eager: completed at launch
}

void MpiInFlight::launch() {
  is_launched_ = true;
  const bool is_ours = !operation().is_message() &&
                       (core_.node()->is_whole_group() ? launch_on_node() : launch_hierarchical());
  if (!is_ours) call_mpi();
}

bool MpiInFlight::launch_on_node() {
  ComputeNode& node = *core_.node();
  if (is_eager(operation())) {
    complete_eager(node, operation());
    return true;
  }
  if (InPlace::fits(node, operation())) {
    algorithm_.emplace<InPlace>();
    return true;
  }
  if (!StagedAllReduce::fits(node, operation())) return false;
  algorithm_.emplace<StagedAllReduce>();
  return true;
}

bool MpiInFlight::launch_hierarchical() {
  // the rendezvous of all nodes is the barrier
  if (operation().kind == Operation::Kind::barrier) return true;
  MpiNode& node = core_.node();
  if (!HierarchicalCollective::fits(node, operation())) return false;
  algorithm_.emplace<HierarchicalCollective>(node, operation(), core_.place().max_count);
  return true;
}

void MpiInFlight::call_mpi() {
  MpiPlace place = core_.place();
  // A posted receive could take a message that an older receive looks for, so this one probes too.
  if (operation().is_message() && !core_.pending_receives().empty()) place.probes = true;
  algorithm_.emplace<ByMpi>(operation()).start(operation(), place, core_.pending_receives());
  if (operation().kind == Operation::Kind::send) core_.notify(operation().root);
}

void MpiInFlight::cancel_receive() noexcept {
  if (operation().kind != Operation::Kind::receive) return;
  if (auto* algorithm = std::get_if<ByMpi>(&algorithm_))
    algorithm->cancel_receive(core_.pending_receives());
}

Motion MpiInFlight::move_by_mpi(ByMpi& algorithm) {
  const Motion motion = algorithm.move(operation(), core_.place(), core_.pending_receives());
  if (motion == Motion::over && operation().kind == Operation::Kind::receive) {
    const MpiReceive& received = algorithm.received();
    cancelled_ = received.cancelled;
    if (!cancelled_) source_ = core_.ranks().rank_of(received.source);
    message_ = received.message;
  }
  return motion;
}

void MpiInFlight::release() noexcept { ObjectPool<MpiInFlight>::instance().recycle(this); }

}  // namespace lockstep
