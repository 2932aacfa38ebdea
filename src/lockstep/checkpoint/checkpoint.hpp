#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/checkpoint/signature.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

class DeckTable;

/// Progress of a training: everything besides weights and optimizer slots that the next step
/// depends on. Random numbers are counter-based, so the seed is their whole state.
struct TrainState {
  std::int64_t step = 0;      ///< optimizer updates done
  std::int64_t epoch = 0;     ///< epochs finished
  std::int64_t position = 0;  ///< updates done in the unfinished epoch
  std::int64_t seed = 0;
  /// Running totals of the unfinished epoch ("loss.0" for rank 0), kept bit for bit, and other
  /// numbers that a resumed run needs: see docs/reference/checkpoint_format.md.
  std::vector<std::pair<std::string, double>> sums;
  std::vector<std::pair<std::string, std::int64_t>> counts;
  /// Evaluation of this very state ("loss", "accuracy"); empty if there was none.
  std::vector<std::pair<std::string, double>> metrics = {};
  friend bool operator==(const TrainState&, const TrainState&) = default;
};

/// Contents of a checkpoint. Model and optimizer may be replicated or sharded over the ranks (see
/// their placements); train, deck and metadata are rank 0's.
struct CheckpointContents {
  StateDict model;      ///< by PyTorch's names: "conv1.weight"
  StateDict optimizer;  ///< "<parameter>/<slot>": "conv1.weight/momentum_buffer"
  TrainState train;
  std::string deck;  ///< the resolved deck, TOML
  /// Origin. The writer adds Lockstep's version and build, CPU, host and world size to the caller's
  /// entries (versions of the math libraries and of MPI).
  std::vector<std::pair<std::string, std::string>> metadata;
  ModelSignature signature = {};  ///< inputs and outputs of the model; unknown: not written
};

/// How tensors are stored in a file. Deflate makes replicated tensors smaller and takes CPU time;
/// sharded tensors are stored uncompressed.
enum class Compression : std::uint8_t { none, deflate };

/// When to save, and which files to keep.
struct CheckpointOptions {
  std::int64_t every_steps = 0;   ///< save after each so many updates; 0: not by steps
  std::int64_t every_epochs = 1;  ///< save after each so many epochs; 0: not by epochs
  double every_minutes = 0;       ///< save after so many minutes without a save; 0: not by time
  std::int64_t keep = 3;          ///< number of newest files kept; 0: all
  std::int64_t keep_every =
      0;             ///< files of steps that are multiples of this are kept as well; 0: none
  std::string best;  ///< metric by which the best file is kept as well; empty: none
  /// Direction in which that metric improves. automatic: the trainer's knowledge of the metric, or
  /// max without a trainer.
  enum class Direction : std::uint8_t { automatic, max, min } best_direction = Direction::automatic;
  bool async = true;  ///< write in the background where MPI allows it
  /// Action at a step where a save is due while the previous one is in progress.
  enum class Busy : std::uint8_t { wait, skip } busy = Busy::wait;
  Compression compression = Compression::none;
  std::int64_t local_steps = 0;  ///< copy to the node's memory after each so many steps; 0: none
  std::string local_dir = "/dev/shm";  ///< folder of these copies on each node
};

void declare(DeckTable& table, CheckpointOptions& options);

/// True if a checkpoint is due after `train.step`; `train.position` is 0 at the end of an epoch.
[[nodiscard]] bool checkpoint_is_due(const CheckpointOptions& options, const TrainState& train);

}  // namespace lockstep
