#pragma once
#include <lockstep/comm/engine/in_flight.hpp>
#include <lockstep/comm/mpi/calls.hpp>
#include <lockstep/comm/mpi/other_dtype.hpp>

namespace lockstep {

/// An operation that MPI carries out: its calls, and the stand-ins for tensors that MPI cannot take
/// (of 16-bit floats, which it cannot add; of a reduce_scatter whose input and output overlap).
class ByMpi {
 public:
  explicit ByMpi(const Operation& operation) : is_staged_(needs_staging(operation)) {}
  /// Makes the calls. Throws OperationFailure.
  void start(const Operation& operation, const MpiPlace& place, PendingReceives& pending);
  /// Makes progress. Throws OperationFailure if MPI fails, or if another message has arrived.
  [[nodiscard]] Motion move(const Operation& operation, const MpiPlace& place,
                            PendingReceives& pending);
  /// The message that was received.
  [[nodiscard]] const MpiReceive& received() noexcept { return *calls_.receives.begin(); }
  /// Asks that a receive be given up.
  void cancel_receive(PendingReceives& pending) noexcept;

 private:
  [[nodiscard]] static bool needs_staging(const Operation& operation) noexcept;
  void stage(const Operation& operation);
  /// The operation on the tensors that MPI sees.
  [[nodiscard]] Operation as_staged(const Operation& operation) const;
  void look_for_receives(PendingReceives& pending);
  [[nodiscard]] bool goes_on(const Operation& operation, const MpiPlace& place,
                             PendingReceives& pending);
  void finish(const Operation& operation, int size);
  /// A received message must fill its tensor.
  static void expect_length(const Operation& operation, const MpiRanks& ranks,
                            const MpiReceive& receive);

  bool is_staged_;
  OtherDtype other_dtype_;
  Tensor staged_input_, staged_output_;
  MpiCalls calls_;
};

}  // namespace lockstep
