#include <lockstep/comm/threads/core.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/threads/in_flight.hpp>

namespace lockstep {
namespace {

/// Ranks of one process read each other's tensors directly, so different calls must never meet.
GroupOptions always_compared(GroupOptions options) {
  if (options.contract == Contract::off) options.contract = Contract::hash;
  return options;
}

}  // namespace

ThreadsCore::ThreadsCore(std::shared_ptr<SharedState> shared, int rank)
    : GroupCore(always_compared(shared->options())), shared_(std::move(shared)) {
  introduce(rank, shared_->size(), "");
}

IntrusivePtr<ThreadsCore> ThreadsCore::join(std::shared_ptr<SharedState> shared, int rank) {
  IntrusivePtr<ThreadsCore> core(new ThreadsCore(std::move(shared), rank));
  core->shared_->keep(core);
  core->join_engine(true);
  return core;
}

void ThreadsCore::end() noexcept { finalize("its ranks have ended."); }

IntrusivePtr<InFlight> ThreadsCore::make(Operation&& operation) {
  return IntrusivePtr<InFlight>(
      ObjectPool<ThreadsInFlight>::instance().make(*this, std::move(operation)));
}

std::string ThreadsCore::missing_ranks(const InFlight& work) const {
  return lockstep::missing_ranks(shared_->node(rank()), work.operation());
}

}  // namespace lockstep
