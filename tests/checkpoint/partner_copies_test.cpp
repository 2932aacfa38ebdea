// Copies in the memory of several pretended nodes: each keeps its ranks' shares of a sharded state
// and those of the node before it.
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include <checkpoint/sample.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/checkpoint/file/checkpoint_file.hpp>
#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/local_copies.hpp>
#include <lockstep/comm/node_layout.hpp>

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t rows = 300, width = 1000;

/// Of that step: "both" is replicated, "cut" in columns (tensor parallel) by `tp` ranks next to
/// each other, and its momentum in flat runs by all (ZeRO-1).
CheckpointContents state_of(std::int64_t step, int rank, int ranks, int tp) {
  CheckpointContents contents;
  const auto first = static_cast<float>(step);
  contents.model.insert("both", test::pattern({20, 10}, first));
  const Tensor whole = test::pattern({rows, width}, first + 1);
  const auto [part, placement] = test::part_of(whole, test::columns(whole.shape(), rank % tp, tp));
  contents.model.insert("cut", part, placement);
  const Tensor flat = test::pattern({rows * width}, first + 2);
  const std::int64_t begin = flat.numel() * rank / ranks, end = flat.numel() * (rank + 1) / ranks;
  contents.optimizer.insert("cut/momentum_buffer", flat.slice(begin, end),
                            Placement::flat_run({rows, width}, begin));
  contents.train.step = step;
  contents.deck = "of rank " + std::to_string(rank);  // rank 0's counts
  return contents;
}

CheckpointContents whole_state_of(std::int64_t step) {
  CheckpointContents contents = state_of(step, 0, 1, 1);
  StateDict optimizer;
  optimizer.insert("cut/momentum_buffer",
                   contents.optimizer.at("cut/momentum_buffer").reshape({rows, width}));
  contents.optimizer = optimizer;
  return contents;
}

/// Ranks on nodes of `each` ranks, whose folders are `memory`/0, 1, ...
struct Job {
  int ranks, each, tp;
  fs::path memory;

  [[nodiscard]] fs::path folder(int node) const { return memory / std::to_string(node); }
  [[nodiscard]] int nodes() const { return (ranks + each - 1) / each; }
  void save(const std::vector<std::int64_t>& steps) const {
    for (int node = 0; node < nodes(); ++node) fs::create_directories(folder(node));
    run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
      std::vector<std::string> hosts;
      for (int r = 0; r < ranks; ++r) hosts.push_back(std::to_string(r / each));
      LocalCopies copies(group.split(0, group.rank()), NodeLayout(hosts),
                         folder(group.rank() / each), "s");
      for (const std::int64_t step : steps) copies.save(state_of(step, group.rank(), ranks, tp));
    });
  }
};

Job job(const std::string& name, int ranks, int each, int tp = 1) {
  return {ranks, each, tp, test::scratch(name)};
}

/// Brings back the newest step with `ranks` ranks, each of which sees the folders of some nodes.
std::optional<fs::path> bring_back(const fs::path& run, const std::vector<fs::path>& folders,
                                   int ranks, const std::string& warning = "") {
  fs::create_directories(run);
  std::optional<fs::path> found;
  std::string said;
  set_log_sink([&](LogLevel, std::string_view message) { said += message; });
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    const auto mine = static_cast<std::size_t>(group.rank()) % folders.size();
    const auto got = bring_back_local_copy(group, folders[mine], "s", run, -1);
    if (group.rank() == 0) found = got;
  });
  set_log_sink({});
  EXPECT_EQ(said.empty(), warning.empty()) << said;
  EXPECT_NE(said.find(warning), std::string::npos) << said;
  return found;
}

void expect_whole(const fs::path& checkpoint, std::int64_t step) {
  const CheckpointContents got = load_checkpoint(checkpoint), want = whole_state_of(step);
  test::expect_same_bits(got.model, want.model);
  test::expect_same_bits(got.optimizer, want.optimizer);
  EXPECT_EQ(got.train.step, step);
  EXPECT_EQ(got.deck, "of rank 0");
}

TEST(PartnerCopies, AnyOneLostNodesSharesAreFoundWithItsPartner) {
  for (const auto& [ranks, each, tp] :
       {std::tuple{2, 1, 1}, {2, 1, 2}, {3, 1, 1}, {4, 2, 2}, {4, 1, 2}, {4, 1, 4}, {5, 2, 1}}) {
    const Job saved = job("job", ranks, each, tp);
    saved.save({10, 20, 30});
    for (int lost = -1; lost < saved.nodes(); ++lost) {
      std::vector<fs::path> left;
      for (int node = 0; node < saved.nodes(); ++node) {
        if (node != lost) left.push_back(saved.folder(node));
      }
      const fs::path run = test::scratch("run");
      const auto found = bring_back(run, left, static_cast<int>(left.size()) + 1);
      ASSERT_EQ(found, checkpoint_path(run, 30)) << ranks << " ranks without node " << lost;
      expect_whole(*found, 30);
    }
  }
}

