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

/// All options of a run apart from its task's: every program reads them.
struct RunPlan {
  RunOptions run;
  LogOptions log;
  TrainOptions train;
  EvalOptions eval;
  AveragingOptions averaging;
  optim::OptimizerOptions optimizer;
  optim::ScheduleOptions schedule;
  MeshOptions mesh;
  PipelineDeckOptions pipeline;
  DdpOptions ddp;
  CheckpointOptions checkpoint;
  GroupOptions group;  ///< for all ranks: [comm] and [flight]
  Device device;       ///< device of this rank's model: the choice of choose_device()
};

/// Reads their tables from a deck. Throws InputError.
[[nodiscard]] RunPlan read_run_plan(Deck& deck);

/// Every table and key of the bundled applications' decks. Its Markdown is docs/reference/decks.md;
/// a test checks that.
[[nodiscard]] DeckReference deck_reference();

}  // namespace lockstep::train
