#pragma once
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include <mpi.h>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// True if MPI may get memory only for messages whose length is known to fit. Of one that is longer
/// than the memory of an MPI_Irecv, Open MPI 4.1 writes the rest past the end; MPICH tells the
/// error handler of MPI_COMM_WORLD, which ends the job if nobody has changed it.
[[nodiscard]] bool must_probe();

/// A message that an operation waits for: posted with MPI_Irecv or, if must_probe(), probed with
/// MPI_Improbe and received once it has arrived, which takes 0.1 us more and leaves a long message
/// at its sender until the group is called.
struct MpiReceive {
  static constexpr std::int64_t too_long = std::numeric_limits<std::int64_t>::max();
  static constexpr std::int64_t any_length = -1;

  MPI_Comm comm = MPI_COMM_NULL;
  int source = MPI_ANY_SOURCE;  ///< the sender, once it is known
  int tag = 0;
  std::byte* target = nullptr;
  std::int64_t bytes = 0;    ///< expected, or any_length
  std::int64_t length = -1;  ///< the message's, or too_long; -1 until it has arrived
  bool looked_for = false;   ///< with MPI_Improbe
  MPI_Request request = MPI_REQUEST_NULL;
  std::unique_ptr<std::byte[]> elsewhere;  // receives a message of another length
  Tensor message;                          ///< receives a message of any length
  bool giving_up = false;                  ///< nobody wants it any more
  bool doubted = false;                    ///< taken back, as another dtype has come (OtherDtype)
  bool cancelled = false;                  ///< it did not come

  [[nodiscard]] bool takes(MPI_Comm its_comm, const MPI_Status& envelope) const noexcept {
    return length < 0 && comm == its_comm && tag == envelope.MPI_TAG &&
           (source == MPI_ANY_SOURCE || source == envelope.MPI_SOURCE);
  }
  // These throw OperationFailure if MPI fails.
  void post(std::int64_t max_count);
  /// Tests whether the posted receive has completed.
  void test();
  /// Cancels the posted receive; test() returns the outcome. No call of MPI is made twice.
  void cancel() noexcept;
  /// Starts receiving a message that MPI_Improbe has found, but not into the target: for its
  /// sender's sake.
  void take_elsewhere(MPI_Message handle, const MPI_Status& envelope, std::int64_t max_count) {
    take(handle, envelope, max_count, false);
  }
  /// Starts receiving a message that MPI_Improbe has found.
  void take(MPI_Message handle, const MPI_Status& envelope, std::int64_t max_count,
            bool fits = true);
};

/// The messages that a group's operations must look for, oldest first.
class PendingReceives {
 public:
  /// `receive` must not move until it is found.
  void add(MpiReceive& receive) { pending_.push_back(&receive); }
  /// Nobody looks for `receive` any more, if somebody did.
  void remove(const MpiReceive& receive) noexcept { std::erase(pending_, &receive); }
  [[nodiscard]] bool empty() const noexcept { return pending_.empty(); }
  /// Looks for `receive`'s message. True if MPI had one that it takes; MPI gives a message to the
  /// oldest that takes it, so an older one may have got it.
  [[nodiscard]] bool find(const MpiReceive& receive, std::int64_t max_count);

 private:
  std::vector<MpiReceive*> pending_;
};

}  // namespace lockstep
