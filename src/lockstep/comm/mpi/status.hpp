#pragma once
#include <string>

#include <mpi.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/engine/in_flight.hpp>

namespace lockstep {

/// MPI's own words for a status.
[[nodiscard]] inline std::string mpi_error_text(int status) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  MPI_Error_string(status, text, &length);
  return {text, static_cast<std::size_t>(length)};
}

/// Throws CommError naming the call if `status` is not MPI_SUCCESS.
inline void check_mpi(int status, const char* call) {
  if (status != MPI_SUCCESS)
    throw CommError(std::string(call) + " failed: " + mpi_error_text(status));
}

/// The same while an operation moves: throws OperationFailure.
inline void expect_success(int status) {
  if (status != MPI_SUCCESS)
    throw OperationFailure(OperationFailure::Kind::transport, mpi_error_text(status));
}

/// Whether MPI is done with a request, which is then MPI_REQUEST_NULL. Throws OperationFailure.
[[nodiscard]] inline bool is_complete(MPI_Request& request) {
  if (request == MPI_REQUEST_NULL) return true;
  int over = 0;
  expect_success(MPI_Test(&request, &over, MPI_STATUS_IGNORE));
  return over != 0;
}

/// A message was longer than its receive buffer.
[[nodiscard]] inline bool is_truncation(int status) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(status, &error_class);
  return error_class == MPI_ERR_TRUNCATE;
}

}  // namespace lockstep
