#pragma once
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/data/data_options.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/models.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule_kind.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class Deck;
}

namespace lockstep::train {

/// All options of a run that are not its task's: every program reads them.
struct RunPlan {
  RunOptions run;
  LogOptions log;
  TrainOptions train;
  EvalOptions eval;
  AveragingOptions averaging;
  optim::OptimizerOptions optimizer;
  optim::ScheduleOptions schedule;
  DdpOptions ddp;
  CheckpointOptions checkpoint;
  GroupOptions group;  ///< of all ranks: [comm] and [flight]
};

/// All options of the tasks of the bundled applications. A task of one's own reads what it likes.
struct TaskOptions {
  nn::ModelOptions model;
  DataOptions data;
  LossDeckOptions loss;
};

/// Read their tables from a deck. Throw InputError.
[[nodiscard]] RunPlan read_run_plan(Deck& deck);
[[nodiscard]] TaskOptions read_task_options(Deck& deck);

/// Every table and key that a deck of the bundled applications may have. Its Markdown is
/// docs/deck_reference.md, as a test sees.
[[nodiscard]] DeckReference deck_reference();

}  // namespace lockstep::train
