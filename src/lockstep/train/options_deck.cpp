#include <lockstep/train/options.hpp>

namespace lockstep::train {

void declare(DeckTable& table, RunOptions& options) {
  table.key("dir", options.dir, {.doc = "run folder; empty: runs/<name of the deck>"});
  table.key("threads", options.threads,
            {.doc = "math threads a rank; 0: the cores the rank owns", .min = 0, .max = 1024});
  table.key(
      "max_minutes", options.max_minutes,
      {.doc = "minutes after its start at which the run saves and stops (exit code 75), before "
              "a step that would end later; 0: no limit",
       .min = 0.0,
       .max = 1e7});
  table.key("stop_before_limit_s", options.stop_before_limit_s,
            {.doc = "under Slurm: seconds before the job's time limit at which the run saves and "
                    "stops, likewise; 0: Slurm is not asked",
             .min = 0.0,
             .max = 1e6});
  table.key(
      "device", options.device,
      {.doc = "what a rank computes on: \"cpu\", \"cuda\", \"sim\" (a simulated GPU, to debug "
              "with), each rank of a machine the next device of that kind, or \"cuda:1\"; "
              "\"auto\": \"cpu\""});
  table.key("device_memory", options.device_memory,
            {.doc = "most of its device's memory that a rank takes, what is kept for reuse "
                    "included; 0: all there is",
             .unit = "bytes",
             .min = 0});
  table.key("device_sharing", options.device_sharing,
            {.doc = "let several ranks of a machine compute on one device, in turns"});
  table.choice("layout", options.layout,
               {{"auto", ImageLayout::automatic}, {"plain", ImageLayout::plain}},
               "how layers hold images between them: the fastest way, or \"plain\", row-major and "
               "layer by layer as on a device, with the bits of a simulated one");
}

void declare(DeckTable& table, LogOptions& options) {
  table.choice("level", options.level,
               {{"error", LogLevel::error},
                {"warn", LogLevel::warning},
                {"info", LogLevel::info},
                {"debug", LogLevel::debug}},
               "least level that is shown and written to log.txt");
  table.key("every_steps", options.every_steps, {.doc = "steps between two step lines", .min = 1});
}

void declare(DeckTable& table, TrainOptions& options) {
  using OnNan = TrainOptions::OnNan;
  using Reduction = TrainOptions::Reduction;
  table.key("epochs", options.epochs,
            {.doc = "passes over the training set", .min = 1, .max = 1e9});
  table.key("batch_size", options.batch_size,
            {.doc = "samples of one step over all ranks (the global batch)", .min = 1});
  table.key(
      "accumulate", options.accumulate,
      {.doc = "parts in which a rank computes its samples of a step, one after the other: less "
              "memory, the same mean",
       .min = 1,
       .max = 65536});
  table.choice("reduction", options.reduction,
               {{"fast", Reduction::fast}, {"invariant", Reduction::invariant}},
               "order of sums over samples: the fastest, or the same on any number of ranks");
  table.key("shards", options.shards,
            {.doc = "parts of each batch that are summed in a fixed order, with reduction = "
                    "\"invariant\"; a multiple of the number of ranks",
             .min = 1,
             .max = 65536});
  table.key("drop_last", options.drop_last,
            {.doc = "leave out the last, smaller batch of an epoch"});
  table.key("init_from", options.init_from,
            {.doc = "begin with the weights of a checkpoint, a run folder's newest, a safetensors "
                    "or any HDF5 file, taken by name where shapes agree; empty: with new ones"});
  auto seed = static_cast<std::int64_t>(options.seed);
  table.choice(
      "precision", options.precision,
      {{"f32", Precision::f32}, {"bf16", Precision::bf16}, {"fp16", Precision::fp16}},
      "what the operands of matrix products and convolutions are rounded to; weights, "
      "activations and gradients are f32 in any case; fp16 with a loss scale that finds itself");
  table.key("loss_scale", options.loss_scale,
            {.doc = "fp16: what the first loss is multiplied by, so that small gradients do not "
                    "vanish",
             .min = 1e-37,
             .max = 1e38});
  table.key("loss_scale_growth_steps", options.loss_scale_growth_steps,
            {.doc = "fp16: steps with finite gradients after which the scale is doubled; a step "
                    "whose gradients are not is left out and halves it",
             .min = 1});
  table.key("seed", seed, {.doc = "seed of initialisation, shuffling and dropout", .min = 0});
  options.seed = static_cast<std::uint64_t>(seed);
  table.choice("on_nan", options.on_nan, {{"stop", OnNan::stop}, {"ignore", OnNan::ignore}},
               "what to do when a loss, or a state to be saved, is not finite");
  table.key("trace", options.trace,
            {.doc = "write trace/trace.json, for Perfetto: what every rank and thread did when"});
  table.key("check_replicas_every", options.check_replicas_every,
            {.doc = "steps between two comparisons of the ranks' parameters and optimizer state, "
                    "with one more before each checkpoint; 0: none",
             .min = 0});
  table.key("early_stop_patience", options.early_stop_patience,
            {.doc = "end the training once so many epochs in a row were not better than the best "
                    "one; 0: train all epochs",
             .unit = "epochs",
             .min = 0});
  table.key("early_stop_min_delta", options.early_stop_min_delta,
            {.doc = "better is by more than that", .min = 0.0});
  table.key(
      "early_stop_metric", options.early_stop_metric,
      {.doc = "figure of the evaluation that decides: \"loss\" or a metric; the least loss or "
              "error is the best, the greatest of others"});
}

void declare(DeckTable& table, LossDeckOptions& options) {
  table.key("label_smoothing", options.label_smoothing,
            {.doc = "classify: share of each target that is spread evenly over all classes",
             .min = 0.0,
             .max = 0.99});
  table.key("class_weights", options.class_weights,
            {.doc = "classify: factor of the loss of each class's samples, one a class; empty: 1",
             .min = 0.0,
             .above_min = true});
  table.key("class_weights_from_counts", options.class_weights_from_counts,
            {.doc = "classify: class_weights are N / (C n), n of the N training samples being of "
                    "that one of C classes, so that all classes weigh the same"});
  declare_kind(table, options.kind,
               "regress: of the errors the squares, the sizes, or something between; or the model "
               "tells how sure it is, a mean and a variance, by their likelihood (gaussian_nll)");
}

void declare(DeckTable& table, AveragingOptions& options) {
  using Kind = AveragingOptions::Kind;
  table.choice("kind", options.kind, {{"none", Kind::none}, {"ema", Kind::ema}, {"swa", Kind::swa}},
               "exponential moving average, or the mean of all updates (stochastic weight "
               "averaging); evaluations, predictions and exports use it");
  if (options.kind == Kind::ema) options.every_steps = 1;
  if (options.kind == Kind::swa) options.update_bn = true;
  table.key("decay", options.decay,
            {.doc = "ema: how much of the average an update keeps", .min = 0.0, .max = 0.999999});
  table.key("start_epoch", options.start_epoch,
            {.doc = "epochs that are trained before the first update", .unit = "epochs", .min = 0});
  table.key("every_steps", options.every_steps,
            {.doc = "steps between two updates; 0: one at the end of each epoch; ema: 1 if not "
                    "given",
             .min = 0});
  table.key("update_bn", options.update_bn,
            {.doc = "after each epoch, make BatchNorm's running statistics anew for the averaged "
                    "weights: one more pass over the training set; swa: true if not given"});
}

void declare(DeckTable& table, EvalOptions& options) {
  table.key("batch_size", options.batch_size,
            {.doc = "samples that a rank evaluates at a time", .min = 1});
  table.key("top_k", options.top_k,
            {.doc = "classify: report top<k>_accuracy too, the share of samples whose class is "
                    "among the k that the model finds likeliest; 0: do not",
             .min = 0});
}

}  // namespace lockstep::train
