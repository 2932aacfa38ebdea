#pragma once
#include <memory>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A group of the same ranks as `group`, like MPI_Comm_dup: for calls ordered independently of this
/// group's, e.g. by layers inside forward. The first call makes it and later calls return it, so
/// all users share one order; closed with `group`. Collective.
[[nodiscard]] std::shared_ptr<ProcessGroup> duplicate_of(ProcessGroup& group);

}  // namespace lockstep
