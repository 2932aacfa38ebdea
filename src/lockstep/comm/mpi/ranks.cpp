#include <lockstep/comm/mpi/ranks.hpp>

#include <algorithm>
#include <bitset>
#include <mutex>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/mpi/all_gather_values.hpp>
#include <lockstep/comm/mpi/status.hpp>

namespace lockstep {
namespace {

constexpr int most_numbers = 256;
using Numbers = std::bitset<most_numbers>;

// MPI_Comm_create_group would not copy the caller's attributes, but it blocks inside MPI: 42 ms
// instead of 1 ms for 8 ranks on 2 cores.
MPI_Comm duplicate_of(MPI_Comm comm, const MpiWait& wait) {
  MPI_Comm made = MPI_COMM_NULL;
  MPI_Request request = MPI_REQUEST_NULL;
  check_mpi(MPI_Comm_idup(comm, &made, &request), "MPI_Comm_idup");
  wait(request);
  check_mpi(MPI_Comm_set_errhandler(made, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  return made;
}

/// The number of groups for which MPI has enough tags.
int tag_capacity() {
  int* largest_tag = nullptr;
  int known = 0;
  check_mpi(MPI_Comm_get_attr(MPI_COMM_WORLD, MPI_TAG_UB, static_cast<void*>(&largest_tag), &known),
            "MPI_Comm_get_attr");
  const std::int64_t tags = known != 0 ? std::int64_t{*largest_tag} + 1 : 32768;
  return static_cast<int>(std::min<std::int64_t>(most_numbers, tags >> MpiRanks::tag_bits));
}

}  // namespace

/// The communicators, and the numbers of the groups that this rank belongs to. Thread-safe.
class MpiComms {
 public:
  MpiComms(MPI_Comm comm, const MpiWait& wait)
      : collectives(duplicate_of(comm, wait)),
        messages(duplicate_of(comm, wait)),
        numbers_(tag_capacity()) {
    taken_.set(0);
  }

  struct Offer {
    Numbers taken;
    int next = 0;  ///< follows the last number given, so that a number is reused late
  };
  [[nodiscard]] Offer offer() const {
    const std::lock_guard lock(mutex_);
    return {taken_, next_};
  }
  /// False if another thread of this rank has just taken the number.
  [[nodiscard]] bool take(int number) {
    const std::lock_guard lock(mutex_);
    if (taken_.test(static_cast<std::size_t>(number))) return false;
    taken_.set(static_cast<std::size_t>(number));
    next_ = number + 1;
    return true;
  }
  /// True if no group uses the communicators any more.
  [[nodiscard]] bool give_back(int number) {
    const std::lock_guard lock(mutex_);
    taken_.reset(static_cast<std::size_t>(number));
    return taken_.none();
  }
  [[nodiscard]] int numbers() const noexcept { return numbers_; }

  MPI_Comm collectives, messages;

 private:
  int numbers_;
  mutable std::mutex mutex_;
  Numbers taken_;
  int next_ = 1;
};

MPI_Comm MpiRanks::collectives() const noexcept { return comms_->collectives; }
MPI_Comm MpiRanks::messages() const noexcept { return comms_->messages; }

MpiRanks MpiRanks::of(MPI_Comm comm, const MpiWait& wait) {
  MpiRanks all;
  check_mpi(MPI_Comm_rank(comm, &all.rank_), "MPI_Comm_rank");
  check_mpi(MPI_Comm_size(comm, &all.size_), "MPI_Comm_size");
  all.comms_ = std::make_shared<MpiComms>(comm, wait);
  return all;
}

MpiRanks MpiRanks::some(std::span<const int> members) const {
  MpiRanks made = *this;
  made.mpi_ranks_.clear();
  for (const int member : members) made.mpi_ranks_.push_back(mpi_rank(member));
  made.size_ = static_cast<int>(members.size());
  const auto own = std::ranges::find(members, rank_);
  made.rank_ = own == members.end() ? -1 : static_cast<int>(own - members.begin());
  return made;
}

// The search starts at a number derived from this group's own, so threads that split different
// groups seldom want the same one.
MpiRanks MpiRanks::apart(const MpiWait& wait) const {
  for (;;) {
    Numbers taken;
    int next = 0;
    for (const MpiComms::Offer& theirs : all_gather_values(comms_->offer(), *this, wait)) {
      taken |= theirs.taken;
      next = std::max(next, theirs.next);
    }
    int number = -1;
    for (int i = 0; i < comms_->numbers() && number < 0; ++i) {
      const int candidate = (next + 37 * number_ + i) % comms_->numbers();
      if (!taken.test(static_cast<std::size_t>(candidate))) number = candidate;
    }
    if (number < 0) {
      throw CommError(fmt::format(
          "{} groups made from one communicator are in use, more than MPI has tags for. close() "
          "groups that are no longer needed, or make groups from several communicators",
          taken.count()));
    }
    const bool mine = comms_->take(number);
    const auto all = all_gather_values(mine ? 1 : 0, *this, wait);
    if (std::ranges::find(all, 0) == all.end()) {
      MpiRanks made = *this;
      made.number_ = number;
      return made;
    }
    if (mine) static_cast<void>(comms_->give_back(number));
  }
}

int MpiRanks::leave() noexcept {
  const std::shared_ptr<MpiComms> comms = std::move(comms_);
  if (!comms->give_back(number_)) return MPI_SUCCESS;
  int worst = MPI_SUCCESS;
  for (MPI_Comm* comm : {&comms->collectives, &comms->messages}) {
    const int status = MPI_Comm_free(comm);
    if (worst == MPI_SUCCESS) worst = status;
  }
  return worst;
}

int MpiRanks::rank_of(int mpi_rank) const noexcept {
  if (mpi_ranks_.empty()) return mpi_rank;
  return static_cast<int>(std::ranges::find(mpi_ranks_, mpi_rank) - mpi_ranks_.begin());
}

}  // namespace lockstep
