#include <lockstep/comm/nccl/communicator.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/engine/progress_engine.hpp>

namespace lockstep {
namespace {

// How long NCCL has to give up before it is left behind, at most.
constexpr std::chrono::milliseconds patience{5000};

}  // namespace

void expect_gpus(NcclApi& api, ProcessGroup& control, Device device) {
  const auto expect_own = [&] {
    std::string finding;
    try {
      const int count = api.device_count();
      if (device.type == DeviceType::cuda && device.index >= 0 && device.index < count) return;
      finding = fmt::format("it has {} of them", count);
    } catch (const GpuError& error) {
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
}

NcclId exchange_unique_id(NcclApi& api, ProcessGroup& control) {
  const auto make_id = [&] {
    NcclId id{};
    if (api.make_id(id) == NcclStatus::success) return std::string(id.data(), id.size());
    throw CommError(
        "NCCL could not make a unique ID on rank 0: look at its network interfaces "
        "(NCCL_SOCKET_IFNAME, NCCL_DEBUG=INFO)");
  };
  const auto refuse = [](const AgreedFailure& failure) {
    throw Agreed<CommError>(failure, failure.message);
  };
  NcclId id{};
  std::ranges::copy(agree(control, 0, make_id, {.refuse = refuse}), id.begin());
  return id;
}

NcclCommunicator::NcclCommunicator(std::shared_ptr<NcclApi> api, ProcessGroup& control,
                                   Device device, std::shared_ptr<LaunchOrder> order,
                                   std::chrono::milliseconds timeout)
    : api_(std::move(api)),
      device_(device),
      rank_{control.rank(), host_name()},
      rank_name_(fmt::format("rank {} of {} ({}, {})", control.rank(), control.size(), host_name(),
                             to_string(device))),
      timeout_(timeout),
      order_(std::move(order)),
      events_(*api_) {
  const NcclId id = exchange_unique_id(*api_, control);
  try {
    const DeviceScope there(*api_, device_.index);
    expect_accepted(api_->init(comm_, control.size(), id, control.rank()),
                    "ncclCommInitRankConfig");
    settle("ncclCommInitRankConfig");
    stream_ = order_->stream();
  } catch (const GpuError& error) {
    static_cast<void>(give_up());
    throw ErrorOnRank<CommError>(
        rank_, fmt::format("{}: {}. The job must be restarted.", rank_name_, error.what()));
  } catch (const TimeoutError&) {
    static_cast<void>(give_up());
    throw;
  }
}

NcclCommunicator::~NcclCommunicator() {
  if (!give_up()) order_->keep_stream();
}

bool NcclCommunicator::give_up() noexcept {
  abort();
  return is_freed_within(std::min(patience, timeout_));
}

void NcclCommunicator::expect_accepted(NcclStatus status, const char* call) {
  if (status == NcclStatus::success || status == NcclStatus::in_progress) return;
  throw GpuError(fmt::format("{} failed: {}", call, api_->error_text(status, comm_)));
}

bool NcclCommunicator::is_settled() {
  const NcclStatus status = api_->async_status(comm_);
  expect_accepted(status, "an operation of NCCL");
  return status == NcclStatus::success;
}

void NcclCommunicator::settle(const char* call) {
  const auto start = Clock::now();
  if (ProgressEngine::instance().progress_until([&] { return is_settled(); }, timeout_)) return;
  throw ErrorOnRank<TimeoutError>(
      rank_,
      fmt::format("{}: {} has not completed after {:.1f} s: at least one rank has not come to it. "
                  "Look there for an error or a stopped process; NCCL_DEBUG=INFO says more.",
                  rank_name_, call, seconds_since(start)));
}

void NcclCommunicator::close() {
  if (!comm_) return;
  const auto start = Clock::now();
  const DeviceScope there(*api_, device_.index);
  expect_accepted(api_->finalize(comm_), "ncclCommFinalize");
  settle("ncclCommFinalize");
  start_to_free(&NcclApi::destroy);
  const auto left =
      timeout_ - std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start);
  if (is_freed_within(left)) return;
  throw ErrorOnRank<TimeoutError>(rank_,
                                  fmt::format("{}: ncclCommDestroy has not returned after {:.1f} "
                                              "s: it is left behind, with what it holds "
                                              "on the device.",
                                              rank_name_, seconds_since(start)));
}

void NcclCommunicator::abort() noexcept {
  if (!comm_) return;
  try {
    start_to_free(&NcclApi::abort);
  } catch (const std::system_error&) {  // NOLINT(bugprone-empty-catch): no thread, so it stays
  }
}

// NCCL may never return, so the thread owns what it uses, and lets go of it before it says so.
void NcclCommunicator::start_to_free(NcclStatus (NcclApi::*call)(NcclApi::Comm)) {
  std::promise<void> freed;
  auto is_freed = freed.get_future();
  std::thread([freed = std::move(freed), api = api_, comm = comm_, device = device_.index,
               call]() mutable {
    try {
      const DeviceScope there(*api, device);
      static_cast<void>(((*api).*call)(comm));
    } catch (const GpuError&) {  // NOLINT(bugprone-empty-catch): nobody is left to be told
    }
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
