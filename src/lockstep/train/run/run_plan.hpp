#pragma once
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/comm/group_options.hpp>
#include <lockstep/optim/optimizer_options.hpp>
#include <lockstep/optim/schedule_kind.hpp>
#include <lockstep/parallel/ddp_options.hpp>
#include <lockstep/tensor/device.hpp>
#include <lockstep/train/options.hpp>

namespace lockstep {
class Deck;
class DeckReference;
}  // namespace lockstep

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
  Device device;       ///< of this rank's model: what choose_device() made of run.device
};

/// Reads their tables from a deck. Throws InputError.
[[nodiscard]] RunPlan read_run_plan(Deck& deck);

/// Every table and key that a deck of the bundled applications may have. Its Markdown is
/// docs/reference/decks.md, as a test sees.
[[nodiscard]] DeckReference deck_reference();

}  // namespace lockstep::train
