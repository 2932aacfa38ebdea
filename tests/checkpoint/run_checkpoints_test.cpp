#include <lockstep/checkpoint/run_checkpoints.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <utility>

#include <checkpoint/sample.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;
using Steps = std::vector<int>;
using test::scratch;

/// A test's folder of checkpoints, with a run in it.
class Folder {
 public:
  explicit Folder(const char* name) : path_(scratch(name)) { fs::create_directories(path_); }

  [[nodiscard]] fs::path operator()(int step) const { return checkpoint_path(path_, step); }
  [[nodiscard]] const fs::path& path() const { return path_; }
  /// Writes a good file for each of these steps, unknown to any run.
  void put(const Steps& steps) const {
    for (const int step : steps) test::save_on_threads((*this)(step), 1);
  }
  void save(RunCheckpoints& run, const Steps& steps, bool finite = true) const {
    for (const int step : steps) {
      put({step});
      run.saved((*this)(step), finite);
    }
  }
  /// Steps of the files there, newest first.
  [[nodiscard]] Steps steps(const fs::path& below = {}) const {
    Steps found;
    for (const auto& file : list_checkpoints(path_ / below))
      found.push_back(std::stoi(file.filename().string().substr(5)));
    return found;
  }

 private:
  fs::path path_;
};

TEST(RunCheckpoints, TheNewestAreKeptAndLeftoversOfKilledRunsAreRemoved) {
  const Folder folder("keep");
  std::ofstream(folder.path() / "step-00000005.h5.partial") << "x";
  std::ofstream(folder.path() / "step-00000006.h5.4711-12.partial") << "x";
  std::ofstream(folder.path() / "notes.txt") << "x";
  RunCheckpoints run(folder.path(), {.keep = 3});
  run.begin({});
  EXPECT_FALSE(run.newest());
  folder.save(run, {1, 2, 3, 4});
  EXPECT_EQ(folder.steps(), (Steps{4, 3, 2}));
  EXPECT_EQ(run.newest(), folder(4));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000005.h5.partial"));
  EXPECT_FALSE(fs::exists(folder.path() / "step-00000006.h5.4711-12.partial"));
  EXPECT_TRUE(fs::exists(folder.path() / "notes.txt"));
}

TEST(RunCheckpoints, AnOldOneOfUnknownStatusDoesNotEndTheRun) {
  const Folder folder("unreadable");
  folder.put({1, 2});
  RunCheckpoints run(folder.path(), {.keep = 2});
  run.begin(folder(2));
  folder.save(run, {3});
  for (const int step : {2, 3}) {  // one from its past, one of its own
    fs::remove(folder(step));
    fs::create_symlink(folder(step), folder(step));  // its status cannot be determined
  }
  EXPECT_NO_THROW(folder.save(run, {4, 5}));
  EXPECT_EQ(run.newest(), folder(5));
  EXPECT_TRUE(fs::exists(folder(4)) && fs::exists(folder(5)));
}

TEST(RunCheckpoints, AllAreKeptWhereKeepIsZero) {
  const Folder folder("all");
  RunCheckpoints run(folder.path(), {.keep = 0});
  run.begin({});
  folder.save(run, {1, 2, 3, 4, 5});
  EXPECT_EQ(folder.steps(), (Steps{5, 4, 3, 2, 1}));
}

TEST(RunCheckpoints, ARunGoesOnWithItsPast) {
  const Folder folder("past");
  folder.put({1, 2, 3});
  RunCheckpoints run(folder.path(), {.keep = 3});
  run.begin(folder(3));
  EXPECT_EQ(run.newest(), folder(3));
  folder.save(run, {4});
  EXPECT_EQ(folder.steps(), (Steps{4, 3, 2}));
  folder.save(run, {5, 6, 7});
  EXPECT_EQ(folder.steps(), (Steps{7, 6, 5}));
}

TEST(RunCheckpoints, NewerOnesThanTheOneItGoesOnFromAreMovedAsideAndNeverRemoved) {
  const Folder folder("branch");
  folder.put({8, 16, 48, 56, 64});
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  RunCheckpoints run(folder.path(), {.keep = 3});
  run.begin(folder(16));
  set_log_sink({});
  EXPECT_TRUE(test::contains(said, "step-00000048.h5 to step-00000064.h5 (3 checkpoints)")) << said;
  EXPECT_TRUE(test::contains(said, (folder.path() / "abandoned.1").string())) << said;
  EXPECT_EQ(newest_good_checkpoint(folder.path()), folder(16)) << "before anything is saved";
  folder.save(run, {24, 48, 72, 96});
  EXPECT_EQ(folder.steps(), (Steps{96, 72, 48}));
  EXPECT_EQ(folder.steps("abandoned.1"), (Steps{64, 56, 48}));

  RunCheckpoints another(folder.path(), {.keep = 1});
  another.begin(folder(48));
  folder.save(another, {50});
  EXPECT_EQ(folder.steps(), (Steps{50}));
  EXPECT_EQ(folder.steps("abandoned.2"), (Steps{96, 72}));
  EXPECT_EQ(folder.steps("abandoned.1"), (Steps{64, 56, 48}));
}

