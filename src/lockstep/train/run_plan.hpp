#pragma once
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/schedule.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class Deck;
}

namespace lockstep::train {

/// All options of a run that are not its task's.
struct RunPlan {
  RunOptions run;
  LogOptions log;
  TrainOptions train;
  EvalOptions eval;
  optim::OptimizerOptions optimizer;
  optim::ScheduleOptions schedule;
  DdpOptions ddp;
  CheckpointOptions checkpoint;
};

/// Reads the plan's tables from a deck. Throws InputError.
[[nodiscard]] RunPlan read_run_plan(Deck& deck);

/// Reads what the group of all ranks is made with. Throws InputError.
[[nodiscard]] GroupOptions read_group_options(Deck& deck);

/// Every table and key that a deck of the bundled applications may have, in Markdown:
/// docs/deck_reference.md, which a test compares with this.
[[nodiscard]] std::string deck_reference();

}  // namespace lockstep::train
