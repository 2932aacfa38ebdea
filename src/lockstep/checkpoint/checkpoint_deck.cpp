#include <lockstep/checkpoint/checkpoint.hpp>

#include <lockstep/deck/deck.hpp>

namespace lockstep {

void declare(DeckTable& table, CheckpointOptions& options) {
  table.key("every_steps", options.every_steps,
            {.doc = "save after each that many steps; 0: only by epochs", .min = 0});
  table.key("every_epochs", options.every_epochs,
            {.doc = "save after each that many epochs; 0: only by steps", .min = 0});
  table.key("every_minutes", options.every_minutes,
            {.doc = "save once that much time has passed since the last save; 0: not by time",
             .unit = "min",
             .min = 0.0});
  table.key(
      "keep", options.keep,
      {.doc = "newest checkpoints kept, older ones of the run are removed; 0: all", .min = 0});
  table.key("keep_every", options.keep_every,
            {.doc = "checkpoints of steps that are multiples of it are never removed; 0: none",
             .min = 0});
  table.key(
      "best", options.best,
      {.doc = "metric of the evaluation (\"loss\", \"accuracy\") of which the best checkpoint is "
              "kept, as best.h5; empty: none"});
  using Direction = CheckpointOptions::Direction;
  table.choice("best_direction", options.best_direction,
               {{"auto", Direction::automatic}, {"max", Direction::max}, {"min", Direction::min}},
               "which value of that metric is the best: the greatest or the least; auto: the least "
               "loss or error, the greatest of others");
  table.key("async", options.async,
            {.doc = "a thread writes a copy of the state while the training goes on; takes memory "
                    "for a rank's part of the state, and MPI_THREAD_MULTIPLE"});
  using Busy = CheckpointOptions::Busy;
  table.choice("busy", options.busy, {{"wait", Busy::wait}, {"skip", Busy::skip}},
               "at a step where a checkpoint is due while the one before is still being written: "
               "wait for it, or skip the new one");
  table.choice(
      "compression", options.compression,
      {{"none", Compression::none}, {"deflate", Compression::deflate}},
      "how tensors lie in the files: as they are, or shuffled and deflated, which h5py and "
      "all of HDF5's tools read as well; smaller by some percent, and slow to write");
  table.key(
      "local_steps", options.local_steps,
      {.doc = "keep a copy of the state in each node's memory after each that many steps, for "
              "--resume after a process or a node has died; 0: none",
       .min = 0});
  table.key("local_dir", options.local_dir,
            {.doc = "folder of each node, in memory, that holds the last two of those copies"});
}

bool checkpoint_is_due(const CheckpointOptions& options, const TrainState& train) {
  const bool by_step = options.every_steps > 0 && train.step % options.every_steps == 0;
  const bool by_epoch =
      options.every_epochs > 0 && train.position == 0 && train.epoch % options.every_epochs == 0;
  return train.step > 0 && (by_step || by_epoch);
}

}  // namespace lockstep