TEST(RunCheckpoints, OfAnotherFolderNothingHereIsThePast) {
  const Folder folder("here"), other("other");
  folder.put({1, 2});
  other.put({1});
  RunCheckpoints run(folder.path(), {.keep = 1});
  run.begin(other(1));
  EXPECT_EQ(folder.steps("abandoned.1"), (Steps{2, 1}));
  folder.save(run, {2});
  EXPECT_EQ(folder.steps(), (Steps{2}));
  EXPECT_EQ(other.steps(), (Steps{1})) << "what it goes on from is not its to remove";
}

TEST(RunCheckpoints, AFileOfThePastThatDoesNotVerifyIsNotCounted) {
  const Folder folder("damaged");
  folder.put({1, 2, 3, 4});
  fs::resize_file(folder(3), 1000);
  RunCheckpoints run(folder.path(), {.keep = 3});
  run.begin(folder(4));
  folder.save(run, {5});
  EXPECT_EQ(folder.steps(), (Steps{5, 4, 3, 2})) << "5, 4 and 2 are good";
  folder.save(run, {6, 7});
  EXPECT_EQ(folder.steps(), (Steps{7, 6, 5}));
}

TEST(RunCheckpoints, AFileOfThePastUnderAnothersNameIsNotCountedAndNotGoneOnFrom) {
  const Folder folder("misnamed");
  folder.put({1, 2, 4});
  fs::copy_file(folder(1), folder(3));
  RunCheckpoints run(folder.path(), {.keep = 3});
  EXPECT_TRUE(test::contains(test::checkpoint_error_of([&] { run.begin(folder(3)); }),
                             folder(3).string() + " is of step 1, not of the step in its name"));
  EXPECT_EQ(folder.steps(), (Steps{4, 3, 2, 1})) << "nothing was moved aside";
  run.begin(folder(4));
  folder.save(run, {5});
  EXPECT_EQ(folder.steps(), (Steps{5, 4, 3, 2}));
}

TEST(RunCheckpoints, LinksOfTheOneGoneOnFromUnderOtherStepsNamesAreAbandonedOrNotCounted) {
  const Folder folder("misnamed-links");
  folder.put({1, 10});
  fs::create_hard_link(folder(10), folder(5));
  fs::create_hard_link(folder(10), folder(50));
  fs::create_symlink(folder(10).filename(), folder(60));
  ASSERT_EQ(newest_good_checkpoint(folder.path()), folder(10));
  RunCheckpoints run(folder.path(), {.keep = 3});
  EXPECT_TRUE(run.begin(folder(10)));
  EXPECT_EQ(run.newest(), folder(10));
  EXPECT_EQ(folder.steps("abandoned.1"), (Steps{60, 50}));
  folder.save(run, {11});
  EXPECT_EQ(folder.steps(), (Steps{11, 10, 5, 1})) << "11, 10 and 1 are good";
  folder.save(run, {12});
  EXPECT_EQ(folder.steps(), (Steps{12, 11, 10}));
  EXPECT_NO_THROW(verify_checkpoint(folder(10)));
}

TEST(RunCheckpoints, FilesThatComeFromElsewhereDuringTheRunPushNothingOut) {
  const Folder folder("junk");
  RunCheckpoints run(folder.path(), {.keep = 1});
  run.begin({});
  folder.save(run, {1});
  std::ofstream(folder(999)) << "junk";
  folder.put({998});
  folder.save(run, {2});
  EXPECT_EQ(folder.steps(), (Steps{999, 998, 2}));
}

TEST(RunCheckpoints, OnesThatAreNotFinitePushNoFiniteOnesOut) {
  const Folder folder("finite");
  folder.put({1, 2});
  RunCheckpoints run(folder.path(), {.keep = 1});
  run.begin(folder(2));
  folder.save(run, {3, 4}, false);
  EXPECT_EQ(folder.steps(), (Steps{4, 2}));
  folder.save(run, {5});
  folder.save(run, {6, 7}, false);
  EXPECT_EQ(folder.steps(), (Steps{7, 5}));
}

