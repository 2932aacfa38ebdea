#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/signature.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

class DeckTable;

/// Where a training stands: everything beside weights and optimizer slots that the next step
/// depends on. Random numbers are counter-based, so the seed is their whole state.
struct TrainState {
  std::int64_t step = 0;      ///< optimizer updates done
  std::int64_t epoch = 0;     ///< epochs finished
  std::int64_t position = 0;  ///< updates done of the unfinished epoch
  std::int64_t seed = 0;
  /// Running totals of the unfinished epoch ("loss.0" for rank 0), kept bit for bit, and whatever
  /// numbers else the run goes on from: see docs/reference/checkpoint_format.md.
  std::vector<std::pair<std::string, double>> sums;
  std::vector<std::pair<std::string, std::int64_t>> counts;
  /// Of the evaluation of this very state ("loss", "accuracy"); empty if there was none.
  std::vector<std::pair<std::string, double>> metrics = {};
  friend bool operator==(const TrainState&, const TrainState&) = default;
};

/// What a checkpoint holds. Model and optimizer may be replicated or sharded over the ranks (their
/// placements tell); train, deck and metadata are rank 0's.
struct CheckpointContents {
  StateDict model;      ///< by PyTorch's names: "conv1.weight"
  StateDict optimizer;  ///< "<parameter>/<slot>": "conv1.weight/momentum_buffer"
  TrainState train;
  std::string deck;  ///< the resolved deck, TOML
  /// Who wrote it. The writer adds Lockstep's version and build, CPU, host and world size to what
  /// the caller puts here (versions of the math libraries, of MPI).
  std::vector<std::pair<std::string, std::string>> metadata;
  ModelSignature signature = {};  ///< what goes in and comes out; unknown: not written
};

/// How tensors lie in a file. Deflated, what is the same on all ranks takes less room there and
/// more time of a core; what they hold in parts stays as it is.
enum class Compression : std::uint8_t { none, deflate };

/// When to save and what to keep.
struct CheckpointOptions {
  std::int64_t every_steps = 0;   ///< after each that many updates; 0: not by steps
  std::int64_t every_epochs = 1;  ///< after each that many epochs; 0: not by epochs
  double every_minutes = 0;       ///< after each that many minutes without a save; 0: not by time
  std::int64_t keep = 3;          ///< newest files kept; 0: all
  std::int64_t keep_every = 0;    ///< steps whose multiples' files are kept as well; 0: none
  std::string best;               ///< metric of which the best file is kept as well; empty: none
  /// Which of its values is the best; automatic is what the trainer knows of the metric, and max
  /// for who does not ask it.
  enum class Direction : std::uint8_t { automatic, max, min } best_direction = Direction::automatic;
  bool async = true;  ///< write while the training goes on, where MPI allows it
  /// What a step does at which a save is due while the one before is under way.
  enum class Busy : std::uint8_t { wait, skip } busy = Busy::wait;
  Compression compression = Compression::none;
  std::int64_t local_steps = 0;        ///< a copy in the node's memory after each; 0: none
  std::string local_dir = "/dev/shm";  ///< where; of each node
};

void declare(DeckTable& table, CheckpointOptions& options);

/// True if a checkpoint is due now that `train.step` is done; `train.position` is 0 at the end of
/// an epoch.
[[nodiscard]] bool checkpoint_is_due(const CheckpointOptions& options, const TrainState& train);

}  // namespace lockstep
