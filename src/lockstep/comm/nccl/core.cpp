#include <lockstep/comm/nccl/core.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/nccl/in_flight.hpp>
#include <lockstep/comm/thread_level.hpp>
#include <lockstep/tensor/stream.hpp>

namespace lockstep {
namespace {

/// The values that a rank contributes to a new group.
struct Introduction {
  std::uint64_t flight_number, order_number;
  int rank_in_job;
  static auto fields(auto& self) {
    return std::tie(self.flight_number, self.order_number, self.rank_in_job);
  }
};

/// Cores of groups that were dropped while an operation was in flight.
struct AbandonedCores {
  std::mutex mutex;
  std::vector<IntrusivePtr<NcclCore>> cores;

  static AbandonedCores& instance() {
    static auto* abandoned = new AbandonedCores;  // the engine's thread may outlive main()
    return *abandoned;
  }
};

}  // namespace

NcclCore::NcclCore(std::shared_ptr<NcclApi> api, std::shared_ptr<ProcessGroup> control,
                   std::shared_ptr<LaunchOrder> order, Device device, const GroupOptions& options)
    : GroupCore(options),
      control_(std::move(control)),
      messages_(control_->split(0, control_->rank())),
      order_(std::move(order)),
      communicator_(std::move(api), *control_, device, order_, this->options().timeout),
      queue_(communicator_, control_->rank(), control_->size()),
      threads_may_communicate_(threads_may_communicate(*control_)) {
  introduce_to_others();
}

NcclCore::NcclCore(NcclCore& parent, int colour, std::shared_ptr<ProcessGroup> control)
    : GroupCore(parent.options()),
      control_(std::move(control)),
      messages_(control_->split(0, control_->rank())),
      order_(parent.order_),
      communicator_(parent.communicator_, colour, *control_),
      queue_(communicator_, control_->rank(), control_->size()),
      threads_may_communicate_(parent.threads_may_communicate_) {
  introduce_to_others();
}

void NcclCore::introduce_to_others() {
  if (options().contract != Contract::off) {
    kind_ = order_->kind_of_groups(options().contract == Contract::late);
  }
  introduce(control_->rank(), control_->size(),
            fmt::format("{}, {}", host_name(), to_string(communicator_.device())));
  auto recorder = FlightRecorder::current();
  const auto mine = [&] {
    return Introduction{FlightRecorder::next_group_number(), order_->next_group(),
                        recorder ? recorder->rank() : control_->rank()};
  };
  std::uint64_t flight_number = 0;
  std::vector<int> members;
  for (const Introduction& theirs : agree(*control_, mine)) {
    flight_number = std::max(flight_number, theirs.flight_number);
    order_number_ = std::max(order_number_, theirs.order_number);
    members.push_back(theirs.rank_in_job);
  }
  order_->add_group(order_number_);
  if (!recorder) return;
  const int group = recorder->add_group(flight_number, members);
  record_flight({std::move(recorder), group});
}

IntrusivePtr<NcclCore> NcclCore::make(std::shared_ptr<NcclApi> api,
                                      std::shared_ptr<ProcessGroup> control,
                                      std::shared_ptr<LaunchOrder> order, Device device,
                                      const GroupOptions& options) {
  end_abandoned();
  return joined(
      new NcclCore(std::move(api), std::move(control), std::move(order), device, options));
}

IntrusivePtr<NcclCore> NcclCore::make_part(NcclCore& parent, int colour,
                                           std::shared_ptr<ProcessGroup> control) {
  end_abandoned();
  parent.drain();  // ncclCommSplit requires it
  return joined(new NcclCore(parent, colour, std::move(control)));
}

void NcclCore::leave_out() {
  drain();
  communicator_.leave_out();
}

IntrusivePtr<NcclCore> NcclCore::joined(NcclCore* core) {
  IntrusivePtr<NcclCore> owned(core);
  owned->join_engine(true);
  return owned;
}

bool NcclCore::may_communicate() const noexcept {
  return threads_may_communicate_ || !ProgressEngine::on_own_thread();
}

void NcclCore::begin_batch() {
  const auto locked = lock();
  expect_callable();
  queue_.begin_batch();
}

void NcclCore::end_batch() {
  {
    const auto locked = lock();
    queue_.end_batch();
  }
  progress_if_free();
  expect_usable();
}

void NcclCore::await_stream(const Operation& operation) {
  expect_outside_of_captures(operation);
  Event given;
  const auto start = Clock::now();
  const auto is_over = [&] {
    const auto locked = lock();
    expect_callable();
    try {
      return on_device([&] {
        if (!given.is_recorded()) {
          given.record(communicator_.events(), current_stream(communicator_.device()));
        }
        return given.is_over();
      });
    } catch (const OperationFailure& failure) {
      end_by_transport(operation, failure.what());
    }
  };
  if (ProgressEngine::instance().progress_until(is_over, options().timeout)) return;
  const auto locked = lock();
  const std::string failure = fmt::format("{}: {} has waited {:.1f} s for its device", rank_name(),
                                          describe_fully(operation), seconds_since(start));
  poison(fmt::format("it failed earlier: {}.", failure));
  throw ErrorOnRank<TimeoutError>({rank(), host_name()},
                                  failure + ": work launched before it has not ended.");
}

void NcclCore::close() {
  if (!drain_and_close()) return;
  kind_ = nullptr;
  try {
    communicator_.close();
  } catch (const NcclError& error) {
    communicator_.abort();
    throw ErrorOnRank<CommError>(
        {rank(), host_name()},
        fmt::format("{}: closing the nccl group failed: {}", rank_name(), error.what()));
  } catch (const TimeoutError&) {
    communicator_.abort();
    throw;
  }
  messages_->close();
  control_->close();
}

void NcclCore::leave() noexcept {
  if (is_busy()) {
    auto& abandoned = AbandonedCores::instance();
    const std::lock_guard lock(abandoned.mutex);
    abandoned.cores.emplace_back(this);
  } else {
    end();
  }
  end_abandoned();
}

void NcclCore::end() noexcept {
  const bool was_healthy = finalize("its group was destroyed.");
  queue_.clear();
  was_healthy ? communicator_.destroy() : communicator_.abort();
  kind_ = nullptr;
}

void NcclCore::end_abandoned() noexcept {
  std::vector<IntrusivePtr<NcclCore>> idle;
  {
    auto& abandoned = AbandonedCores::instance();
    const std::lock_guard lock(abandoned.mutex);
    const auto first_idle = std::partition(abandoned.cores.begin(), abandoned.cores.end(),
                                           [](const auto& core) { return core->is_busy(); });
    idle.assign(first_idle, abandoned.cores.end());
    abandoned.cores.erase(first_idle, abandoned.cores.end());
  }
  for (const auto& core : idle) core->end();
}

IntrusivePtr<InFlight> NcclCore::make(Operation&& operation) {
  if (operation.kind == Operation::Kind::barrier && queue_.is_collecting()) {
    throw Error("a barrier within a batch would wait for the batch's end. End the batch first.");
  }
  try {
    const IntrusivePtr<NcclInFlight> work(
        ObjectPool<NcclInFlight>::instance().make(*this, std::move(operation)));
    queue_.add(*work);
    return work;
  } catch (const DeviceError& error) {
    end_by_transport(operation, error.what());
  }
}

std::string NcclCore::missing_ranks(const InFlight& work) const {
  return static_cast<const NcclInFlight&>(work).missing_ranks();
}

void NcclCore::spread_failure(const std::string& /*reason*/) noexcept {
  queue_.clear();
  communicator_.abort();
  kind_ = nullptr;
}

}  // namespace lockstep
