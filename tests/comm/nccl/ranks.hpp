#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <comm/nccl/stand_in.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

/// Deadlines in these claims are reached on purpose.
inline const GroupOptions soon{.timeout = std::chrono::milliseconds(300)};
inline const GroupOptions late{.timeout = std::chrono::seconds(60)};

/// A rank's calls on its nccl group, whose device has the rank's number.
using OnRank = std::function<void(ProcessGroup& group, StandIn& nccl)>;

/// Runs `claim` on ranks that are threads, over a control group of threads, with `nccl` in NCCL's
/// place; afterwards nothing may have been done that the real one would not forgive.
void on_ranks(int ranks, const OnRank& claim, const GroupOptions& options = late,
              std::shared_ptr<StandIn> nccl = std::make_shared<StandIn>());

/// on_ranks() for a test that throws if ranks of a busy machine miss the deadline too early:
/// repeats it with a longer one.
void on_ranks_soon(int ranks, const OnRank& claim, Contract contract = Contract::hash);

void expect_in(const std::string& message, const std::string& part);

/// A group over `control`, a reference to the rank's own.
[[nodiscard]] std::shared_ptr<ProcessGroup> nccl_group(const std::shared_ptr<StandIn>& nccl,
                                                       ProcessGroup& control,
                                                       const GroupOptions& options = late);

[[nodiscard]] inline Device device_of(int rank) { return {DeviceType::sim, rank}; }
[[nodiscard]] inline Tensor on_device(int rank, const std::vector<float>& elements) {
  return Tensor::from(elements, {static_cast<std::int64_t>(elements.size())}, device_of(rank));
}
/// This number of elements with that value.
[[nodiscard]] inline std::vector<float> of(std::size_t count, float value) {
  return std::vector<float>(count, value);
}
[[nodiscard]] inline std::vector<float> floats(const Tensor& t) { return t.to_vector<float>(); }

/// Returns when every rank is here, in any state of its device.
void meet(ProcessGroup& group);

/// From here on, on every rank, rank 1's device runs no NCCL kernel.
void stop_device(ProcessGroup& group, StandIn& nccl);

}  // namespace lockstep::test
