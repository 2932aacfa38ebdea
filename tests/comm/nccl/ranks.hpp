#pragma once
#include <functional>
#include <memory>
#include <vector>

#include <comm/nccl/stand_in.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep::test {

/// Deadlines in these claims are reached on purpose.
inline const GroupOptions soon{.timeout = std::chrono::milliseconds(300)};
inline const GroupOptions late{.timeout = std::chrono::seconds(60)};

/// What a rank does with its nccl group, whose device has the rank's number.
using OnRank = std::function<void(ProcessGroup& group, StandIn& gpus)>;

/// Runs `claim` on ranks that are threads, over a control group of threads, with `gpus` in NCCL's
/// place; afterwards nothing may have been done that the real ones would not forgive.
void on_ranks(int ranks, const OnRank& claim, const GroupOptions& options = late,
              std::shared_ptr<StandIn> gpus = std::make_shared<StandIn>());

/// A group over `control`, a reference to the rank's own.
[[nodiscard]] std::shared_ptr<ProcessGroup> nccl_group(const std::shared_ptr<StandIn>& gpus,
                                                       ProcessGroup& control,
                                                       const GroupOptions& options = late);

/// So many elements of that value.
[[nodiscard]] inline std::vector<float> of(std::size_t count, float value) {
  return std::vector<float>(count, value);
}

/// Returns when every rank is here, whatever its device does.
void meet(ProcessGroup& group);

}  // namespace lockstep::test
