#pragma once
#include <string>

#include <mpi.h>
#include <lockstep/base/error.hpp>

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

/// A message was longer than what it was to be received into.
[[nodiscard]] inline bool is_truncation(int status) {
  int error_class = MPI_SUCCESS;
  MPI_Error_class(status, &error_class);
  return error_class == MPI_ERR_TRUNCATE;
}

}  // namespace lockstep
