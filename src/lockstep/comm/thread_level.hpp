#pragma once
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Whether several threads of this rank may communicate, each in a group of its own, and send and
/// receive messages in one: everywhere but where MPI grants less than MPI_THREAD_MULTIPLE. Local.
[[nodiscard]] bool threads_may_communicate(const ProcessGroup& group);

}  // namespace lockstep
