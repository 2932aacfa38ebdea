#pragma once
#include <cstdint>

namespace lockstep {

/// A number that differs between the ranks of a job, for random numbers and other uses without a
/// group: 0 on rank 0, and the same on a rank in every run. Known from making a group on; 0 before,
/// and in programs without ranks.
[[nodiscard]] std::uint64_t rank_identity() noexcept;

/// Says which rank this process is. Called by the backend that knows.
void set_process_rank(int rank) noexcept;

/// The rank of the calling thread among the ranks that are threads of this process; 0 if the
/// process is a rank.
[[nodiscard]] int thread_rank() noexcept;

/// While it lives, this thread is rank `rank` of the ranks that are threads of its process, or
/// works for it.
class ThreadRank {
 public:
  explicit ThreadRank(int rank) noexcept;
  ~ThreadRank();
  ThreadRank(const ThreadRank&) = delete;
  ThreadRank& operator=(const ThreadRank&) = delete;

 private:
  int before_;
};

}  // namespace lockstep