TEST(RunCheckpoints, MultiplesOfKeepEveryStayForEver) {
  const Folder folder("milestones");
  RunCheckpoints run(folder.path(), {.keep = 2, .keep_every = 4});
  run.begin({});
  folder.save(run, {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11});
  EXPECT_EQ(folder.steps(), (Steps{11, 10, 8, 4}));
  RunCheckpoints resumed(folder.path(), {.keep = 1, .keep_every = 4});
  resumed.begin(folder(11));
  folder.save(resumed, {12, 13});
  EXPECT_EQ(folder.steps(), (Steps{13, 12, 8, 4})) << "of its past, too";
}

/// Saves `step` with an evaluation of that accuracy and loss and, unless `finite`, an infinity in
/// the model.
void save_with(RunCheckpoints& run, const Folder& folder, int step, double accuracy,
               bool finite = true, double loss = 1.0) {
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    auto contents = test::sample();
    contents.train.step = step;
    contents.train.metrics = {{"loss", loss}, {"accuracy", accuracy}};
    if (!finite) contents.model.insert("overflow", Tensor::full({2}, HUGE_VAL));
    CheckpointWriter().save(group, folder(step), contents, NotFinite::save);
    run.saved(folder(step), finite, contents.train);
  });
}

std::int64_t step_of_best(const Folder& folder) {
  verify_checkpoint(best_checkpoint(folder.path()));
  return load_checkpoint(best_checkpoint(folder.path())).train.step;
}

// train.on_nan = "ignore", and the run is resumed.
TEST(RunCheckpoints, OneGoneOnFromThatIsNotFinitePushesNoFiniteOneOutAndIsNotTheBest) {
  const Folder folder("finite-gone-on");
  const CheckpointOptions options{.keep = 1, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options), killed({}, {});
  run.begin({});
  save_with(run, folder, 1, 0.5);
  save_with(killed, folder, 2, 0.9, false);
  RunCheckpoints resumed(folder.path(), options);
  resumed.begin(folder(2));
  EXPECT_EQ(step_of_best(folder), 1);
  save_with(resumed, folder, 3, 0.9, false);
  EXPECT_EQ(folder.steps(), (Steps{3, 2, 1})) << "1 is the only finite one";
  save_with(resumed, folder, 4, 0.6);
  EXPECT_EQ(folder.steps(), Steps{4});
  EXPECT_EQ(step_of_best(folder), 4);
}

TEST(RunCheckpoints, TheBestStaysAsBestWhateverIsRemoved) {
  const Folder folder("best");
  const CheckpointOptions options{.keep = 1, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options);
  run.begin({});
  folder.save(run, {1});
  EXPECT_FALSE(fs::exists(best_checkpoint(folder.path()))) << "it was not evaluated";
  save_with(run, folder, 2, 0.5);
  save_with(run, folder, 3, 0.7);
  save_with(run, folder, 4, 0.6);
  save_with(run, folder, 5, std::nan(""));
  EXPECT_EQ(folder.steps(), Steps{5});
  EXPECT_EQ(step_of_best(folder), 3);

  RunCheckpoints resumed(folder.path(), options);
  resumed.begin(folder(5));
  save_with(resumed, folder, 6, 0.65);
  EXPECT_EQ(step_of_best(folder), 3) << "the run knows its past's";
  save_with(resumed, folder, 7, 0.75);
  EXPECT_EQ(step_of_best(folder), 7);
}

// Its rank was killed between save and comparison, or it was a copy in a node's memory.
TEST(RunCheckpoints, TheBestMayBeTheOneThatIsGoneOnFrom) {
  const Folder folder("best-gone-on");
  const CheckpointOptions options{.keep = 1, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options), killed({}, {});
  run.begin({});
  save_with(run, folder, 2, 0.5);
  save_with(killed, folder, 3, 0.9);
  RunCheckpoints resumed(folder.path(), options);
  resumed.begin(folder(3));
  save_with(resumed, folder, 4, 0.6);
  EXPECT_EQ(folder.steps(), Steps{4});
  EXPECT_EQ(step_of_best(folder), 3);
}

TEST(RunCheckpoints, TheLeastCanBeTheBest) {
  const Folder folder("least");
  RunCheckpoints run(
      folder.path(),
      {.keep = 1, .best = "accuracy", .best_direction = CheckpointOptions::Direction::min});
  run.begin({});
  save_with(run, folder, 1, 0.5);
  save_with(run, folder, 2, 0.7);
  EXPECT_EQ(step_of_best(folder), 1);
}

