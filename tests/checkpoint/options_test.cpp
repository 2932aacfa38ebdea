#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/checkpoint/checkpoint.hpp>
#include <lockstep/checkpoint/file/metadata.hpp>
#include <lockstep/deck/deck.hpp>

namespace lockstep {
namespace {

TrainState at(std::int64_t step, std::int64_t epoch, std::int64_t position) {
  TrainState train;
  train.step = step;
  train.epoch = epoch;
  train.position = position;
  return train;
}

TEST(CheckpointOptions, DeckSetsEachAndRefusesNegativeNumbers) {
  auto deck = Deck::parse(
      "[checkpoint]\nevery_steps = 100\nevery_epochs = 2\nkeep = 0\nasync = false\n"
      "busy = \"skip\"\nevery_minutes = 2.5\nkeep_every = 1000\nbest = \"loss\"\nbest_direction = "
      "\"min\"\ncompression = \"deflate\"\n",
      "deck");
  const auto options = deck.read<CheckpointOptions>("checkpoint");
  EXPECT_EQ(options.every_steps, 100);
  EXPECT_EQ(options.every_epochs, 2);
  EXPECT_EQ(options.keep, 0);
  EXPECT_EQ(options.every_minutes, 2.5);
  EXPECT_EQ(options.keep_every, 1000);
  EXPECT_EQ(options.best, "loss");
  EXPECT_EQ(options.best_direction, CheckpointOptions::Direction::min);
  EXPECT_EQ(options.compression, Compression::deflate);
  EXPECT_FALSE(options.async);
  EXPECT_EQ(options.busy, CheckpointOptions::Busy::skip);
  auto bad = Deck::parse("[checkpoint]\nkeep = -1\n", "deck");
  EXPECT_THROW(static_cast<void>(bad.read<CheckpointOptions>("checkpoint")), InputError);
}

TEST(CheckpointIsDue, ByDefaultAtTheEndOfEachEpoch) {
  EXPECT_FALSE(checkpoint_is_due({}, at(0, 0, 0)));
  EXPECT_FALSE(checkpoint_is_due({}, at(468, 0, 468)));
  EXPECT_TRUE(checkpoint_is_due({}, at(469, 1, 0)));
}

TEST(CheckpointIsDue, ByStepsByEpochsByBothOrByNeither) {
  const CheckpointOptions steps{.every_steps = 100, .every_epochs = 0}, epochs{.every_epochs = 2},
      both{.every_steps = 100}, neither{.every_epochs = 0};
  EXPECT_TRUE(checkpoint_is_due(steps, at(400, 0, 400)));
  EXPECT_FALSE(checkpoint_is_due(steps, at(469, 1, 0)));
  EXPECT_FALSE(checkpoint_is_due(epochs, at(469, 1, 0)));
  EXPECT_TRUE(checkpoint_is_due(epochs, at(938, 2, 0)));
  EXPECT_TRUE(checkpoint_is_due(both, at(400, 0, 400)));
  EXPECT_TRUE(checkpoint_is_due(both, at(469, 1, 0)));
  EXPECT_FALSE(checkpoint_is_due(neither, at(1000, 1, 0)));
}

TEST(EnvironmentChanges, NamesOnlyChangesThatMayChangeBits) {
  const Metadata written{{"onednn", "2.6.3"}, {"host", "a"}, {"ranks", "2"}, {"gone", "1"}};
  EXPECT_EQ(environment_changes(written, {{"onednn", "2.6.3"}, {"host", "b"}, {"ranks", "4"}}), "");
  EXPECT_EQ(environment_changes(written, {{"onednn", "2.7"}, {"host", "b"}}),
            "the checkpoint was written with onednn '2.6.3', now '2.7': the run goes on, but its "
            "bits may differ from those of an uninterrupted one");
}

}  // namespace
}  // namespace lockstep
