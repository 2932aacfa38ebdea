#include <lockstep/comm/nccl/communicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/engine/progress_engine.hpp>
#include <lockstep/tensor/runtime/device_runtime.hpp>

namespace lockstep {
namespace {

// Longest time given to NCCL to abort before it is abandoned, and to destroy, for which it waits
// until all ranks of the node do: one may hold its group for long.
constexpr std::chrono::milliseconds patience_to_abort{5000}, patience_to_destroy{100};

/// Memory for the communicator's handle. NCCL may write to it at any time until its call completes,
/// so a call that never completes keeps this memory.
using Cell = std::unique_ptr<NcclApi::Comm>;
void leave_to_nccl(Cell cell) {
  static std::mutex mutex;
  static auto& left = *new std::vector<Cell>;  // NCCL's threads may outlive main()
  const std::lock_guard lock(mutex);
  left.push_back(std::move(cell));
}

}  // namespace

std::shared_ptr<LaunchOrder> order_of_launches(const NcclApi& api, ProcessGroup& control,
                                               Device device, Contract contract) {
  const auto expect_own = [&] {
    if (device.type != api.device_type()) {
      throw InputError(fmt::format("{}, which NCCL does not support", to_string(device)));
    }
    std::string finding;
    try {
      const int count = runtime_of(device.type).device_count();
      if (device.index >= 0 && device.index < count) return;
      finding = fmt::format("it has {} of them", count);
    } catch (const InputError& error) {
      finding = error.what();
    }
    throw InputError(fmt::format("no device {}: {}", to_string(device), finding));
  };
  const auto refuse = [](const AgreedFailure& failure) {
    throw Agreed<InputError>(
        failure,
        fmt::format("the nccl backend needs a GPU on every rank, but rank {} ({}) has {}. Ask the "
                    "launcher for GPUs (Slurm: --gpus-per-task=1), or use the mpi backend",
                    failure.rank, failure.host, failure.message));
  };
  agree(control, expect_own, {.refuse = refuse});
  auto order = LaunchOrder::of(device);
  agree(control, [&] {
    if (contract == Contract::off || order->kind_of_groups(contract == Contract::late)) return;
    throw InputError(fmt::format(
        "nccl groups of {} mix contract \"late\" with other contracts: their collectives cannot be "
        "put in one order. Set comm.contract = \"late\" for all groups of a device, or for none",
        to_string(device)));
  });
  return order;
}

NcclId exchange_unique_id(NcclApi& api, ProcessGroup& control) {
  const auto make_id = [&] {
    NcclId id{};
    if (api.make_id(id) == NcclStatus::success) return std::string(id.data(), id.size());
    throw CommError(
        "NCCL could not create a unique ID on rank 0: check its network interfaces "
        "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)");
  };
  const auto refuse = [](const AgreedFailure& failure) {
    throw Agreed<CommError>(failure, failure.message);
  };
  NcclId id{};
  std::ranges::copy(agree(control, 0, make_id, {.refuse = refuse}), id.begin());
  return id;
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclApi> api, std::shared_ptr<LaunchOrder> order,
                                   ProcessGroup& control, Device device,
                                   std::chrono::milliseconds timeout)
    : api_(std::move(api)),
      order_(std::move(order)),
      device_(device),
      rank_{control.rank(), host_name()},
      rank_name_(fmt::format("rank {} of {} ({}, {})", control.rank(), control.size(), host_name(),
                             to_string(device))),
      timeout_(timeout),
      patience_(patience_to_abort),
      events_(device) {}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclApi> api, ProcessGroup& control,
                                   Device device, std::shared_ptr<LaunchOrder> order,
                                   std::chrono::milliseconds timeout)
    : NcclCommunicator(std::move(api), std::move(order), control, device, timeout) {
  const NcclId id = exchange_unique_id(*api_, control);
  comm_ = made("ncclCommInitRankConfig", nullptr, [&](NcclApi::Comm& comm) {
    return api_->init(comm, control.size(), id, control.rank(), device.index);
  });
}

NcclCommunicator::NcclCommunicator(NcclCommunicator& parent, int colour, ProcessGroup& control)
    : NcclCommunicator(parent.api_, parent.order_, control, parent.device_, parent.timeout_) {
  comm_ = made("ncclCommSplit", parent.comm_, [&](NcclApi::Comm& comm) {
    return api_->split(parent.comm_, colour, control.rank(), comm);
  });
}

