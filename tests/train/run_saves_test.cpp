// A run's saves that overlap with steps: their actions and messages. HDF5's lock, held on rank 0,
// keeps a save in progress as long as the test wants.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <latch>
#include <memory>
#include <mutex>
#include <thread>

#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/io/hdf5.hpp>
#include <lockstep/train/run/run_saves.hpp>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// All log messages while it lives.
class SavesLog {
 public:
  SavesLog() {
    set_log_sink([this](LogLevel, std::string_view text) {
      const std::lock_guard lock(mutex_);
      lines_.emplace_back(text);
    });
  }
  ~SavesLog() { set_log_sink({}); }
  SavesLog(const SavesLog&) = delete;
  SavesLog& operator=(const SavesLog&) = delete;

  [[nodiscard]] std::int64_t count(const std::string& part) const {
    const std::lock_guard lock(mutex_);
    return std::ranges::count_if(
        lines_, [&](const std::string& line) { return line.find(part) != std::string::npos; });
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::string> lines_;
};

CheckpointContents contents_at(std::int64_t step) {
  CheckpointContents contents;
  contents.model.insert("weight", Tensor::full({1000}, static_cast<double>(step)));
  contents.train.step = step;
  contents.deck = "deck";
  return contents;
}

std::unique_ptr<Hdf5Lock> hold_up(const ProcessGroup& group) {
  return group.rank() == 0 ? std::make_unique<Hdf5Lock>() : nullptr;
}

constexpr std::chrono::seconds deadline{60};

class RunSavesOnThreads : public testing::Test {
 protected:
  void run(const CheckpointOptions& options,
           const std::function<void(ProcessGroup&, RunSaves&)>& body,
           std::chrono::milliseconds within = deadline) {
    run_ranks_as_threads(2, [&](ProcessGroup& group) {
      RunSaves saves(group, options, folder(), within);
      const auto contents = contents_at(0);
      saves.begin(0, {}, contents.model, contents.optimizer);
      body(group, saves);
    });
  }
  [[nodiscard]] fs::path folder() const { return scratch_.file("checkpoints"); }
  [[nodiscard]] bool has(std::int64_t step) const {
    return fs::exists(checkpoint_path(folder(), step));
  }

