#include <lockstep/comm/nccl/in_flight.hpp>

#include <lockstep/base/pool.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

NcclInFlight::NcclInFlight(NcclCore& core, Operation&& operation)
    : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {
  NcclCommunicator& communicator = core.communicator();
  input_ready_.record(communicator.events(), current_stream(communicator.device()).handle());
}

bool NcclInFlight::rendezvous(bool is_next) {
  const CallMatch match = core_.on_control(operation(), [&] {
    rendezvous_.post(core_.control(), operation(), core_.options().contract);
    const bool may_compare = is_next && core_.may_communicate();
    return may_compare ? rendezvous_.compare(core_.messages(), operation()) : CallMatch::pending;
  });
  if (match == CallMatch::different) core_.refuse(operation(), rendezvous_.mismatch(operation()));
  return match == CallMatch::equal;
}

void NcclInFlight::launch() {
  if (operation().is_message() && core_.options().contract != Contract::off) {
    core_.on_control(operation(), [&] {
      handshake_.post(core_.messages(), operation());
      return true;
    });
  }
  is_launched_ = true;
}

bool NcclInFlight::may_go() {
  if (!is_launched_ || !operation().is_message()) return is_launched_;
  if (!core_.may_communicate()) return false;
  std::string finding;
  const bool met = core_.on_control(operation(), [&] { return handshake_.look(finding); });
  if (!finding.empty()) core_.fail(operation(), finding);
  return met;
}

Motion NcclInFlight::transfer() {
  if (!is_launched_) launch();
  return core_.on_device(operation(), [&] {
    if (!on_stream_) core_.queue().advance();
    return on_stream_ && is_over_on_device() ? Motion::over : Motion::none;
  });
}

bool NcclInFlight::is_over_on_device() {
  if (done_.is_over()) return true;
  static_cast<void>(core_.communicator().is_settled());  // throws if a peer or the network failed
  if (awaited_since_ && Clock::now() - *awaited_since_ > core_.options().timeout) {
    core_.time_out(*this, seconds_since(*awaited_since_));
  }
  return false;
}

bool NcclInFlight::order_stream() {
  // Behind a barrier comes the host.
  if (!on_stream_ || operation().kind == Operation::Kind::barrier) return false;
  return core_.on_device(operation(), [&] {
    done_.make_wait(current_stream(core_.communicator().device()).handle());
    if (!awaited_since_) awaited_since_ = Clock::now();
    return true;
  });
}

void NcclInFlight::release() noexcept { ObjectPool<NcclInFlight>::instance().recycle(this); }

}  // namespace lockstep
