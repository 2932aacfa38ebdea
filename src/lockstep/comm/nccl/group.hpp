#pragma once
#include <memory>

#include <lockstep/comm/group_options.hpp>
#include <lockstep/comm/nccl/api.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// make_nccl_group with other functions in the place of NCCL's: for tests.
[[nodiscard]] std::shared_ptr<ProcessGroup> make_nccl_group(std::shared_ptr<NcclApi> api,
                                                            std::shared_ptr<ProcessGroup> control,
                                                            Device device,
                                                            const GroupOptions& options);

/// From now on make_group gives devices of the API's type groups whose collectives it carries out.
/// For tests, before groups are made.
void use_nccl_api(std::shared_ptr<NcclApi> api);

}  // namespace lockstep
