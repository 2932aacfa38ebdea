#include <lockstep/checkpoint/checkpoint.hpp>

#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, CheckpointOptions& options) {
  table.key("every_steps", options.every_steps,
            {.doc = "steps between saves; 0: not by steps", .min = 0});
  table.key("every_epochs", options.every_epochs,
            {.doc = "epochs between saves; 0: not by epochs", .min = 0});
  table.key("every_minutes", options.every_minutes,
            {.doc = "time between saves; 0: not by time", .unit = "min", .min = 0.0});
  table.key("keep", options.keep, {.doc = "number of newest checkpoints kept; 0: all", .min = 0});
  table.key("keep_every", options.keep_every,
            {.doc = "keep all checkpoints of steps that are multiples of this; 0: none", .min = 0});
  table.key("best", options.best,
            {.doc = "metric (\"loss\", \"accuracy\") whose best checkpoint is kept as best.h5; "
                    "empty: none"});
  using Direction = CheckpointOptions::Direction;
  table.choice(
      "best_direction", options.best_direction,
      {{"auto", Direction::automatic}, {"max", Direction::max}, {"min", Direction::min}},
      "whether best is the largest or smallest; auto: losses and errors smallest, others largest");
  table.key("async", options.async,
            {.doc = "write on a thread while training continues; needs memory for a rank's part of "
                    "the state, and MPI_THREAD_MULTIPLE"});
  using Busy = CheckpointOptions::Busy;
  table.choice("busy", options.busy, {{"wait", Busy::wait}, {"skip", Busy::skip}},
               "when a save is due while the last one is being written: wait, or skip the new one");
  table.choice("compression", options.compression,
               {{"none", Compression::none}, {"deflate", Compression::deflate}},
               "HDF5 filters of tensors; deflate is some percent smaller and slow to write; all "
               "HDF5 tools read it");
  table.key("local_steps", options.local_steps,
            {.doc = "steps between copies of the state in the nodes' memory, for --resume after a "
                    "process or node died; 0: none",
             .min = 0});
  table.key("local_dir", options.local_dir,
            {.doc = "folder in memory, on each node, for the last two copies"});
}

bool checkpoint_is_due(const CheckpointOptions& options, const TrainState& train) {
  const bool by_step = options.every_steps > 0 && train.step % options.every_steps == 0;
  const bool by_epoch =
      options.every_epochs > 0 && train.position == 0 && train.epoch % options.every_epochs == 0;
  return train.step > 0 && (by_step || by_epoch);
}

}  // namespace lockstep
