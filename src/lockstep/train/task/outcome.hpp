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

/// What a model is worth on a data set.
struct Evaluation {
  double loss = 0;  ///< mean over the samples
  NamedFigures metrics;
};

/// What a communication hook made of the gradients' bytes.
struct HookReport {
  std::string name;
  HookTraffic bytes;  ///< of each rank
};

/// How a run ended.
struct Outcome {
  std::int64_t epochs = 0;  ///< finished
  std::int64_t steps = 0;
  /// Of the last finished epoch; NaN before that.
  double train_loss = std::numeric_limits<double>::quiet_NaN();
  /// The last evaluation of each set; none where there was none.
  std::optional<Evaluation> validation, test;
  bool early_stopping = false;  ///< ended by train.early_stop_patience: it is complete
  double samples_per_s = 0;     ///< over all training steps of this process, evaluation left out
  /// From the start of the process to the end of its first step; NaN before that.
  double first_step_s = std::numeric_limits<double>::quiet_NaN();
  std::optional<HookReport> comm_hook;  ///< over all steps of this process; not for all_reduce
  std::optional<std::filesystem::path> checkpoint;  ///< the newest, saved or gone on from; rank 0's
  std::optional<std::filesystem::path> trace;       ///< with train.trace, where it was written
  StopReason stopped = StopReason::none;            ///< why it ended before its last step
  std::vector<StepTimes> times;  ///< by rank, over this process's training steps but the first
};

}  // namespace lockstep::train
