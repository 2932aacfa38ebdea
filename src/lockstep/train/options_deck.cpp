#include <lockstep/train/options.hpp>

namespace lockstep::train {

void declare(DeckTable& table, RunOptions& options) {
  table.key("dir", options.dir, {.doc = "run folder; empty: runs/<name of the deck>"});
  table.key("threads", options.threads,
            {.doc = "math threads a rank; 0: the cores the rank owns", .min = 0, .max = 1024});
  table.key("max_minutes", options.max_minutes,
            {.doc = "wall time after which the run saves and stops with exit code 75; 0: no limit",
             .min = 0.0,
             .max = 1e7});
  table.key("stop_after_epochs", options.stop_after_epochs,
            {.doc = "number of finished epochs, earlier starts included, after which the run saves "
                    "and stops with exit code 75; 0: no limit",
             .min = 0,
             .max = 1e9});
  table.key(
      "stop_after_steps", options.stop_after_steps,
      {.doc = "number of steps, earlier starts included, after which the run evaluates, saves "
              "and stops with exit code 75; 0: no limit",
       .min = 0});
  table.key(
      "stop_before_limit_s", options.stop_before_limit_s,
      {.doc = "Slurm only: save and stop this many seconds before the job's time limit; 0: do not",
       .min = 0.0,
       .max = 1e6});
  table.key(
      "device", options.device,
      {.doc = "\"cpu\", \"cuda\", \"cuda:1\" or \"sim\", a simulated GPU; \"auto\": \"cuda\" if "
              "each rank of a machine can have a GPU of its own, else \"cpu\"; each rank of "
              "a machine takes the next device of the kind"});
  table.key("device_memory", options.device_memory,
            {.doc = "largest device memory of a rank, its cache included; 0: all",
             .unit = "bytes",
             .min = 0});
  table.key("device_sharing", options.device_sharing,
            {.doc = "allow several ranks of a machine to share a device"});
  table.key("tf32", options.tf32,
            {.doc = "GPUs only: TF32 units multiply f32 matrices and images, which rounds operands "
                    "to 10 bits of a fraction"});
  table.key(
      "graphs", options.graphs,
      {.doc = "devices only: a step is captured once and replayed (CUDA graphs), with the same "
              "bits; where it cannot be, the log says why"});
  table.choice("layout", options.layout,
               {{"auto", ImageLayout::automatic}, {"plain", ImageLayout::plain}},
               "layout of images between layers: the fastest, or \"plain\": row-major, with the "
               "bits of a simulated device");
}

void declare(DeckTable& table, LogOptions& options) {
  table.choice("level", options.level,
               {{"error", LogLevel::error},
                {"warn", LogLevel::warning},
                {"info", LogLevel::info},
                {"debug", LogLevel::debug}},
               "lowest level that is printed and written to log.txt");
  table.key("every_steps", options.every_steps, {.doc = "steps between two step lines", .min = 1});
  table.key("tensorboard", options.tensorboard,
            {.doc = "write metrics and the deck to tensorboard/, for TensorBoard"});
  table.key("histogram_every_steps", options.histogram_every_steps,
            {.doc = "log.tensorboard only: steps between histograms of gradients and parameters; "
                    "0: none",
             .min = 0});
  table.key("prometheus", options.prometheus,
            {.doc = "keep the newest figures in metrics.prom, for Prometheus' node_exporter"});
  table.key("ranks", options.ranks, {.doc = "write one log a rank to logs/"});
}

void declare(DeckTable& table, TrainOptions& options) {
  using OnNan = TrainOptions::OnNan;
  using Reduction = TrainOptions::Reduction;
  table.key("epochs", options.epochs,
            {.doc = "passes over the training set", .min = 1, .max = 1e9});
  table.key("batch_size", options.batch_size,
            {.doc = "samples of one step over all ranks (the global batch)", .min = 1});
  table.key("accumulate", options.accumulate,
            {.doc = "gradient accumulation: parts of a rank's samples, computed one after the "
                    "other; less memory, the same mean",
             .min = 1,
             .max = 65536});
  table.choice("reduction", options.reduction,
               {{"fast", Reduction::fast}, {"invariant", Reduction::invariant}},
               "order of sums over samples: the fastest, or the same on any number of ranks");
  table.key(
      "shards", options.shards,
      {.doc =
           "reduction = \"invariant\" only: parts of each batch; a multiple of the number of ranks",
       .min = 1,
       .max = 65536});
  table.key(
      "zero", options.zero,
      {.doc = "state that ranks share out (ZeRO): 1: optimizer state, 2: also gradients, 3: also "
              "parameters, 0: nothing; the results are the same",
       .min = 0,
       .max = 3});
  table.key("drop_last", options.drop_last,
            {.doc = "leave out the last, smaller batch of an epoch"});
  table.key("init_from", options.init_from,
            {.doc = "initial weights: a checkpoint, run folder, safetensors or HDF5 file, matched "
                    "by name and shape; empty: random"});
  auto seed = static_cast<std::int64_t>(options.seed);
  table.choice("precision", options.precision,
               {{"f32", Precision::f32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
               "precision of products and convolutions, and of their results where "
               "mixed_precision.md says so; weights, their gradients and sums stay f32; fp16 adds "
               "dynamic loss scaling");
  table.key("loss_scale", options.loss_scale,
            {.doc = "fp16 only: initial loss scale", .min = 1e-37, .max = 1e38});
  table.key("loss_scale_growth_steps", options.loss_scale_growth_steps,
            {.doc = "fp16 only: finite steps before the loss scale doubles; a step that is not "
                    "finite is skipped and halves it",
             .min = 1});
  table.key("seed", seed, {.doc = "seed of initialisation, shuffling and dropout", .min = 0});
  options.seed = static_cast<std::uint64_t>(seed);
  table.choice("on_nan", options.on_nan, {{"stop", OnNan::stop}, {"ignore", OnNan::ignore}},
               "action when a loss, or a state to be saved, is not finite");
  table.key("trace", options.trace,
            {.doc = "write trace/trace.json, a timeline of all ranks and threads for Perfetto"});
  table.key("check_replicas_every", options.check_replicas_every,
            {.doc = "steps between comparisons of parameters and optimizer state over the ranks, "
                    "also before checkpoints; 0: none",
             .min = 0});
  table.key("early_stop_patience", options.early_stop_patience,
            {.doc = "early stopping: epochs in a row without improvement; 0: off",
             .unit = "epochs",
             .min = 0});
  table.key("early_stop_min_delta", options.early_stop_min_delta,
            {.doc = "smallest change that counts as an improvement", .min = 0.0});
  table.key("early_stop_metric", options.early_stop_metric,
            {.doc = "figure that decides: \"loss\" or a metric; losses and errors are minimised, "
                    "others maximised"});
}

void declare(DeckTable& table, LossDeckOptions& options) {
  table.key("label_smoothing", options.label_smoothing,
            {.doc = "classify only: share of each target that is spread over all classes",
             .min = 0.0,
             .max = 0.99});
  table.key("class_weights", options.class_weights,
            {.doc = "classify only: weight of each class in the loss; empty: 1",
             .min = 0.0,
             .above_min = true});
  table.key(
      "class_weights_from_counts", options.class_weights_from_counts,
      {.doc = "classify only: class_weights are N / (C n), for n of N samples in one of the C "
              "classes that occur: all weigh the same"});
  declare_kind(
      table, options.kind,
      "regress only: loss of the errors; with gaussian_nll the model predicts mean and variance");
}

void declare(DeckTable& table, MeshOptions& options) {
  table.key("pp", options.pp,
            {.doc = "pipeline parallel: ranks that share out the model's layers; see [pipeline]",
             .min = -1,
             .max = 1e9});
  table.key("dp", options.dp,
            {.doc = "data parallel: parts of a batch; -1: the ranks that the others leave",
             .min = -1,
             .max = 1e9});
  table.key("fsdp", options.fsdp,
            {.doc = "data parallel, too: train.zero = 2 and 3 share out over these ranks, and "
                    "mesh.dp counts the copies; 1: over mesh.dp",
             .min = -1,
             .max = 1e9});
  table.key(
      "cp", options.cp,
      {.doc = "context parallel: ranks that share out each sequence; gpt", .min = -1, .max = 1e9});
  table.key(
      "tp", options.tp,
      {.doc = "tensor parallel: ranks that share out the model's tensors; gpt, transformer and mlp",
       .min = -1,
       .max = 1e9});
}

void declare(DeckTable& table, PipelineDeckOptions& options) {
  using Schedule = PipelineDeckOptions::Schedule;
  table.choice(
      "schedule", options.schedule,
      {{"gpipe", Schedule::gpipe},
       {"1f1b", Schedule::one_f_one_b},
       {"interleaved_1f1b", Schedule::interleaved_1f1b},
       {"zero_bubble_h1", Schedule::zero_bubble_h1}},
      "with mesh.pp: the order of forward and backward of the micro-batches; the gradients "
      "are the same");
  table.key("microbatches", options.microbatches,
            {.doc = "with mesh.pp: parts in which a batch passes through the stages; with more "
                    "parts, ranks idle less; 0: four times mesh.pp",
             .min = 0,
             .max = 1e6});
  table.key("stages_per_rank", options.stages_per_rank,
            {.doc = "interleaved_1f1b only: stages of each rank", .min = 1, .max = 1e3});
}

void declare(DeckTable& table, AveragingOptions& options) {
  using Kind = AveragingOptions::Kind;
  table.choice("kind", options.kind, {{"none", Kind::none}, {"ema", Kind::ema}, {"swa", Kind::swa}},
               "exponential moving average, or the mean of all updates (SWA); evaluation, "
               "prediction and export use it");
  if (options.kind == Kind::ema) options.every_steps = 1;
  if (options.kind == Kind::swa) options.update_bn = true;
  table.key(
      "decay", options.decay,
      {.doc = "ema only: share of the average that an update keeps", .min = 0.0, .max = 0.999999});
  table.key("start_epoch", options.start_epoch,
            {.doc = "epochs before the first update of the average", .unit = "epochs", .min = 0});
  table.key("every_steps", options.every_steps,
            {.doc = "steps between updates; 0: one at the end of each epoch; default with ema: 1",
             .min = 0});
  table.key("update_bn", options.update_bn,
            {.doc = "recompute BatchNorm's statistics for the averaged weights, in one more pass "
                    "over the data; default with swa: true"});
}

void declare(DeckTable& table, EvalOptions& options) {
  table.key("batch_size", options.batch_size,
            {.doc = "samples a rank evaluates at a time", .min = 1});
  table.key("top_k", options.top_k,
            {.doc = "classify only: report top<k>_accuracy too, for this k; 0: do not", .min = 0});
}

}  // namespace lockstep::train
