#pragma once
#include <lockstep/comm/mpi/calls.hpp>

namespace lockstep {

/// The calls of one operation as they are made, until one fails; and its messages, which every kind
/// of operation can have.
class CallList {
 public:
  CallList(const Operation& operation, const MpiPlace& place, MpiCalls& calls)
      : operation_(operation), place_(place), calls_(calls) {}

  [[nodiscard]] int status() const noexcept { return status_; }
  /// Of a send or a receive.
  void send_message();
  void receive_message();

 protected:
  [[nodiscard]] const Operation& operation() const noexcept { return operation_; }
  [[nodiscard]] const MpiPlace& place() const noexcept { return place_; }
  [[nodiscard]] const MpiRanks& ranks() const noexcept { return *place_.ranks; }
  [[nodiscard]] const Tensor& input() const noexcept { return operation_.input; }
  [[nodiscard]] const Tensor& output() const noexcept { return operation_.output; }
  [[nodiscard]] MpiCalls& calls() const noexcept { return calls_; }

  template <class F>
  void call(const F& f) {
    if (status_ != MPI_SUCCESS) return;
    status_ = f(&calls_.requests.add());
    if (status_ != MPI_SUCCESS) calls_.requests.drop_last();
  }

  [[nodiscard]] bool is_root() const { return ranks().rank() == operation_.root; }
  [[nodiscard]] Block in(int rank) const {
    return block_of(operation_.input_counts, input().numel(), ranks().size(), rank);
  }
  [[nodiscard]] Block out(int rank) const {
    return block_of(operation_.output_counts, output().numel(), ranks().size(), rank);
  }
  [[nodiscard]] static Block all_of(const Tensor& t) { return {0, t.numel()}; }
  [[nodiscard]] static std::int64_t bytes_of(const Tensor& t, std::int64_t elements) {
    return elements * static_cast<std::int64_t>(size_of(t.dtype()));
  }

  /// Messages within a collective, whose calls have the same order on every rank.
  void send(const Tensor& t, Block block, int peer);
  void receive(const Tensor& t, Block block, int peer);
  void copy_own(const Tensor& source, Block from, const Tensor& target, Block to);

 private:
  void send(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag);
  void receive(MPI_Comm comm, const Tensor& t, Block block, int peer, int tag);
  MpiReceive& note_receive(MPI_Comm comm, int peer, int tag);

  const Operation& operation_;
  const MpiPlace& place_;
  MpiCalls& calls_;
  int status_ = MPI_SUCCESS;
};

}  // namespace lockstep
