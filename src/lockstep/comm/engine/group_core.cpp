#include <lockstep/comm/engine/group_core.hpp>

#include <fmt/format.h>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/comm/call_record.hpp>
#include <lockstep/tensor/device_graph.hpp>

namespace lockstep {
namespace {

/// Says which peer an unmatched message waits for.
std::string absent_peer(const Operation& message) {
  return message.root == any_source ? "no rank has sent the message"
                                    : fmt::format("rank {} has not matched it", message.root);
}

}  // namespace

GroupCore::GroupCore(const GroupOptions& options) : options_(options) {
  options_.timeout = floor<std::chrono::milliseconds>(bounded(options.timeout));
}

void GroupCore::introduce(int rank, int size, std::string host) {
  rank_ = rank;
  size_ = size;
  host_ = std::move(host);
}

std::string GroupCore::rank_name() const {
  const std::string where = host_.empty() ? "" : fmt::format(" ({})", host_);
  const std::string of_group = name_.empty() ? "" : " of group " + name_;
  return fmt::format("rank {} of {}{}{}", rank_, size_, of_group, where);
}

void GroupCore::take_name(const std::string& name) {
  const auto locked = lock();
  name_ = name;
  flight_.take_name(name.c_str());
}

void GroupCore::join_engine(bool threads_allowed) {
  shared_by_threads_ = threads_allowed;
  if (options_.progress == Progress::thread && !threads_allowed) {
    options_.progress = Progress::poll;
    log(LogLevel::warning,
        rank_name() +
            ": MPI was initialised below MPI_THREAD_MULTIPLE, so communication cannot progress on "
            "a thread: it progresses between layers (comm.progress = \"poll\").");
  }
  ProgressEngine::instance().add(*this, threads_allowed, options_.progress == Progress::thread);
}

Work GroupCore::start(Operation&& operation) {
  const auto locked = lock();
  expect_callable();
  expect_outside_of_captures(operation);
  const bool is_message = operation.is_message();
  std::uint64_t& last = is_message ? message_sequence_ : sequence_;
  operation.sequence = last + 1;
  operation.fingerprint = fingerprint_of(operation, false);
  std::optional<DeviceStaging> staging;
  if (operation.device.type != DeviceType::host) staging = stage(operation);
  const IntrusivePtr<InFlight> work = make(std::move(operation));
  ++last;  // a refused operation must not count: the other ranks would miss it
  work->ticket_ = flight_.entered(work->operation());
  work->traced_.entered(work->operation(), name_);
  if (is_message) work->phase_ = InFlight::Phase::transfer;
  if (staging) work->staging_ = std::move(staging);
  enlist(*work);  // also before a failure: some parts may already be in flight
  hold(*work);
  if (is_message) step(*work);  // launched before older operations are polled
  progress(is_message ? work.get() : nullptr);
  return Work(IntrusivePtr<WorkRecord>(work.get()));
}

bool GroupCore::progress(const InFlight* except) {
  count_pass();
  bool moved = false;
  for (InFlight* work = first_; work;) {
    InFlight* const next = work->next_;
    if (work != except) moved = step(*work) || moved;
    work = next;
  }
  return moved;
}

bool GroupCore::step(InFlight& work) {
  if (is_of_capturing_thread(work.operation_)) return false;
  const Motion motion = guarded_advance(work);
  if (motion == Motion::over) {
    work.phase_ = InFlight::Phase::done;
    delist(work);
  }
  return motion != Motion::none;
}

// Before any record of it, and before the device hears of it: the group stays usable.
void GroupCore::expect_outside_of_captures(const Operation& operation) const {
  if (!is_of_capturing_thread(operation)) return;
  throw Error(fmt::format("{} on a device cannot be captured in a graph, nor awaited in one",
                          name_of(operation.kind)));
}

bool GroupCore::is_of_capturing_thread(const Operation& operation) const noexcept {
  return DeviceGraph::capturing() && (operation.device.type != DeviceType::host ||
                                      reach_of(operation) == DeviceReach::by_device);
}

std::optional<DeviceStaging> GroupCore::stage(Operation& operation) {
  const Device device = operation.device;
  const DeviceReach reach = reach_of(operation);
  if (reach == DeviceReach::by_device) return {};
  const bool by_host = reach == DeviceReach::by_host;
  for (const auto& known : staging_devices_) {
    if (known->device() == device) return DeviceStaging(operation, *known, by_host);
  }
  staging_devices_.push_back(std::make_unique<StagingDevice>(device));
  return DeviceStaging(operation, *staging_devices_.back(), by_host);
}

void GroupCore::hold(InFlight& work) {
  if (!work.staging_ && held_like(work) == 0) return;
  work.phase_ = InFlight::Phase::held;
  ++held_like(work);
  if (!work.staging_) return;
  guarded(work, [&] {
    work.staging_->copy_out(work.operation_, rank_);
    return Motion::none;
  });
}

// Operations are released in call order: the other ranks rely on it.
bool GroupCore::let_go(InFlight& work) {
  const bool is_message = work.operation_.is_message();
  for (const InFlight* older = first_; older != &work; older = older->next_) {
    const bool is_like = older->operation_.is_message() == is_message;
    if (is_like && older->phase_ == InFlight::Phase::held) return false;
  }
  if (work.staging_ && !work.staging_->has_come()) return false;
  --held_like(work);
  work.phase_ = is_message ? InFlight::Phase::transfer : InFlight::Phase::rendezvous;
  return true;
}

template <class F>
Motion GroupCore::guarded(const InFlight& work, const F& f) {
  try {
    return f();
  } catch (const OperationFailure& failure) {
    end_by(work, failure);
  } catch (const std::exception& error) {
    if (state_ == State::open) {
      poison(fmt::format("it failed earlier: {}: {}: {}.", rank_name(),
                         describe_fully(work.operation_), error.what()));
    }
    throw;
  }
}

Motion GroupCore::guarded_advance(InFlight& work) {
  struct InStep {
    bool& flag;
    explicit InStep(bool& in_step) : flag(in_step) { flag = true; }
    ~InStep() { flag = false; }
  };
  const InStep in_step(in_step_);
  return guarded(work, [&] { return advance(work); });
}

// Ranks agree on collectives in call order. Otherwise another rank may post two of them between the
// polls of this rank, and this rank sees the younger one first.
Motion GroupCore::advance(InFlight& work) {
  if (work.phase_ == InFlight::Phase::held && !let_go(work)) return Motion::none;
  if (work.phase_ == InFlight::Phase::transfer) return transfer(work);
  if (work.phase_ == InFlight::Phase::back) {
    return work.staging_->is_back() ? Motion::over : Motion::none;
  }
  const std::uint64_t sequence = work.operation_.sequence;
  if (!work.rendezvous(sequence == agreed_ + 1)) return Motion::none;
  agreed_ = sequence;
  flight_.agreed(work.ticket_);
  work.traced_.agreed();
  work.phase_ = InFlight::Phase::transfer;
  return transfer(work) == Motion::over ? Motion::over : Motion::some;
}

Motion GroupCore::transfer(InFlight& work) {
  Motion motion = work.transfer();
  if (work.gives_up_ && motion != Motion::over) {
    work.gives_up_ = false;
    work.cancel_receive();
    motion = Motion::some;
  }
  if (motion == Motion::over && work.operation_.ends_group && !work.cancelled()) {
    const Tensor text = work.message();
    throw OperationFailure(
        OperationFailure::Kind::revoked,
        std::string(static_cast<const char*>(text.data()), static_cast<std::size_t>(text.numel())));
  }
  if (motion != Motion::over || !work.staging_) return motion;
  if (!work.cancelled()) work.staging_->copy_back(work.operation_, rank_);
  work.phase_ = InFlight::Phase::back;
  if (!work.operation_.is_message()) retire_collectives();
  return work.staging_->is_back() ? Motion::over : Motion::some;
}

Motion GroupCore::poll(InFlight& work, Until until) {
  const auto locked = lock();
  bool moved = false;
  const auto is_ordered = [&] {
    try {
      return until == Until::ordered && work.order();
    } catch (const OperationFailure& failure) {
      end_by(work, failure);
    }
  };
  if (work.in_flight()) {
    expect_callable();
    expect_outside_of_captures(work.operation_);
    if (is_ordered()) return Motion::over;
    moved = progress();
  }
  if (work.phase_ == InFlight::Phase::failed) expect_callable();  // throws why
  if (work.phase_ == InFlight::Phase::done || is_ordered()) return Motion::over;
  return moved ? Motion::some : Motion::none;
}

bool GroupCore::has_been_entered_by_all(const InFlight& work) const {
  const auto locked = lock();
  return work.phase_ > InFlight::Phase::rendezvous;
}

void GroupCore::expire(const InFlight& work, double waited_s) {
  const auto locked = lock();
  if (work.in_flight()) end_by_time_out(work, waited_s);
}

void GroupCore::cancel(InFlight& work) {
  const auto locked = lock();
  if (work.phase_ == InFlight::Phase::held) {
    work.gives_up_ = true;
  } else if (work.in_flight()) {
    work.cancel_receive();
  }
}

void GroupCore::drain() {
  while (const auto work = oldest()) {
    if (work->operation().ends_group) cancel(*work);
    work->synchronize();
  }
}

bool GroupCore::drain_and_close() {
  {
    const auto locked = lock();
    if (state_ == State::closed) return false;
    expect_callable();
  }
  drain();
  start(Operation{}).wait();  // a barrier
  ProgressEngine::instance().remove(*this);
  const auto locked = lock();
  state_ = State::closed;
  reason_ = "it was closed. Make a new one, or close it later.";
  flight_ = {};
  return true;
}

bool GroupCore::finalize(const std::string& reason) noexcept {
  ProgressEngine::instance().remove(*this);
  const auto locked = lock();  // not before: who holds the engine's list may want it
  const bool was_idle = state_ == State::open && !first_;
  if (state_ == State::open) {
    state_ = State::finalized;
    reason_ = reason;
  }
  abandon_all();
  flight_ = {};
  return was_idle;
}

bool GroupCore::progress_if_free() noexcept {
  std::unique_lock<SpinLock> locked;
  if (!lock_if_free(locked)) return false;
  if (in_step_ || state_ != State::open || failure_elsewhere()) return false;
  try {
    return progress();
  } catch (const std::exception&) {
    return true;  // the group is poisoned
  }
}

std::string GroupCore::awaited(const InFlight& work) const {
  const auto locked = lock();
  return work.in_flight() ? describe_wait(work) : "";
}

std::string GroupCore::describe_wait(const InFlight& work) const {
  if (work.phase_ == InFlight::Phase::held) {
    return "this rank's device has not reached it: work launched there before has not ended";
  }
  if (work.phase_ == InFlight::Phase::back) {
    return fmt::format("every rank has matched it, but the copy of its result to {} has not ended",
                       to_string(work.staging_->device()));
  }
  if (work.operation_.is_message()) return absent_peer(work.operation_);
  return work.phase_ == InFlight::Phase::transfer ? "" : missing_ranks(work);
}

// Without a wait: the caller holds another group's lock, and the holder of this one may want that.
std::string GroupCore::oldest_in_flight() {
  std::unique_lock<SpinLock> locked;
  if (!lock_if_free(locked)) return "";
  const InFlight* work = first_;
  while (work && work->operation().ends_group) work = work->next_;
  return work ? describe_fully(work->operation()) : "";
}

IntrusivePtr<InFlight> GroupCore::oldest() const {
  const auto locked = lock();
  return IntrusivePtr<InFlight>(first_);
}

void GroupCore::expect_usable() {
  const auto locked = lock();
  expect_callable();
}

void GroupCore::expect_callable() {
  if (state_ == State::open) {
    if (const std::string* reason = failure_elsewhere()) poison(*reason);
  }
  if (state_ != State::open)
    throw ErrorOnRank<CommError>({rank_, host_}, refusal(rank_name(), reason_));
  expect_right_thread();
}

void GroupCore::enlist(InFlight& work) noexcept {
  work.add_owner();
  work.previous_ = last_;
  (last_ ? last_->next_ : first_) = &work;
  last_ = &work;
  set_busy(true);
  if (options_.progress == Progress::thread) ProgressEngine::instance().wake();
}

void GroupCore::delist(InFlight& work) noexcept {
  (work.previous_ ? work.previous_->next_ : first_) = work.next_;
  (work.next_ ? work.next_->previous_ : last_) = work.previous_;
  work.previous_ = work.next_ = nullptr;
  if (!first_) set_busy(false);
  if (work.phase_ == InFlight::Phase::done) {
    flight_.completed(work.ticket_);
    work.traced_.over(work.operation_);
    if (work.staging_) work.staging_->end();
  }
  if (!work.operation_.is_message()) retire_collectives();
  work.drop_owner();
}

void GroupCore::retire_collectives() noexcept {
  const InFlight* oldest = first_;
  while (oldest && (oldest->operation_.is_message() || oldest->phase_ == InFlight::Phase::back)) {
    oldest = oldest->next_;
  }
  retire(oldest ? oldest->operation_.sequence - 1 : sequence_);
}

void GroupCore::abandon_all() noexcept {
  while (first_) {
    const IntrusivePtr<WorkRecord> record(first_);
    first_->phase_ = InFlight::Phase::failed;
    delist(*first_);
    keep_abandoned(record);
  }
}

void GroupCore::poison(const std::string& reason) noexcept {
  state_ = State::poisoned;
  reason_ = reason;
  abandon_all();
  spread_failure(reason);
}

void GroupCore::end_by(const InFlight& work, const OperationFailure& failure) {
  using Kind = OperationFailure::Kind;
  if (failure.kind() == Kind::time_out) end_by_time_out(work, failure.waited_s());
  if (failure.kind() == Kind::revoked) {
    poison(fmt::format("it was revoked: {}", failure.what()));
    throw ErrorOnRank<CommError>({rank_, host_}, refusal(rank_name(), reason_));
  }
  const Operation& operation = failure.operation() ? *failure.operation() : work.operation_;
  if (failure.kind() == Kind::transport) end_by_transport(operation, failure.what());
  std::string text =
      fmt::format("{}: {}: {}", rank_name(), describe_fully(operation), failure.what());
  if (failure.kind() == Kind::mismatch)
    text += ": all ranks must make the same calls in the same order";
  poison(fmt::format("it failed earlier: {}.", text));
  throw ErrorOnRank<CommError>({rank_, host_}, text);
}

void GroupCore::end_by_time_out(const InFlight& work, double waited_s) {
  const Operation& operation = work.operation_;
  std::string cause = describe_wait(work);
  if (cause.empty()) cause = "every rank has entered it, but not all make progress";
  std::string failure = fmt::format("{}: {} has not completed after {:.1f} s: {}", rank_name(),
                                    describe_fully(operation), waited_s, cause);
  const std::string elsewhere = ProgressEngine::instance().in_flight_elsewhere(this);
  if (!elsewhere.empty()) failure += "; in flight here in another group: " + elsewhere;
  poison(fmt::format("it failed earlier: {}.", failure));
  throw ErrorOnRank<TimeoutError>(
      {rank_, host_}, failure +
                          ". Look there for an error, a stopped process or calls in another order. "
                          "If it is only slow, raise the group's timeout.");
}

void GroupCore::end_by_transport(const Operation& operation, const std::string& words) {
  const std::string failure =
      fmt::format("{}: {} failed: {}", rank_name(), describe(operation), words);
  poison(fmt::format("it failed earlier: {}", failure));
  throw ErrorOnRank<CommError>(
      {rank_, host_},
      failure + ". Look at the other ranks and at the network; the job must be restarted.");
}

}  // namespace lockstep
