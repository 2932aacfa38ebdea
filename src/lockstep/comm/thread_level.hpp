#pragma once
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Whether several threads of this rank may communicate, each in its own group, and exchange
/// messages in one group: true unless MPI grants less than MPI_THREAD_MULTIPLE. Local.
[[nodiscard]] bool threads_may_communicate(const ProcessGroup& group);

}  // namespace lockstep
