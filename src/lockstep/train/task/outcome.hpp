#pragma once
#include <cstdint>
#include <filesystem>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/run/stop_request.hpp>

namespace lockstep::train {

/// Names and values of a task's metrics, in the task's order.
using NamedFigures = std::vector<std::pair<std::string, double>>;

/// Results of a model on a data set.
struct Evaluation {
  double loss = 0;  ///< mean over the samples
  NamedFigures metrics;
};

/// How much a communication hook reduced the gradients' bytes.
struct HookReport {
  std::string name;
  HookTraffic bytes;  ///< of each rank
};

/// Result of a run.
struct Outcome {
  std::int64_t epochs = 0;  ///< number of finished epochs
  std::int64_t steps = 0;
  /// Over the last finished epoch; NaN before that.
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  /// The last evaluation of each set; none without one.
  std::optional<Evaluation> validation, test;
  bool early_stopping = false;  ///< ended by train.early_stop_patience: the run is complete
  double samples_per_s = 0;     ///< over all training steps of this process, without evaluation
  /// From the start of the process to the end of its first step; NaN before that.
  double first_step_s = std::numeric_limits<double>::quiet_NaN();
  std::optional<HookReport> comm_hook;  ///< over all steps of this process; not for all_reduce
  std::optional<std::filesystem::path>
      checkpoint;  ///< the newest checkpoint, saved or resumed from; rank 0's
  std::optional<std::filesystem::path> trace;  ///< path of the trace, with train.trace
  StopReason stopped = StopReason::none;       ///< reason to end before its last step
  std::vector<StepTimes> times;  ///< by rank, over this process's training steps except the first
};

}  // namespace lockstep::train
