#pragma once
#include <cstdint>

#include <mpi.h>
#include <lockstep/comm/reduce_op.hpp>

namespace lockstep {

/// MPI's type of a dtype that MPI can reduce: not f16, not bf16.
[[nodiscard]] MPI_Datatype mpi_type(DType dtype);

/// MPI's reduction of `op` for elements of `dtype`; avg sums, and divides once, at the end.
[[nodiscard]] MPI_Op mpi_op(ReduceOp op, DType dtype);

/// Any number of bytes as one count and datatype of an MPI call, whose counts are ints.
class MpiBytes {
 public:
  /// Above max_count bytes it makes a derived datatype, in pieces of max_count.
  MpiBytes(std::int64_t bytes, std::int64_t max_count);
  ~MpiBytes();
  MpiBytes(const MpiBytes&) = delete;
  MpiBytes& operator=(const MpiBytes&) = delete;

  [[nodiscard]] int count() const noexcept { return count_; }
  [[nodiscard]] MPI_Datatype type() const noexcept { return type_; }

 private:
  int count_ = 1;
  MPI_Datatype type_ = MPI_BYTE;
};

}  // namespace lockstep