  test::ScratchFolder scratch_;
  SavesLog log_;
};

TEST_F(RunSavesOnThreads, ASaveThatIsDueWhileOneIsUnderWayIsSkippedAndSaid) {
  run({.busy = CheckpointOptions::Busy::skip}, [&](ProcessGroup& group, RunSaves& saves) {
    auto held = hold_up(group);
    saves.start(contents_at(1), NotFinite::refuse);
    saves.look();
    EXPECT_EQ(saves.saved_step(), 0);
    EXPECT_TRUE(saves.skips({.step = 2}));
    group.barrier();
    held.reset();
    saves.finish();
    EXPECT_EQ(saves.saved_step(), 1);
    EXPECT_FALSE(saves.skips({.step = 3}));
  });
  EXPECT_TRUE(has(1));
  EXPECT_EQ(log_.count("step 2 was not saved: " + checkpoint_path(folder(), 1).string() +
                       " is still being written (checkpoint.busy = \"skip\")"),
            1);
}

// Whatever the duration of a save, the same file is the best.
TEST_F(RunSavesOnThreads, TheBestSoFarIsNeverSkipped) {
  const auto measured = [](std::int64_t step, double loss) {
    auto contents = contents_at(step);
    contents.train.metrics = {{"loss", loss}};
    return contents;
  };
  run({.best = "loss",
       .best_direction = CheckpointOptions::Direction::min,
       .busy = CheckpointOptions::Busy::skip},
      [&](ProcessGroup& group, RunSaves& saves) {
        std::latch held_up(1);
        std::jthread holder;
        if (group.rank() == 0) {
          holder = std::jthread([&] {
            const Hdf5Lock held;
            held_up.count_down();
            while (log_.count("step 3 waits") == 0)
              std::this_thread::sleep_for(std::chrono::milliseconds(1));
          });
          held_up.wait();
        }
        saves.start(measured(1, 0.5), NotFinite::refuse);
        EXPECT_TRUE(saves.skips(measured(2, 0.6).train)) << "worse than the one under way";
        EXPECT_FALSE(saves.skips(measured(3, 0.4).train));
        saves.start(measured(3, 0.4), NotFinite::refuse);
        saves.finish();
        saves.close();
      });
  EXPECT_TRUE(has(1) && !has(2) && has(3));
  EXPECT_EQ(load_checkpoint(best_checkpoint(folder())).train.step, 3);
}

TEST_F(RunSavesOnThreads, OrIsWaitedForAndSaid) {
  run({.busy = CheckpointOptions::Busy::wait}, [&](ProcessGroup& group, RunSaves& saves) {
    {
      // Held by another thread, because this one is about to wait.
      std::latch held_up(1);
      std::jthread holder;
      if (group.rank() == 0) {
        holder = std::jthread([&] {
          const Hdf5Lock held;
          held_up.count_down();
          while (log_.count("step 2 waits") == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(1));
        });
        held_up.wait();
      }
      saves.start(contents_at(1), NotFinite::refuse);
      EXPECT_FALSE(saves.skips({.step = 2}));
      EXPECT_EQ(saves.saved_step(), 1) << "it is over";
    }
    saves.start(contents_at(2), NotFinite::refuse);
    saves.finish();
    saves.close();
  });
  EXPECT_TRUE(has(1) && has(2));
  EXPECT_EQ(log_.count("is still being written (checkpoint.busy = \"wait\")"), 1);
}

TEST_F(RunSavesOnThreads, AFailureSurfacesAtTheNextLookWithTheFilesNameAndTheRunGoesOn) {
  fs::create_directories(folder().parent_path());
  std::ofstream(folder()) << "in the way";
  run({}, [&](ProcessGroup& group, RunSaves& saves) {
    saves.start(contents_at(1), NotFinite::refuse);
    while (saves.last_failure().empty()) saves.look();
    EXPECT_NE(saves.last_failure().find(checkpoint_path(folder(), 1).string()), std::string::npos);
    EXPECT_EQ(saves.saved_step(), 0);
    group.barrier();
    if (group.rank() == 0) fs::remove(folder());
    group.barrier();
    saves.start(contents_at(2), NotFinite::refuse);
    saves.finish();
    EXPECT_EQ(saves.last_failure(), "");
    EXPECT_EQ(saves.saved_step(), 2);
  });
  EXPECT_EQ(log_.count("The run goes on."), 1);
}

TEST_F(RunSavesOnThreads, AFileSystemThatHangsIsWaitedForNoLongerThanTheDeadline) {
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    auto saves =
        std::make_unique<RunSaves>(group, CheckpointOptions{}, folder(), std::chrono::seconds(1));
    auto held = hold_up(group);
    saves->start(contents_at(1), NotFinite::refuse);
    const bool hangs = group.rank() == 0;
    try {
      saves->finish();
      ADD_FAILURE() << "it did not wait";
    } catch (const Error& error) {
      const std::string why = hangs ? "its file system may hang" : "another rank does not answer";
      EXPECT_EQ(error.exit_code(), hangs ? ExitCode::checkpoint : ExitCode::communication);
      EXPECT_NE(std::string(error.what())
                    .find("step-00000001.h5 is not written yet after 1 s (comm.timeout): " + why),
                std::string::npos)
          << error.what();
    }
    // A rank that has waited for others in vain does not do so again.
    const auto start = Clock::now();
    if (!hangs) saves.reset();
    EXPECT_LT(seconds_since(start), 30);
    group.barrier();
    held.reset();
    std::this_thread::sleep_for(std::chrono::milliseconds(600));  // now rank 0 waits for rank 1
  });
}

TEST_F(RunSavesOnThreads, TheEndByAnExceptionWaitsForTheSaveInProgress) {
  EXPECT_THROW(run({},
                   [&](ProcessGroup& group, RunSaves& saves) {
                     saves.start(contents_at(group.size()), NotFinite::refuse);
                     throw InputError("on all ranks");
                   }),
               InputError);
  EXPECT_TRUE(has(2));
}

TEST_F(RunSavesOnThreads, WithoutAThreadASaveIsOverWhenItReturns) {
  run({.async = false}, [&](ProcessGroup&, RunSaves& saves) {
    saves.start(contents_at(1), NotFinite::refuse);
    EXPECT_EQ(saves.saved_step(), 1);
    EXPECT_FALSE(saves.skips({.step = 2}));
    saves.close();
  });
  EXPECT_TRUE(has(1));
}

TEST_F(RunSavesOnThreads, ByTimeOneIsDueOnAllRanksOnceRankZerosClockSaysSo) {
  run({.every_epochs = 0, .every_minutes = 0.05 / 60}, [&](ProcessGroup& group, RunSaves& saves) {
    TrainState train;
    const auto take_steps_until_due = [&] {
      do {
        ++train.step;
        saves.look();
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
      } while (!saves.is_due(train));
    };
    EXPECT_FALSE(saves.is_due(train));
    take_steps_until_due();
    const auto start = Clock::now();
    saves.start(contents_at(train.step), NotFinite::refuse);
    EXPECT_FALSE(saves.is_due(train)) << "the time counts from the last save";
    take_steps_until_due();
    if (group.rank() == 0) {  // another rank may have reached the first save later
      EXPECT_GE(seconds_since(start), 0.05);
    }
    saves.start(contents_at(train.step), NotFinite::refuse);
    saves.finish();
    saves.close();
    EXPECT_TRUE(has(train.step));
  });
}

}  // namespace
}  // namespace lockstep::train
