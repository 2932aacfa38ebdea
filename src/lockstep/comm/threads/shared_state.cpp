#include <lockstep/comm/threads/shared_state.hpp>

#include <numeric>

#include <lockstep/comm/threads/core.hpp>

namespace lockstep {

SharedState::SharedState(int ranks, const GroupOptions& options) : options_(options) {
  const auto segment = Segment::in_this_process(ranks, SlotTable::bytes());
  std::vector<int> all(static_cast<std::size_t>(ranks));
  std::iota(all.begin(), all.end(), 0);
  for (int rank = 0; rank < ranks; ++rank) {
    nodes_.push_back(std::make_unique<ComputeNode>(segment, all, rank, true, false,
                                                   ComputeNode::Reach::process));
  }
}

std::shared_ptr<SharedState> SharedState::child(std::uint64_t number, int first_member,
                                                int members) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = children_.try_emplace({number, first_member});
  Child& child = place->second;
  if (is_new) {
    child = {std::make_shared<SharedState>(members, options_), members};
    descendants_.push_back(child.state);
    if (const std::string* reason = failure()) child.state->fail(0, *reason);
  }
  auto state = child.state;
  if (--child.awaited == 0) children_.erase(place);
  return state;
}

void SharedState::fail(int rank, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (failed_rank_ < 0) {
    reason_ = reason;
    failed_rank_.store(rank, std::memory_order_release);
  }
  for (const auto& descendant : descendants_) descendant->fail(0, reason);
}

void SharedState::keep(const IntrusivePtr<GroupCore>& core) {
  const std::lock_guard lock(mutex_);
  cores_.push_back(core);
}

void SharedState::keep_abandoned(const IntrusivePtr<WorkRecord>& record) {
  const std::lock_guard lock(mutex_);
  kept_.push_back(record);
}

void SharedState::clear() {
  std::vector<IntrusivePtr<GroupCore>> cores;
  std::vector<std::shared_ptr<SharedState>> descendants;
  {
    const std::lock_guard lock(mutex_);
    cores.swap(cores_);
    descendants.swap(descendants_);
    children_.clear();
  }
  for (const auto& core : cores) static_cast<ThreadsCore&>(*core).end();
  mailbox_.clear();
  for (const auto& descendant : descendants) descendant->clear();
  const std::lock_guard lock(mutex_);
  kept_.clear();
}

}  // namespace lockstep
