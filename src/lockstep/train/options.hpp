#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include <lockstep/base/log.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/precision.hpp>
#include <lockstep/train/task/value_loss.hpp>

namespace lockstep::train {

/// [run]: folder, use of the machine, and time limits.
struct RunOptions {
  std::string dir;                     ///< run folder; empty: `runs/<name of the deck>`
  std::int64_t threads = 0;            ///< math threads per rank; 0: the cores the rank owns
  double max_minutes = 0;              ///< minutes since the process's start; 0: no limit
  std::int64_t stop_after_epochs = 0;  ///< finished epochs, earlier starts included; 0: no limit
  std::int64_t stop_after_steps = 0;  ///< likewise; an evaluation follows in the middle of an epoch
  double stop_before_limit_s = 60;    ///< seconds before Slurm's time limit; 0: Slurm is not asked
  std::string device = "auto";        ///< device of the ranks: see choose_device
  std::int64_t device_memory = 0;     ///< limit of a rank's device memory in bytes; 0: all
  bool device_sharing = false;        ///< several ranks may compute on one device
  bool tf32 = false;                  ///< allow_tf32 (tensor/tf32.hpp)
  bool graphs = false;                ///< steps of a device are captured and replayed (StepGraph)
  ImageLayout layout = ImageLayout::automatic;
};
void declare(DeckTable& table, RunOptions& options);

/// [log]: level and frequency of messages, and files for other tools (docs/guide/outputs.md).
struct LogOptions {
  LogLevel level = LogLevel::info;
  std::int64_t every_steps = 50;  ///< steps between two "step" lines
  bool tensorboard = false;
  std::int64_t histogram_every_steps = 0;  ///< with tensorboard; 0: none
  bool prometheus = false;
  bool ranks = false;  ///< one log a rank
};
void declare(DeckTable& table, LogOptions& options);

/// [train]: the loop. Batch, step and epoch are defined in docs/guide/running.md.
struct TrainOptions {
  enum class OnNan : std::uint8_t { stop, ignore };
  std::int64_t epochs = 10;
  std::int64_t batch_size = 128;  ///< samples of one step over all ranks
  std::int64_t accumulate = 1;  ///< number of parts in which a rank computes its samples of a step
  /// Order of sums. fast: depends on the number of ranks; invariant: depends on shards alone.
  enum class Reduction : std::uint8_t { fast, invariant } reduction = Reduction::fast;
  std::int64_t shards = 8;  ///< parts of a batch, with reduction invariant
  std::int64_t zero = 0;    ///< ZeRO stage: state that ranks share out (train/strategy)
  bool drop_last = false;   ///< drop the last, smaller batch of an epoch
  std::string init_from;    ///< initial weights: a file, or a run folder; empty: none
  Precision precision =
      Precision::f32;  ///< operands of products and convolutions (docs/guide/mixed_precision.md)
  /// fp16: see GradScaler.
  double loss_scale = 65536;
  std::int64_t loss_scale_growth_steps = 2000;
  std::uint64_t seed = 1234;  ///< seed of initialisation, shuffling and dropout
  OnNan on_nan = OnNan::stop;
  bool trace = false;                     ///< write trace/trace.json (docs/guide/trace.md)
  std::int64_t check_replicas_every = 0;  ///< in steps; 0: never
  /// See EarlyStopping.
  std::int64_t early_stop_patience = 0;
  double early_stop_min_delta = 0;
  std::string early_stop_metric = "loss";  ///< a figure of the evaluation
};
void declare(DeckTable& table, TrainOptions& options);

/// [mesh]: how the ranks share out the batch and the model. One size may be -1: it takes the ranks
/// that the others leave.
struct MeshOptions {
  std::int64_t pp = 1;    ///< pipeline parallel: stages of layers
  std::int64_t dp = -1;   ///< data parallel: parts of a batch
  std::int64_t fsdp = 1;  ///< as dp; train.zero shares out over these ranks alone
  std::int64_t cp = 1;    ///< context parallel: parts of each sequence
  std::int64_t tp = 1;    ///< tensor parallel: parts of the model's tensors
};
void declare(DeckTable& table, MeshOptions& options);

/// [pipeline]: with mesh.pp, how micro-batches pass through the stages
/// (docs/guide/pipeline_parallel.md).
struct PipelineDeckOptions {
  enum class Schedule : std::uint8_t { gpipe, one_f_one_b, interleaved_1f1b, zero_bubble_h1 };
  Schedule schedule = Schedule::one_f_one_b;
  std::int64_t microbatches = 0;     ///< of a rank's share of a batch; 0: four times mesh.pp
  std::int64_t stages_per_rank = 2;  ///< with interleaved_1f1b
};
void declare(DeckTable& table, PipelineDeckOptions& options);

/// [loss]: the loss of the training. For classes (classify): the options of PyTorch's
/// CrossEntropyLoss. For values (regress): the kind of loss, with PyTorch's defaults. See
/// docs/guide/models.md.
struct LossDeckOptions {
  double label_smoothing = 0.0;
  std::vector<double> class_weights;  ///< one per class; empty: 1
  /// class_weights of N / (C n), where n of the N training samples are in that one of the C
  /// classes.
  bool class_weights_from_counts = false;
  LossKind kind;  ///< kind of a loss of values
};
void declare(DeckTable& table, LossDeckOptions& options);

/// [averaging]: weights averaged over steps. Evaluations use them, and so do users of a
/// checkpoint's model (optim::AveragedModel).
struct AveragingOptions {
  enum class Kind : std::uint8_t { none, ema, swa };
  Kind kind = Kind::none;
  double decay = 0.999;          ///< ema only
  std::int64_t start_epoch = 0;  ///< epochs before the first update
  std::int64_t every_steps = 0;  ///< steps between two updates; 0: one at the end of each epoch
  bool update_bn = false;        ///< run optim::update_bn at the end of each epoch
};
void declare(DeckTable& table, AveragingOptions& options);

/// [eval]: evaluation on the validation or test set after each epoch.
struct EvalOptions {
  std::int64_t batch_size = 128;  ///< per rank; larger is no faster, and takes memory
  std::int64_t top_k =
      0;  ///< classify: also the fraction of samples among whose k best is their class; 0: no
};
void declare(DeckTable& table, EvalOptions& options);

}  // namespace lockstep::train
