#include <lockstep/base/rank.hpp>

#include <atomic>

namespace lockstep {
namespace {

std::atomic<int> process_rank{0};
thread_local int rank_of_this_thread = 0;

}  // namespace

std::uint64_t rank_identity() noexcept {
  const auto process = static_cast<std::uint64_t>(process_rank.load(std::memory_order_relaxed));
  return process << 32U | static_cast<std::uint32_t>(rank_of_this_thread);
}

void set_process_rank(int rank) noexcept { process_rank.store(rank, std::memory_order_relaxed); }

int thread_rank() noexcept { return rank_of_this_thread; }

ThreadRank::ThreadRank(int rank) noexcept : before_(rank_of_this_thread) {
  rank_of_this_thread = rank;
}
ThreadRank::~ThreadRank() { rank_of_this_thread = before_; }

}  // namespace lockstep
