#include <lockstep/base/rank.hpp>

#include <atomic>

namespace lockstep {
namespace {

std::atomic<int> process_rank{0};
thread_local int thread_rank = 0;

}  // namespace

std::uint64_t rank_identity() noexcept {
  const auto process = static_cast<std::uint64_t>(process_rank.load(std::memory_order_relaxed));
  return process << 32U | static_cast<std::uint32_t>(thread_rank);
}

void set_process_rank(int rank) noexcept { process_rank.store(rank, std::memory_order_relaxed); }

ThreadRank::ThreadRank(int rank) noexcept : before_(thread_rank) { thread_rank = rank; }
ThreadRank::~ThreadRank() { thread_rank = before_; }

}  // namespace lockstep
