#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/base/log.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/train/task/value_loss.hpp>

namespace lockstep::train {

/// [run]: where results go, what of the machine a rank uses, and for how long.
struct RunOptions {
  std::string dir;                  ///< run folder; empty: `runs/<name of the deck>`
  std::int64_t threads = 0;         ///< math threads a rank; 0: the cores the rank owns
  double max_minutes = 0;           ///< since the process's start; 0: no limit
  double stop_before_limit_s = 60;  ///< before Slurm's time limit; 0: Slurm is not asked
  std::string device = "auto";      ///< what ranks compute on: see choose_device
  std::int64_t device_memory = 0;   ///< bytes that a rank takes of its device at most; 0: all
  bool device_sharing = false;      ///< several ranks may compute on one device
  ImageLayout layout = ImageLayout::automatic;
};
void declare(DeckTable& table, RunOptions& options);

/// [log]: how much is said, and how often.
struct LogOptions {
  LogLevel level = LogLevel::info;
  std::int64_t every_steps = 50;  ///< steps between two "step" lines
};
void declare(DeckTable& table, LogOptions& options);

/// [train]: the loop. Batch, step and epoch are defined in docs/guide/running.md.
struct TrainOptions {
  enum class OnNan : std::uint8_t { stop, ignore };
  std::int64_t epochs = 10;
  std::int64_t batch_size = 128;  ///< samples of one step over all ranks
  std::int64_t accumulate = 1;    ///< parts in which a rank computes its samples of a step
  /// What the order of sums depends on: fast, on the number of ranks; invariant, on shards alone.
  enum class Reduction : std::uint8_t { fast, invariant } reduction = Reduction::fast;
  std::int64_t shards = 8;  ///< of a batch, with reduction invariant
  bool drop_last = false;   ///< leave out the last, smaller batch of an epoch
  std::string init_from;    ///< weights to begin with: a file, or a run folder; empty: none
  Precision precision =
      Precision::f32;  ///< of products and convolutions (docs/guide/mixed_precision.md)
  /// fp16: see GradScaler.
  double loss_scale = 65536;
  std::int64_t loss_scale_growth_steps = 2000;
  std::uint64_t seed = 1234;  ///< of initialisation, shuffling and dropout
  OnNan on_nan = OnNan::stop;
  bool trace = false;                     ///< write trace/trace.json (docs/guide/trace.md)
  std::int64_t check_replicas_every = 0;  ///< steps; 0: never
  /// See EarlyStopping.
  std::int64_t early_stop_patience = 0;
  double early_stop_min_delta = 0;
  std::string early_stop_metric = "loss";  ///< of the evaluation
};
void declare(DeckTable& table, TrainOptions& options);

/// [loss]: what a model is trained by. Of classes (classify): PyTorch's options of
/// CrossEntropyLoss; of values (regress): which loss, with PyTorch's numbers. docs/guide/models.md
/// says what they do.
struct LossDeckOptions {
  double label_smoothing = 0.0;
  std::vector<double> class_weights;  ///< one a class; empty: 1
  /// class_weights of N / (C n), where n of the N training samples are of that class (one of C).
  bool class_weights_from_counts = false;
  LossKind kind;  ///< of values
};
void declare(DeckTable& table, LossDeckOptions& options);

/// [averaging]: weights averaged over steps, by which a run is judged, and which its checkpoints
/// give to those who use the model (optim::AveragedModel).
struct AveragingOptions {
  enum class Kind : std::uint8_t { none, ema, swa };
  Kind kind = Kind::none;
  double decay = 0.999;          ///< ema
  std::int64_t start_epoch = 0;  ///< epochs before the first update
  std::int64_t every_steps = 0;  ///< between two updates; 0: one at the end of each epoch
  bool update_bn = false;        ///< optim::update_bn at the end of each epoch
};
void declare(DeckTable& table, AveragingOptions& options);

/// [eval]: measuring on the validation or test set after each epoch.
struct EvalOptions {
  std::int64_t batch_size = 128;  ///< of a rank; more is no faster, and takes memory
  std::int64_t top_k = 0;         ///< classify: also the share of samples among whose k best; 0: no
};
void declare(DeckTable& table, EvalOptions& options);

}  // namespace lockstep::train
