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

/// The rows of a batch, on every rank: of `input` and `target`, looked at where a pointer is given.
/// Throws InputError, on every rank alike, for a tensor that is missing or has other rows.
/// Collective.
[[nodiscard]] std::int64_t agreed_rows(ProcessGroup& group, const Tensor* input,
                                       const Tensor* target);

}  // namespace lockstep
