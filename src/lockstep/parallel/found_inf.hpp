#pragma once
#include <initializer_list>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep {

/// For ranks that hold different gradients, as of shards, slabs or stages: if those of `parameters`
/// are not finite on any rank of any of the groups, makes all ranks' so, because their GradScalers
/// have to skip the same step; null groups are passed over. A rank without a gradient in this step
/// gets one of NaN. Call it before GradScaler::unscale() or
/// step(). Collective over each group, in turn. Throws Error, beginning with
/// `who`, on every rank if one has no element of any trained parameter: its GradScaler could not
/// see that the others skip a step.
void agree_on_found_inf(const char* who, std::initializer_list<ProcessGroup*> groups,
                        const std::vector<nn::NamedParameter>& parameters);

}  // namespace lockstep
