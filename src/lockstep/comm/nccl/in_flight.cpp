#include <lockstep/comm/nccl/in_flight.hpp>

#include <lockstep/base/pool.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {

NcclInFlight::NcclInFlight(NcclCore& core, Operation&& operation)
    : InFlight(IntrusivePtr<GroupCore>(&core), std::move(operation)), core_(core) {
  NcclCommunicator& communicator = core.communicator();
  input_ready_.record(communicator.events(), current_stream(communicator.device()));
}

/// Runs f(), which uses the control group; a failure of that group ends this group too.
template <class F>
auto NcclInFlight::on_control(const F& f) {
  try {
    return f();
  } catch (const CommError& error) {
    throw OperationFailure(OperationFailure::Kind::finding,
                           std::string("its ranks could not compare their calls: ") + error.what(),
                           &operation());
  }
}

bool NcclInFlight::rendezvous(bool is_next) {
  const bool is_compared = core_.options().contract != Contract::off;
  if (is_compared && !rendezvous_.is_posted()) core_.enter(place_, operation().sequence);
  const CallMatch match = on_control([&] {
    rendezvous_.post(core_.control(), operation(), core_.options().contract, place_.time());
    const bool may_compare = is_next && core_.may_communicate();
    return may_compare ? rendezvous_.compare(core_.messages(), operation()) : CallMatch::pending;
  });
  if (match == CallMatch::different) {
    throw OperationFailure(OperationFailure::Kind::mismatch,
                           rendezvous_.mismatch(operation(), core_.rank()));
  }
  if (is_late()) {
    if (!is_launched_) launch();
    look_at_device();
  } else if (match == CallMatch::equal && is_compared) {
    place_.settle(rendezvous_.time());
  }
  if (match != CallMatch::equal) return false;
  core_.has_agreed_on(operation().sequence);
  return true;
}

void NcclInFlight::launch() {
  if (operation().is_message() && core_.options().contract != Contract::off) {
    on_control([&] { handshake_.post(core_.messages(), operation()); });
  }
  is_launched_ = true;
}

bool NcclInFlight::may_go() {
  if (!is_launched_) return false;
  if (is_late() && !core_.may_be_ahead(operation().sequence)) return false;
  if (!operation().is_message()) return true;
  if (!core_.may_communicate()) return false;
  std::string finding;
  const bool met = on_control([&] { return handshake_.look(finding); });
  if (!finding.empty()) {
    throw OperationFailure(OperationFailure::Kind::finding, finding, &operation());
  }
  return met;
}

void NcclInFlight::look_at_device() {
  core_.on_device([&] {
    if (!on_stream_) return core_.queue().advance();
    is_over_ = is_over_ || is_over_on_device();
  });
}

Motion NcclInFlight::transfer() {
  if (!is_launched_) launch();
  look_at_device();
  return is_over_ ? Motion::over : Motion::none;
}

bool NcclInFlight::is_over_on_device() {
  NcclQueue& queue = core_.queue();
  if (!queue.is_oldest_on_stream(*this)) return false;
  if (done_.is_over()) {
    queue.remove_oldest_on_stream(*this);
    return true;
  }
  static_cast<void>(core_.communicator().is_settled());  // throws if a peer or the network failed
  if (Clock::now() - *launched_at_ > core_.options().timeout) {
    throw OperationFailure::time_out(seconds_since(*launched_at_));
  }
  return false;
}

bool NcclInFlight::order_stream() {
  // After a barrier the host waits too.
  if (!on_stream_ || operation().kind == Operation::Kind::barrier) return false;
  return core_.on_device([&] {
    done_.make_wait(current_stream(core_.communicator().device()));
    return true;
  });
}

void NcclInFlight::release() noexcept { ObjectPool<NcclInFlight>::instance().recycle(this); }

}  // namespace lockstep