TEST(PartnerCopies, ANodeKeepsItsSharesAndOneNeighboursAndNotTheRest) {
  const Job saved = job("share", 4, 1);
  saved.save({10});
  for (int node = 0; node < 4; ++node) {
    const auto copies = list_local_copies(saved.folder(node), "s");
    ASSERT_EQ(copies.size(), 1U);
    const CheckpointFile file(copies.front().path);
    std::int64_t of_momentum = 0;
    const DatasetEntry* momentum = file.manifest().find("/optimizer/cut/momentum_buffer");
    for (const Slab& slab : momentum->slabs)
      of_momentum += file.has(*momentum, slab) ? slab.bytes : 0;
    EXPECT_EQ(of_momentum, rows * width * 4 / 2) << "of node " << node;
    const DatasetEntry* both = file.manifest().find("/model/both");
    EXPECT_TRUE(file.has(*both, both->slabs.front())) << "replicated state is on every node";
  }
  run_ranks_as_threads(4, [&](ProcessGroup& group) {
    const CheckpointContents now = state_of(10, group.rank(), 4, 1);
    const auto bytes = LocalCopies::bytes_of_node(group, NodeLayout({"a", "b", "c", "d"}),
                                                  now.model, now.optimizer);
    EXPECT_EQ(bytes, 800 + rows * width * 4 + rows * width * 2);
  });
}

TEST(PartnerCopies, OfTwoLostNeighboursAreMissedAndOfTwoOthersAreNot) {
  const Job saved = job("two", 4, 1);
  saved.save({10});
  const fs::path run = test::scratch("two_run");
  EXPECT_EQ(bring_back(run, {saved.folder(0), saved.folder(1)}, 2,
                       "is whole in none of the 2 copies that are left"),
            std::nullopt);
  EXPECT_TRUE(fs::is_empty(run));
  const auto found = bring_back(run, {saved.folder(0), saved.folder(2)}, 3);
  ASSERT_EQ(found, checkpoint_path(run, 10));
  expect_whole(*found, 10);
}

TEST(PartnerCopies, AnOlderStepIsTakenIfTheNewerIsNotWhole) {
  const Job saved = job("older", 3, 1);
  saved.save({10, 20});
  for (const int node : {0, 1}) fs::remove(list_local_copies(saved.folder(node), "s")[0].path);
  const fs::path run = test::scratch("older_run");
  const auto found = bring_back(run, {saved.folder(0), saved.folder(1), saved.folder(2)}, 3,
                                "the copy of step 20 in");
  ASSERT_EQ(found, checkpoint_path(run, 10));
  expect_whole(*found, 10);
}

TEST(PartnerCopies, DamagedBytesAreReadFromTheOtherNodeThatHasThem) {
  const Job saved = job("damaged", 2, 1);
  saved.save({10});
  const fs::path file = list_local_copies(saved.folder(0), "s").front().path;
  const CheckpointFile copy(file);
  const DatasetEntry* cut = copy.manifest().find("/model/cut");
  File::open_for_writing(file).write_at(cut->offset + 4000, "damage", 6);
  const fs::path run = test::scratch("damaged_run");
  EXPECT_EQ(
      bring_back(run, {saved.folder(0)}, 1, "/model/cut, bytes 0 to 1199999, is whole in none"),
      std::nullopt);
  const auto found = bring_back(run, {saved.folder(0), saved.folder(1)}, 2);
  ASSERT_TRUE(found);
  expect_whole(*found, 10);
}

TEST(PartnerCopies, AFailureOnOneNodeIsEveryRanksAndTheEarlierCopyStays) {
  const Job saved = job("fails", 3, 1);
  for (int node = 0; node < 3; ++node) fs::create_directories(saved.folder(node));
  run_ranks_as_threads(3, [&](ProcessGroup& group) {
    LocalCopies copies(group.split(0, group.rank()), NodeLayout({"a", "b", "c"}),
                       saved.folder(group.rank()), "s");
    copies.save(state_of(10, group.rank(), 3, 1));
    group.barrier();
    if (group.rank() == 1) fs::rename(saved.folder(1), saved.folder(9));
    group.barrier();
    const std::string error =
        test::checkpoint_error_of([&] { copies.save(state_of(20, group.rank(), 3, 1)); });
    EXPECT_TRUE(test::contains(error, "rank 1 of 3")) << error;
    group.barrier();
    if (group.rank() == 1) fs::rename(saved.folder(9), saved.folder(1));
  });
  const fs::path run = test::scratch("fails_run");
  const auto found = bring_back(run, {saved.folder(0), saved.folder(1), saved.folder(2)}, 3);
  ASSERT_EQ(found, checkpoint_path(run, 10));
  expect_whole(*found, 10);
}

}  // namespace
}  // namespace lockstep
