#include <lockstep/comm/engine/in_flight.hpp>

#include <lockstep/comm/engine/group_core.hpp>

namespace lockstep {

InFlight::InFlight(IntrusivePtr<GroupCore>&& core, Operation&& operation)
    : core_(std::move(core)), operation_(std::move(operation)) {}
InFlight::~InFlight() = default;

bool InFlight::poll() { return core_->poll(*this); }
void InFlight::wait() { core_->wait(*this); }
bool InFlight::wait_for(std::chrono::microseconds at_most, std::chrono::microseconds awake) {
  return core_->wait_for(*this, at_most, awake);
}
void InFlight::cancel() { core_->cancel(*this); }
void InFlight::synchronize() { core_->synchronize(*this); }
std::string InFlight::awaited() const { return core_->awaited(*this); }

}  // namespace lockstep
