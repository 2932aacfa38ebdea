#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/pipeline/pipeline_options.hpp>
#include <lockstep/parallel/pipeline/schedule.hpp>

namespace lockstep {

/// Throws InputError, on every rank alike, for arguments of Pipeline that do not fit each other, or
/// schedules that differ. Collective.
void expect_executable(ProcessGroup& group, const PipelineSchedule& schedule,
                       const std::vector<std::shared_ptr<nn::Module>>& stages, bool has_loss,
                       const PipelineOptions& options);

/// Whether parameters of a stage exist during whole passes only (FullyShardedDataParallel).
[[nodiscard]] bool is_sharded(const nn::Module& stage);

/// Facts that ranks exchange at the begin of a call.
struct AgreedBatch {
  std::int64_t rows = 0;
  bool any_said_yes = false;
};
/// On every rank: the rows of `input` and `target`, as given by a rank with a pointer, and whether
/// any rank says yes. Throws InputError, on every rank alike, for a missing tensor or another
/// number of rows. Collective.
[[nodiscard]] AgreedBatch agreed_batch(ProcessGroup& group, const Tensor* input,
                                       const Tensor* target, bool says_yes);

}  // namespace lockstep
