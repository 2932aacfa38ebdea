#pragma once
#include <lockstep/comm/mpi/calls.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {

/// The calls of one operation as they are made: messages, from which every kind of operation can be
/// made. In a collective each rank sends every rank its part; in reductions each rank sums, in rank
/// order, one block of the elements for all, so no rank sends or holds more than twice the tensor.
/// Throws OperationFailure at the first call that fails.
class MessageCalls {
 public:
  MessageCalls(const Operation& operation, const MpiPlace& place, MpiCalls& calls)
      : operation_(operation), place_(place), calls_(calls) {}

  /// Of a send or a receive.
  void send_message();
  void receive_message();
  /// Of a collective.
  void start();
  /// The blocks of a reduction have arrived: sums its own. True if it has more to send.
  [[nodiscard]] bool go_on();

 protected:
  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }
  [[nodiscard]] const MpiPlace& place() const noexcept { return place_; }
  [[nodiscard]] const MpiRanks& ranks() const noexcept { return *place_.ranks; }
  [[nodiscard]] const Tensor& input() const noexcept { return operation_.input; }
  [[nodiscard]] const Tensor& output() const noexcept { return operation_.output; }
  [[nodiscard]] MpiCalls& calls() const noexcept { return calls_; }

  template <class F>
  void call(const F& f) {
    expect_success(f(&calls_.requests.add()));
  }

  [[nodiscard]] bool is_root() const { return ranks().rank() == operation_.root; }
  [[nodiscard]] Block in(int rank) const { return input_block(operation_, ranks().size(), rank); }
  [[nodiscard]] Block out(int rank) const { return output_block(operation_, ranks().size(), rank); }
  [[nodiscard]] static Block all_of(const Tensor& t) { return {0, t.numel()}; }
  [[nodiscard]] static std::int64_t bytes_of(const Tensor& t, std::int64_t elements) {
    return elements * static_cast<std::int64_t>(size_of(t.dtype()));
  }

  /// Messages within a collective, whose calls have the same order on every rank.
  void send(const Tensor& t, Block block, int peer);
  void receive(const Tensor& t, Block block, int peer);
  void copy_own(const Tensor& source, Block from, const Tensor& target, Block to);

 private:
  /// The block that a rank sums.
  [[nodiscard]] Block summed_by(int rank) const;
  void exchange_blocks();
  void send(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag);
  void receive(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag);
  MpiReceive& note_receive(MPI_Comm comm, int peer, int tag);

  const Operation& operation_;
  const MpiPlace& place_;
  MpiCalls& calls_;
};

}  // namespace lockstep
