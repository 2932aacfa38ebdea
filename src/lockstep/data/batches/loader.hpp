#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/dataset.hpp>

namespace lockstep {

/// Loads one rank's batches in a background thread, a few steps ahead, into a ring of buffers. The
/// ring is allocated once; after that an epoch allocates nothing.
///
///   Loader loader(dataset, std::make_unique<TrainBatches>(plan, rank, seed));
///   for (std::int64_t epoch = 0; epoch < epochs; ++epoch) {
///     loader.start_epoch(epoch);
///     while (loader.has_next()) train(loader.next());
///   }
///
/// All members are for one thread. Destroying a loader or starting another epoch in the middle of
/// an epoch is safe: it waits for at most the one batch being loaded.
class Loader {
 public:
  /// `prefetch` buffers, at least 1; with 1 nothing is loaded ahead. Throws InputError for fewer.
  /// The loading thread applies `transforms` to every batch, in order. Batches are on `device`:
  /// they are loaded into pinned memory and copied ahead of next() on the loader's own stream. The
  /// calling thread's current stream waits for the copy; the host does not.
  Loader(std::shared_ptr<const Dataset> dataset, std::unique_ptr<BatchSource> batches,
         std::int64_t prefetch = 2, BatchTransforms transforms = {}, Device device = {});
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  /// Begins `epoch` at `first_step` in [0, steps()]; above 0 to resume within the epoch. Drops
  /// batches loaded for another epoch, and its failure. Throws Error for a step outside.
  void start_epoch(std::int64_t epoch, std::int64_t first_step = 0);

  [[nodiscard]] std::int64_t steps() const noexcept;
  [[nodiscard]] bool has_next() const noexcept;
  /// The step of the batch that next() returns next.
  [[nodiscard]] std::int64_t next_step() const noexcept;

  /// The next step's batch, which may have 0 samples; valid until the next call of next() or
  /// start_epoch(). After the earlier batches, throws an error of the loading thread with epoch and
  /// step in front and the same exit code; Error at the end of an epoch.
  [[nodiscard]] const Batch& next();

  /// Seconds that next() has waited for data since construction.
  [[nodiscard]] double seconds_waited() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
