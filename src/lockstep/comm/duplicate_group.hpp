#pragma once
#include <memory>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A group of the same ranks as `group`, as MPI_Comm_dup makes one: for calls ordered independently
/// of those on `group`, such as a layer's amid the forward. Made at the first call and the same one
/// ever after, so that all who ask for it share one order; closed with `group`. Collective.
[[nodiscard]] std::shared_ptr<ProcessGroup> duplicate_of(ProcessGroup& group);

}  // namespace lockstep
