#pragma once
#include <cstdint>
#include <optional>

#include <lockstep/base/pooled_list.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout.hpp>

namespace lockstep {
class DeviceGraph;
}

namespace lockstep::nn {

/// Starts the random sequence from which this thread initialises parameters, numbers its dropout
/// layers and draws their masks. Two models built after the same manual_seed are equal, on every
/// rank, and a loop repeated after it draws the same masks.
void manual_seed(std::uint64_t seed);

/// The draws of one training step as a function of the run's seed, the step, and the position in
/// the global batch of the first row that this rank computes.
struct RandomContext {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;
  std::int64_t first_sample = 0;
};

/// While it lives, layers that draw random numbers in forward (dropout) derive them on this thread
/// from the context: a sample's numbers do not depend on the rank that computes it, nor on when the
/// step is computed (train::Trainer makes one in each step). A layer that is called again under the
/// same guard draws new numbers, independent of other threads' calls; under the next guard with an
/// equal context all draws repeat.
/// Draws in a DeviceGraph's capture take the step of each replay: of the guard around replay(), of
/// the captured guard's seed; without a guard, the next draws of the thread. The streams must live
/// as long as the graph.
/// Without a guard, every draw on a thread differs: a function of manual_seed, the rank
/// (base/rank.hpp) and the number of earlier draws; without manual_seed, also of the number of such
/// threads that drew before this one.
class RandomContextGuard {
 public:
  explicit RandomContextGuard(const RandomContext& context);
  ~RandomContextGuard();
  RandomContextGuard(const RandomContextGuard&) = delete;
  RandomContextGuard& operator=(const RandomContextGuard&) = delete;

 private:
  friend class RandomStream;
  struct Calls;
  /// How often the stream has drawn under this guard; this time counts for the next.
  std::uint64_t calls_of(std::uint64_t stream);

  RandomContext context_;
  Calls* calls_ = nullptr;
  RandomContextGuard* before_;
};

/// Records the keys drawn while a Recording lives, and repeats them, in order, while a Replay
/// lives: for recomputation. On one thread; the innermost counts.
class RandomTape {
 public:
  class Recording;
  class Replay;

 private:
  friend class RandomStream;
  [[nodiscard]] RandomKey play();
  void record(const RandomKey& key);

  using Keys = PooledList<RandomKey, 16>;
  Keys keys_;
  Keys::Iterator next_ = keys_.end();  ///< to be played
};

/// While it lives, the random numbers that are drawn are recorded on the tape.
class RandomTape::Recording {
 public:
  explicit Recording(RandomTape& tape) noexcept;
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

 private:
  RandomTape* before_;
};

/// While it lives, the random numbers of the recording are drawn again.
class RandomTape::Replay {
 public:
  explicit Replay(RandomTape& tape) noexcept;
  ~Replay();
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

 private:
  RandomTape *recording_before_, *before_;
};

/// The source of one layer's random numbers.
class RandomStream {
 public:
  /// The next one of this thread since manual_seed.
  RandomStream() noexcept;
  /// For a user of random numbers that is not a layer and has its own number.
  explicit RandomStream(std::uint32_t number) noexcept;
  /// The key of a draw that no other draw has, but in a repetition.
  [[nodiscard]] RandomKey next();
  /// From now on this draws the same numbers as every stream, of any rank or thread, that agrees
  /// on the same key: for layers whose masks must be equal on several ranks. `key` is one of
  /// next(), of one of them.
  void agree_on(const RandomKey& key) noexcept;

 private:
  [[nodiscard]] RandomKey draw();
  [[nodiscard]] RandomKey capture_draw(DeviceGraph& graph);

  std::uint32_t layer_;
  std::uint64_t number_;                      // tells streams apart, on all threads
  std::optional<std::uint64_t> agreed_seed_;  // of draws without a guard
  std::uint32_t agreed_draws_ = 0;
};

}  // namespace lockstep::nn