TEST(RunCheckpoints, TheBestOfAnAbandonedBranchGoesWithIt) {
  const Folder folder("best-branch");
  const CheckpointOptions options{.keep = 0, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options);
  run.begin({});
  for (int step = 1; step <= 3; ++step) save_with(run, folder, step, 0.1 * step);
  RunCheckpoints back(folder.path(), options);
  back.begin(folder(2));
  EXPECT_EQ(step_of_best(folder), 2) << "the best of what this branch goes on from";
  EXPECT_EQ(folder.steps("abandoned.1"), Steps{3});
  EXPECT_TRUE(fs::exists(best_checkpoint(folder.path() / "abandoned.1")));
  save_with(back, folder, 3, 0.05);
  EXPECT_EQ(step_of_best(folder), 2);
  save_with(back, folder, 4, 0.25);
  EXPECT_EQ(step_of_best(folder), 4);
}

TEST(RunCheckpoints, TheBestIsLookedForInAllOfThePastWhereThereWasNone) {
  const Folder folder("best-late");
  RunCheckpoints run(folder.path(), {.keep = 0});
  run.begin({});
  for (const auto& [step, accuracy] : {std::pair{1, 0.3}, {2, 0.7}, {3, 0.9}, {4, 0.5}})
    save_with(run, folder, step, accuracy);
  std::fstream damaged(folder(3), std::ios::in | std::ios::out | std::ios::binary);
  damaged.seekp(static_cast<std::streamoff>(fs::file_size(folder(3)) / 2));
  damaged << "damage" << std::flush;
  RunCheckpoints back(folder.path(), {.keep = 0, .best = "accuracy"});
  back.begin(folder(4));
  EXPECT_EQ(step_of_best(folder), 2) << "3 is damaged";
}

TEST(RunCheckpoints, TheBestIsLookedForInAllOfThePastIfAnotherFigureOrDirectionJudges) {
  constexpr auto min = CheckpointOptions::Direction::min;
  const Folder folder("best-another-figure");
  RunCheckpoints run(folder.path(), {.keep = 0, .best = "loss", .best_direction = min});
  run.begin({});
  save_with(run, folder, 1, 0.3, true, 0.4);
  save_with(run, folder, 2, 0.9, true, 0.5);
  save_with(run, folder, 3, std::nan(""), true, 0.1);
  save_with(run, folder, 4, 0.8, true, 0.2);
  EXPECT_EQ(step_of_best(folder), 3);
  RunCheckpoints greatest(folder.path(), {.keep = 0, .best = "accuracy"});
  greatest.begin(folder(4));
  EXPECT_EQ(step_of_best(folder), 2);
  EXPECT_EQ(greatest.best(), 0.9);
  RunCheckpoints least(folder.path(), {.keep = 0, .best = "accuracy", .best_direction = min});
  least.begin(folder(4));
  EXPECT_EQ(step_of_best(folder), 1);
  EXPECT_EQ(least.best(), 0.3);
}

TEST(RunCheckpoints, TheBestThatIsACopyIsGoneOnFromAsItsStep) {
  const Folder folder("best-copy");
  const CheckpointOptions options{.keep = 0, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options);
  run.begin({});
  for (int step = 1; step <= 3; ++step) save_with(run, folder, step, step == 2 ? 0.9 : 0.1);
  const fs::path best = best_checkpoint(folder.path());
  fs::remove(best);
  fs::copy_file(folder(2), best);  // as in a copied run folder
  RunCheckpoints back(folder.path(), options);
  EXPECT_TRUE(back.begin(best));
  EXPECT_EQ(folder.steps(), (Steps{2, 1}));
  EXPECT_EQ(folder.steps("abandoned.1"), Steps{3});
  EXPECT_EQ(step_of_best(folder), 2);
  EXPECT_EQ(back.newest(), folder(2));
}

TEST(RunCheckpoints, TheBestIsGoneOnFromThoughTheFileOfItsStepWasRemoved) {
  const Folder folder("best-alone");
  const CheckpointOptions options{.keep = 1, .best = "accuracy"};
  RunCheckpoints run(folder.path(), options);
  run.begin({});
  save_with(run, folder, 1, 0.9);
  save_with(run, folder, 2, 0.5);
  ASSERT_EQ(folder.steps(), Steps{2});
  RunCheckpoints back(folder.path(), options);
  EXPECT_TRUE(back.begin(best_checkpoint(folder.path())));
  EXPECT_EQ(folder.steps(), Steps{1}) << "what --resume goes on from, should nothing be saved";
  EXPECT_EQ(folder.steps("abandoned.1"), Steps{2});
  save_with(back, folder, 2, 0.8);
  EXPECT_EQ(step_of_best(folder), 1) << "its value is known still";
}

}  // namespace
}  // namespace lockstep
