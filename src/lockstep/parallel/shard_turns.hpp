#pragma once
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/nn/random.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep {

/// Runs something for each shard of a rank so that shards can wait for one another in the midst of
/// it: one at a time, in turns. The first runs on the calling thread, each of the others on a
/// thread of its own, which stays. What a shard has done before it waits is seen by the one whose
/// turn it is next. The threads are the caller's rank, draw random numbers from where it does and
/// have as many math threads; other things that belong to a thread they have of their own.
class ShardTurns {
 public:
  /// What is called between turns, with the shard that stands from now on and the one that goes on.
  using Change = std::function<void(std::int64_t, std::int64_t)>;

  ShardTurns(std::int64_t shards, Change change);
  ~ShardTurns();
  ShardTurns(const ShardTurns&) = delete;
  ShardTurns& operator=(const ShardTurns&) = delete;

  /// body(shard), shards counting from 0; returns when all have ended. If one throws, all the
  /// others end at their next meet(), and what was thrown first is thrown here.
  void run(const std::function<void(std::int64_t)>& body);
  /// Within run(), or of a single shard.
  [[nodiscard]] bool is_running() const noexcept { return body_ != nullptr || shards_ == 1; }
  /// Whose turn it is. Throws Error outside of run(), but for a single shard.
  [[nodiscard]] std::int64_t at() const;

  /// at(), which will meet() the others next. Throws Error, as meet() would, if it cannot.
  [[nodiscard]] std::int64_t comes() const;
  /// Called by a shard whose turn it is: the others have theirs, until each has come here. Then
  /// `all_came` runs, on the thread that called run(), and everybody goes on, the first shard
  /// first. Throws Error where that cannot be: outside run(), or because another shard has ended.
  void meet(const std::function<void()>& all_came);

  /// Seconds that the shard whose turn it is has stood in meet() while others had theirs, since
  /// construction.
  [[nodiscard]] double seconds_stood() const noexcept { return shard_[at_].stood; }

 private:
  struct Shard {
    std::condition_variable turn;
    std::thread thread;  ///< none for the first
    bool ended = true;
    double stood = 0.0;
  };

  void be_thread(std::int64_t shard, int rank);
  void run_body(std::int64_t shard);
  void expect_no_failure() const;
  [[noreturn]] static void refuse_ended();
  /// It is the next one's turn. Called under the lock.
  void pass_on();
  void wait_for_turn(std::int64_t shard, std::unique_lock<std::mutex>& lock);
  [[nodiscard]] std::int64_t ended() const noexcept;

  const std::int64_t shards_;
  Change change_;
  std::unique_ptr<Shard[]> shard_;
  std::mutex mutex_;  // guards what follows, which the one whose turn it is may read without
  std::int64_t at_ = 0;
  bool leaves_ = false;
  const std::function<void(std::int64_t)>* body_ = nullptr;
  nn::RandomSource random_;
  int math_threads_ = 1;
  Precision precision_ = Precision::f32;  ///< of the products of whoever calls run()
  std::exception_ptr error_;
};

}  // namespace lockstep