const Stream& NcclCommunicator::messages() {
  if (!messages_) messages_.emplace(device_);
  return messages_->get();
}

void NcclCommunicator::leave_out() {
  static_cast<void>(made("ncclCommSplit", comm_,
                         [&](NcclApi::Comm& comm) { return api_->split(comm_, -1, 0, comm); }));
}

template <class F>
NcclApi::Comm NcclCommunicator::made(const char* call, NcclApi::Comm settling, const F& make) {
  auto cell = std::make_unique<NcclApi::Comm>(nullptr);
  try {
    expect_accepted(make(*cell), call, settling);
    settle(settling ? settling : *cell, call);
    if (settling && *cell) settle(*cell, call);
  } catch (const NcclError& error) {
    if (!comm_) comm_ = *cell;  // for the destructor
    leave_to_nccl(std::move(cell));
    throw ErrorOnRank<CommError>(
        rank_, fmt::format("{}: {}. The job must be restarted.", rank_name_, error.what()));
  } catch (const TimeoutError&) {
    if (!comm_) comm_ = *cell;
    leave_to_nccl(std::move(cell));
    throw;
  }
  return *cell;
}

NcclCommunicator::~NcclCommunicator() {
  abort();
  static_cast<void>(is_freed_within(std::min(patience_, timeout_)));
}

void NcclCommunicator::expect_accepted(NcclStatus status, const char* call, NcclApi::Comm comm) {
  if (status == NcclStatus::success || status == NcclStatus::in_progress) return;
  throw NcclError(fmt::format("{} failed: {}", call, api_->error_text(status, comm)));
}

bool NcclCommunicator::is_settled(NcclApi::Comm comm) {
  const NcclStatus status = api_->async_status(comm);
  expect_accepted(status, "an operation of NCCL", comm);
  return status == NcclStatus::success;
}

void NcclCommunicator::settle(NcclApi::Comm comm, const char* call) {
  const auto start = Clock::now();
  if (ProgressEngine::instance().progress_until([&] { return is_settled(comm); }, timeout_)) return;
  throw ErrorOnRank<TimeoutError>(
      rank_,
      fmt::format("{}: {} has not completed after {:.1f} s: at least one rank has not called it. "
                  "Look there for an error or a stopped process; NCCL_DEBUG=INFO prints more.",
                  rank_name_, call, seconds_since(start)));
}

void NcclCommunicator::close() {
  if (!comm_) return;
  const auto start = Clock::now();
  expect_accepted(api_->finalize(comm_), "ncclCommFinalize");
  settle(comm_, "ncclCommFinalize");
  start_to_free(&NcclApi::destroy);
  const auto left =
      timeout_ - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  if (is_freed_within(left)) return;
  throw ErrorOnRank<TimeoutError>(
      rank_, fmt::format("{}: ncclCommDestroy has not returned after {:.1f} "
                         "s: it is abandoned, and its device memory is not freed.",
                         rank_name_, seconds_since(start)));
}

// NCCL would refuse to destroy one that has failed, and free nothing.
void NcclCommunicator::destroy() noexcept {
  if (!comm_) return;
  if (api_->async_status(comm_) != NcclStatus::success) return abort();
  try_to_free(&NcclApi::destroy);
  patience_ = patience_to_destroy;
}
void NcclCommunicator::abort() noexcept { try_to_free(&NcclApi::abort); }

void NcclCommunicator::try_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm)) noexcept {
  if (!comm_) return;
  try {
    start_to_free(call);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread, so it stays
  }
}

// NCCL may never return. So the thread owns all it uses, and releases it before it reports
// completion.
void NcclCommunicator::start_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm)) {
  std::promise<void> freed;
  auto is_freed = freed.get_future();
  std::thread([freed = std::move(freed), api = api_, comm = comm_, call]() mutable {
    static_cast<void>(((*api).*call)(comm));
    api.reset();
    freed.set_value();
  }).detach();
  freed_ = std::move(is_freed);
  comm_ = nullptr;
}

bool NcclCommunicator::is_freed_within(std::chrono::milliseconds patience) const {
  return !freed_.valid() || freed_.wait_for(patience) == std::future_status::ready;
}

}  // namespace lockstep
