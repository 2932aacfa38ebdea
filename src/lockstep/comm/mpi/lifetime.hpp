#pragma once
#include <lockstep/comm/mpi/core.hpp>

// Owns communicators that were not closed. A destructor must not communicate, so a group that was
// not closed leaves its communicator to a callback that MPI runs at the start of MPI_Finalize (the
// delete function of an attribute of MPI_COMM_SELF).

namespace lockstep {

/// Keeps the core until it is closed or MPI_Finalize begins. Thread-safe.
void adopt(const IntrusivePtr<MpiCore>& core);
/// The core is closed: forget it. Thread-safe.
void disown(const MpiCore* core) noexcept;

/// Throws CommError, with the remedy, if MPI is not initialised or already finalised.
void expect_mpi_running();

}  // namespace lockstep
