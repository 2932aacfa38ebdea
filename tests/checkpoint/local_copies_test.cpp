// Copies of the state in a node's memory, by ranks as threads. Kills are not needed: the tests
// inspect the files between the saves.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <thread>

#include <checkpoint/sample.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/file/manifest.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/comm/node_layout.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

/// A replicated state of that step.
CheckpointContents state_of(std::int64_t step) {
  CheckpointContents contents;
  const auto first = static_cast<float>(step);
  contents.model.insert("conv.weight", test::pattern({10, 1, 5, 5}, first));
  contents.model.insert("fc.weight", test::pattern({1100, 1000}, first + 1));
  contents.optimizer.insert("conv.weight/momentum_buffer", test::pattern({10, 1, 5, 5}, first + 2));
  contents.train.step = step;
  contents.train.sums = {{"loss.0", 0.5}};
  contents.deck = "[train]\nepochs = 2\n";
  return contents;
}

NodeLayout one_node(const ProcessGroup& group) {
  return NodeLayout(std::vector<std::string>(static_cast<std::size_t>(group.size()), "node"));
}

/// An empty folder in place of a node's memory.
fs::path memory(const std::string& name) {
  fs::path folder = test::scratch(name);
  fs::create_directories(folder);
  return folder;
}

void flip_byte(const fs::path& file, std::streamoff at) {
  std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
  bytes.seekg(at);
  const auto old = static_cast<char>(bytes.get());
  bytes.seekp(at);
  bytes.put(static_cast<char>(old ^ 1));
}

TEST(LocalCopies, TheLastTwoStatesAreThereAndAreOrdinaryCheckpoints) {
  const fs::path folder = memory("local");
  for (const int ranks : {1, 2, 3}) {
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
      for (const std::int64_t step : {10, 20, 30}) copies.save(state_of(step));
    });
    const auto there = list_local_copies(folder, "s");
    ASSERT_EQ(there.size(), 2U) << ranks;
    EXPECT_EQ(there[0].step, 30);
    EXPECT_EQ(there[1].step, 20);
    for (const LocalCopy& copy : there) {
      const CheckpointContents got = load_checkpoint(copy.path);
      test::expect_same_bits(got.model, state_of(copy.step).model);
      test::expect_same_bits(got.optimizer, state_of(copy.step).optimizer);
    }
  }
}

TEST(LocalCopies, TheFirstRanksLastWriteMayFailAndAllGoOn) {
  const fs::path folder = memory("last_write");
  std::signal(SIGXFSZ, SIG_IGN);
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    for (const std::int64_t step : {10, 20}) copies.save(state_of(step));
    group.barrier();
    if (group.rank() == 0) {  // the manifest lies behind all data sets
      Header::Block block{};
      std::ifstream(list_local_copies(folder, "s").back().path, std::ios::binary)
          .read(block.data(), block.size());
      const rlimit less{static_cast<rlim_t>(Header::parse(block).manifest.offset) + 1,
                        before.rlim_max};
      setrlimit(RLIMIT_FSIZE, &less);
    }
    group.barrier();
    const auto save_30 = [&] { copies.save(state_of(30)); };
    if (group.rank() == 0) {
      EXPECT_THROW(save_30(), CheckpointError);
      setrlimit(RLIMIT_FSIZE, &before);
      const auto there = list_local_copies(folder, "s");
      EXPECT_TRUE(there.size() == 1 && there[0].step == 20) << there.size();
    } else {
      EXPECT_NO_THROW(save_30());
    }
    group.barrier();
    for (const std::int64_t step : {40, 50}) copies.save(state_of(step));
  });
  const auto there = list_local_copies(folder, "s");
  ASSERT_EQ(there.size(), 2U);
  for (const LocalCopy& copy : there) {
    test::expect_same_bits(load_checkpoint(copy.path).model, state_of(copy.step).model);
  }
  EXPECT_EQ(there[0].step, 50);
}

TEST(LocalCopies, AStateThatGrewIsLaidOutAnew) {
  const fs::path folder = memory("grew");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    for (const std::int64_t step : {1, 2, 3, 4}) {
      CheckpointContents contents = state_of(step);
      if (step > 2) {
        contents.optimizer.insert("fc.weight/momentum_buffer", test::pattern({1100, 1000}, 7));
        contents.train.metrics = {{"accuracy", 0.5}};
      }
      copies.save(contents);
    }
  });
  const auto there = list_local_copies(folder, "s");
  ASSERT_EQ(there.size(), 2U);
  EXPECT_EQ(there[0].step, 4);
  for (const LocalCopy& copy : there) {
    const CheckpointContents got = load_checkpoint(copy.path);
    EXPECT_EQ(got.optimizer.size(), 2U);
    EXPECT_EQ(got.train.metrics.size(), 1U);
  }
}

TEST(LocalCopies, AStateThatIsNotFiniteLeavesTheTwoBeforeIt) {
  const fs::path folder = memory("nan");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    copies.save(state_of(1));
    copies.save(state_of(2));
    CheckpointContents contents = state_of(3);
    contents.model.insert("bad", Tensor::full({3}, std::nan("")));
    EXPECT_THROW(copies.save(contents), NotFiniteError);
  });
  const auto there = list_local_copies(folder, "s");
  ASSERT_EQ(there.size(), 2U);
  EXPECT_EQ(there[0].step, 2);
}

TEST(LocalCopies, WithoutRoomTheSaveFailsInASentenceAndALaterOneSucceeds) {
  const fs::path folder = memory("room") / "not_there_yet";
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    const std::string error = test::checkpoint_error_of([&] { copies.save(state_of(1)); });
    EXPECT_TRUE(test::contains(error, "No such file")) << error;
    group.barrier();
    if (group.rank() == 0) fs::create_directories(folder);
    group.barrier();
    copies.save(state_of(2));
  });
  ASSERT_EQ(list_local_copies(folder, "s").size(), 1U);
}

