#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// Loads one rank's batches in a background thread, a few steps ahead, into a ring of buffers that
/// is allocated once: after that an epoch allocates nothing.
///
///   Loader loader(dataset, std::make_unique<TrainBatches>(plan, rank, seed));
///   for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
///     loader.start_epoch(epoch);
///     while (loader.has_next()) train(loader.next());
///   }
///
/// All members are for one thread. Destroying a loader, or starting another epoch, in the middle of
/// an epoch is safe: it waits for the one batch being loaded, at most.
class Loader {
 public:
  /// `prefetch` buffers, at least 1; with 1 nothing is loaded ahead. Throws InputError for fewer.
  /// `transforms` are applied to every batch, in their order, by the thread that loads it. Batches
  /// are on `device`: loaded into pinned memory, and copied from there ahead of next() on a stream
  /// of the loader's own, for which the calling thread's current stream waits, and not the host.
  Loader(std::shared_ptr<const Dataset> dataset, std::unique_ptr<BatchSource> batches,
         std::int64_t prefetch = 2, BatchTransforms transforms = {}, Device device = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins `epoch` at `first_step` in [0, steps()]: later than 0 to resume in its middle. Drops
  /// what was loaded of another epoch, and a failure with it. Throws Error for a step outside.
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  [[nodiscard]] std::int64_t steps() const noexcept;
  [[nodiscard]] bool has_next() const noexcept;
  /// The step whose batch next() will return.
  [[nodiscard]] std::int64_t next_step() const noexcept;

  /// The next step's batch, perhaps of 0 samples; valid until the next call of next() or
  /// start_epoch(). Throws what the loading thread met, with epoch and step before it and the same
  /// exit code, once the batches before it have been returned; Error at the end of an epoch.
  [[nodiscard]] const Batch& next();

  /// Seconds that next() has waited for data since construction: what loading costs the caller.
  [[nodiscard]] double seconds_waited() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
