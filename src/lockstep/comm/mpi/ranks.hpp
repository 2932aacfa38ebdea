#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <mpi.h>
#include <lockstep/comm/mpi/wait.hpp>
#include <lockstep/comm/process_group.hpp>

namespace lockstep {

class MpiComms;

/// The ranks of a group, or some of them, and how they send to each other.
///
/// A group made from a user's communicator has two duplicates of it. The groups split from it use
/// the same two; a number of their own, in the tags, keeps their messages apart. For MPI makes a
/// communicator of some ranks only by calls that block without a deadline, and do not make room for
/// other ranks meanwhile: 40 ms with 8 ranks on 2 cores.
class MpiRanks {
 public:
  /// Nobody.
  MpiRanks() = default;
  /// All ranks of `comm`, whose error handler must return. Collective over it; ends at the deadline
  /// of `wait`.
  [[nodiscard]] static MpiRanks of(MPI_Comm comm, const MpiWait& wait);
  /// Some of these ranks, in this order; their messages share the communicator.
  [[nodiscard]] MpiRanks some(std::span<const int> members) const;
  /// The same ranks, as a separate group. Collective over them; ends at the deadline of `wait`.
  /// Throws CommError if all numbers are taken.
  [[nodiscard]] MpiRanks apart(const MpiWait& wait) const;
  /// The group has ended on all of its ranks: frees objects that no group uses any more. Local, as
  /// far as MPI_Comm_free is. Returns MPI's status.
  [[nodiscard]] int leave() noexcept;

  [[nodiscard]] int rank() const noexcept { return rank_; }  ///< -1 if not among them
  [[nodiscard]] int size() const noexcept { return size_; }
  /// Whether MPI's own collectives can be called on collectives().
  [[nodiscard]] bool have_communicator() const noexcept { return mpi_ranks_.empty(); }
  /// For Lockstep's own traffic: MPI's collectives, and messages with tag(purpose, sequence).
  [[nodiscard]] MPI_Comm collectives() const noexcept;
  /// Apart, so that any_source matches nothing of ours: the users', with tag_of_message(tag).
  [[nodiscard]] MPI_Comm messages() const noexcept;
  /// The MPI rank of one of these, on both communicators.
  [[nodiscard]] int mpi_rank(int rank) const noexcept {
    return mpi_ranks_.empty() ? rank : mpi_ranks_[static_cast<std::size_t>(rank)];
  }
  /// The rank among these that MPI calls so.
  [[nodiscard]] int rank_of(int mpi_rank) const noexcept;

  /// Calls f(rank) in a different order on each rank, so that not all send to the same one at a
  /// time.
  template <class F>
  void for_all_others(const F& f) const {
    for (int step = 1; step < size_; ++step) f((rank_ + step) % size_);
  }

  static constexpr int tag_bits = 20;  ///< a user's and a dtype, or one of Lockstep's own
  /// The purpose of an internal message, in the upper of these bits; the lower ones separate the
  /// operations in flight.
  enum class Purpose : std::uint8_t { set_up, rendezvous, piece, collective };
  [[nodiscard]] int tag(Purpose purpose, std::uint64_t sequence = 0) const noexcept {
    constexpr int sequence_bits = tag_bits - 2;
    return number_ << tag_bits | static_cast<int>(purpose) << sequence_bits |
           static_cast<int>(sequence % (1U << sequence_bits));
  }
  /// Of a user's message: MPI gives no message to a receive of another dtype.
  [[nodiscard]] int tag_of_message(int tag, DType dtype) const noexcept {
    static_assert(message_tags << 3 == 1 << tag_bits);
    return number_ << tag_bits | static_cast<int>(dtype) << (tag_bits - 3) | tag;
  }

 private:
  std::shared_ptr<MpiComms> comms_;
  int number_ = 0;
  int rank_ = -1, size_ = 0;
  std::vector<int> mpi_ranks_;  // empty: all, as they are
};

}  // namespace lockstep