TEST(LocalCopies, TheNewestGoodCopyOfAllNodesBecomesACheckpointOfTheRun) {
  const fs::path run = test::scratch("run");
  fs::create_directories(run);
  const fs::path nodes = memory("nodes");
  const auto on = [&](int rank) { return nodes / std::to_string(rank); };
  // Node 0 has steps 10 and 20, node 1 has 20 and 30; only a checksum shows the damage of 30.
  for (int node : {0, 1}) {
    fs::create_directories(on(node));
    run_ranks_as_threads(1, [&](ProcessGroup& group) {
      LocalCopies copies(group.split(0, 0), one_node(group), on(node), "s");
      copies.save(state_of(10 + 10 * node));
      copies.save(state_of(20 + 10 * node));
    });
  }
  flip_byte(list_local_copies(on(1), "s").front().path, 4'000'000);
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    const auto bring = [&](const std::string& start, std::int64_t newer_than) {
      return bring_back_local_copy(group, on(group.rank()), start, run, newer_than);
    };
    EXPECT_EQ(bring("s", 20), std::nullopt);
    EXPECT_EQ(bring("another", 0), std::nullopt);
    EXPECT_EQ(bring("s", 19), checkpoint_path(run, 20));
  });
  test::expect_same_bits(load_checkpoint(checkpoint_path(run, 20)).model, state_of(20).model);
}

// Removed as by a cleaner of /dev/shm, unknown to the run.
TEST(LocalCopies, RemovedFilesAreMadeAnew) {
  const fs::path folder = memory("cleaned");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    for (const std::int64_t step : {10, 20, 30, 40}) {
      group.barrier();
      if (group.rank() == 0 && step == 30) remove_local_copies(folder, "s");
      group.barrier();
      copies.save(state_of(step));
    }
  });
  const auto there = list_local_copies(folder, "s");
  ASSERT_EQ(there.size(), 2U);
  for (const LocalCopy& copy : there)
    test::expect_same_bits(load_checkpoint(copy.path).model, state_of(copy.step).model);
  EXPECT_EQ(there[0].step + there[1].step, 70);
}

// By a running job whose folder was copied. At any moment no torn file and no file of another step
// has a checkpoint's name.
TEST(LocalCopies, OneThatIsWrittenMeanwhileIsTakenWholeOrNotAtAll) {
  const fs::path folder = memory("alive"), run = test::scratch("copied");
  fs::create_directories(run);
  std::jthread alive([&](const std::stop_token& end) {
    run_ranks_as_threads(1, [&](ProcessGroup& group) {
      LocalCopies copies(group.split(0, 0), one_node(group), folder, "s");
      for (std::int64_t step = 1; !end.stop_requested(); ++step) copies.save(state_of(step));
    });
  });
  while (list_local_copies(folder, "s").empty()) std::this_thread::yield();
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    for (int tries = 0; tries < 40; ++tries)
      static_cast<void>(bring_back_local_copy(group, folder, "s", run, -1));
  });
  alive.request_stop();
  alive.join();
  for (const auto& file : fs::directory_iterator(run)) {
    ASSERT_TRUE(step_of(file.path())) << file.path();
    EXPECT_EQ(verify_checkpoint(file.path()), "") << file.path();
    EXPECT_NO_THROW(expect_step_of_name(file.path()));
  }
}

TEST(LocalCopies, OneThatIsNotOfTheRunIsRefusedBeforeItIsACheckpoint) {
  const fs::path folder = memory("of_another"), run = test::scratch("refuses");
  fs::create_directories(run);
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), one_node(group), folder, "s");
    copies.save(state_of(10));
    group.barrier();
    const auto bring = [&](const ExpectFits& expect_fits) {
      return bring_back_local_copy(group, folder, "s", run, -1, expect_fits);
    };
    EXPECT_THROW(bring([](const CheckpointFile&) { throw InputError("another seed"); }),
                 InputError);
    EXPECT_THROW(bring([](const CheckpointFile&) { throw CheckpointError("another model"); }),
                 CheckpointError);
    EXPECT_TRUE(fs::is_empty(run));
    group.barrier();
    EXPECT_EQ(bring([](const CheckpointFile&) {}), checkpoint_path(run, 10));
  });
}

TEST(LocalCopies, RemovedCopiesAreGoneAndAnotherStartsCopiesStay) {
  const fs::path folder = memory("removed");
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    LocalCopies one(group.split(0, group.rank()), one_node(group), folder, "a");
    LocalCopies other(group.split(0, group.rank()), one_node(group), folder, "b");
    one.save(state_of(1));
    other.save(state_of(1));
    one.close_and_remove();
  });
  EXPECT_TRUE(list_local_copies(folder, "a").empty());
  ASSERT_EQ(list_local_copies(folder, "b").size(), 1U);
  run_ranks_as_threads(1, [&](ProcessGroup& group) {
    LocalCopies(group.split(0, 0), one_node(group), folder, "c").save(state_of(1));
  });
  remove_local_copies(folder, "c");
  EXPECT_TRUE(list_local_copies(folder, "c").empty());
  const fs::path left = list_local_copies(folder, "b").front().path;
  remove_old_local_copies(folder);
  EXPECT_TRUE(fs::exists(left));
  fs::last_write_time(left, fs::file_time_type::clock::now() - std::chrono::hours(25));
  remove_old_local_copies(folder);
  EXPECT_FALSE(fs::exists(left));
}

}  // namespace
}  // namespace lockstep
