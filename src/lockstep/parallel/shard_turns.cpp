#include <lockstep/parallel/shard_turns.hpp>

#include <utility>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/base/trace.hpp>
#include <lockstep/tensor/math_libraries.hpp>

namespace lockstep {

ShardTurns::ShardTurns(std::int64_t shards, Change change)
    : shards_(shards),
      change_(std::move(change)),
      shard_(std::make_unique<Shard[]>(static_cast<std::size_t>(shards))) {}

ShardTurns::~ShardTurns() {
  {
    const std::lock_guard lock(mutex_);
    leaves_ = true;
  }
  for (std::int64_t shard = 1; shard < shards_; ++shard) {
    if (!shard_[shard].thread.joinable()) continue;
    shard_[shard].turn.notify_one();
    shard_[shard].thread.join();
  }
}

std::int64_t ShardTurns::ended() const noexcept {
  std::int64_t count = 0;
  for (std::int64_t shard = 0; shard < shards_; ++shard) count += shard_[shard].ended ? 1 : 0;
  return count;
}

void ShardTurns::expect_no_failure() const {
  if (error_) throw Error("another shard of this rank has failed");
}

void ShardTurns::refuse_ended() {
  throw Error(
      "a shard of this rank has ended, but others wait for it in a SyncBatchNorm: the body of "
      "for_each_shard() is to run the same such layers for every shard");
}

void ShardTurns::pass_on() {
  const std::int64_t from = at_;
  std::int64_t to = (from + 1) % shards_;
  while (to != 0 && shard_[to].ended) to = (to + 1) % shards_;
  if (to == from) return;
  change_(from, to);
  at_ = to;
  shard_[to].turn.notify_one();
}

void ShardTurns::wait_for_turn(std::int64_t shard, std::unique_lock<std::mutex>& lock) {
  shard_[shard].turn.wait(lock, [&] { return at_ == shard; });
}

void ShardTurns::run_body(std::int64_t shard) {
  try {
    if (!error_) (*body_)(shard);
  } catch (...) {
    if (!error_) error_ = std::current_exception();
  }
  shard_[shard].ended = true;
}

void ShardTurns::be_thread(std::int64_t shard, int rank) {
  const ThreadRank identity(rank);
  name_thread("shards");
  std::unique_lock lock(mutex_);
  while (true) {
    shard_[shard].turn.wait(lock,
                            [&] { return leaves_ || (at_ == shard && !shard_[shard].ended); });
    if (leaves_) return;
    lock.unlock();
    {
      const nn::RandomSourceGuard source(random_);
      if (math_threads() != math_threads_) set_math_threads(math_threads_);
      const PrecisionGuard precision(precision_);
      run_body(shard);
    }
    lock.lock();
    pass_on();
  }
}

void ShardTurns::run(const std::function<void(std::int64_t)>& body) {
  if (body_) throw Error("for_each_shard() was called from inside for_each_shard()");
  random_ = nn::RandomSource::of_this_thread();
  math_threads_ = math_threads();
  precision_ = product_precision();
  for (std::int64_t shard = 1; shard < shards_; ++shard) {
    if (shard_[shard].thread.joinable()) continue;
    shard_[shard].thread = std::thread(&ShardTurns::be_thread, this, shard, thread_rank());
  }
  std::unique_lock lock(mutex_);
  body_ = &body;
  for (std::int64_t shard = 0; shard < shards_; ++shard) shard_[shard].ended = false;
  lock.unlock();
  run_body(0);
  lock.lock();
  pass_on();
  wait_for_turn(0, lock);  // all have ended: none can have met the others without the first
  body_ = nullptr;
  if (std::exception_ptr error = std::exchange(error_, nullptr)) std::rethrow_exception(error);
}

std::int64_t ShardTurns::at() const {
  if (is_running()) return at_;
  throw Error(
      "SyncBatchNorm over the shards of a batch (DdpOptions::shards) needs all of a rank's shards: "
      "run forward and backward within DistributedDataParallel::for_each_shard()");
}

std::int64_t ShardTurns::comes() const {
  const std::int64_t shard = at();
  expect_no_failure();
  if (shard_[0].ended && shards_ > 1) refuse_ended();
  return shard;
}

void ShardTurns::meet(const std::function<void()>& all_came) {
  if (shards_ == 1) {
    all_came();
    return;
  }
  const std::int64_t shard = comes();
  {
    const TraceScope scope("shards", "other shards");
    const auto start = Clock::now();
    std::unique_lock lock(mutex_);
    pass_on();
    wait_for_turn(shard, lock);
    shard_[shard].stood += seconds_since(start);
  }
  expect_no_failure();
  if (shard > 0) return;
  if (ended() > 0) refuse_ended();
  all_came();
}

}  // namespace lockstep
