#include <lockstep/checkpoint/save/plan.hpp>

#include <gtest/gtest.h>

#include <array>

#include <checkpoint/sample.hpp>
#include <lockstep/checkpoint/save/chunks.hpp>

namespace lockstep {
namespace {

using test::checkpoint_error_of;
using test::contains;
using test::pattern;

DatasetEntry dataset_of(std::int64_t elements) {
  DatasetEntry entry;
  entry.dtype = DType::f32;
  entry.shape = Shape{elements};
  entry.slabs = cut_slabs(0, entry.bytes());
  return entry;
}

TEST(CutSlabs, CoverEveryByteOnceAlsoBeyondTwoToThe31) {
  const std::int64_t begin = 12, bytes = (std::int64_t{5} << 30) + 3;
  std::int64_t end = begin;
  for (const auto& slab : cut_slabs(begin, bytes)) {
    EXPECT_EQ(slab.begin, end);
    EXPECT_GT(slab.bytes, 0);
    EXPECT_LE(slab.bytes, slab_bytes);
    end += slab.bytes;
  }
  EXPECT_EQ(end, begin + bytes);
  EXPECT_TRUE(cut_slabs(5, 0).empty());
}

TEST(CutChunks, CoverEveryByteOnceInPlacesWhereHdf5HasChunks) {
  for (const Shape& shape :
       {Shape{5}, Shape{3'000'000}, Shape{1200, 1000}, Shape{2, 3, 1000, 700},
        Shape{1, 1, 4096, 512}, Shape{3, 1, 2'000'000}, Shape{2, 1, 2'097'152, 1},
        Shape{1'048'576, 7}, Shape{7, 1'048'576}, Shape{9, 2, 1'048'577}}) {
    DatasetEntry entry;
    entry.dtype = DType::f32;
    entry.shape = shape;
    const Shape chunk = chunk_shape(entry);
    std::int64_t end = 0;
    for (const auto& slab : cut_chunks(entry)) {
      EXPECT_EQ(slab.begin, end) << to_string(shape);
      EXPECT_EQ(slab.chunk.full, chunk.numel() * 4);
      EXPECT_LE(slab.chunk.full, slab_bytes);
      EXPECT_GT(2 * slab.chunk.full, std::min(slab_bytes, entry.bytes())) << "not in slivers";
      const Shape at = first_element(entry, slab);
      std::int64_t elements = 1;
      for (int d = 0; d < shape.dims(); ++d) {
        EXPECT_EQ(at[d] % chunk[d], 0) << to_string(shape);
        elements *= std::min(chunk[d], shape[d] - at[d]);
      }
      EXPECT_EQ(slab.bytes, elements * 4) << to_string(shape) << " from " << to_string(at);
      end += slab.bytes;
    }
    EXPECT_EQ(end, entry.bytes()) << to_string(shape);
  }
}

TEST(DealReplicated, GivesEachRankAConnectedShareEqualToWithinASlab) {
  for (const int ranks : {1, 2, 3, 7, 64}) {
    // 20 GB, a sliver, 3 GB, a sliver
    std::vector<DatasetEntry> entries{dataset_of(5'000'000'000), dataset_of(10),
                                      dataset_of(750'000'001), dataset_of(1)};
    std::vector<DatasetEntry*> pointers;
    std::int64_t total = 0;
    for (auto& entry : entries) {
      pointers.push_back(&entry);
      total += entry.bytes();
    }
    deal_replicated(pointers, ranks);
    std::vector<std::int64_t> share(static_cast<std::size_t>(ranks), 0);
    int last = 0;
    for (const auto& entry : entries) {
      for (const auto& slab : entry.slabs) {
        EXPECT_GE(slab.owner, last) << "shares are connected";
        last = slab.owner;
        share.at(static_cast<std::size_t>(slab.owner)) += slab.bytes;
      }
    }
    for (const auto bytes : share)
      EXPECT_LE(std::abs(bytes - total / ranks), slab_bytes + ranks) << ranks << " ranks";
  }
}

TEST(DealReplicated, IsHappyWithMoreRanksThanBytes) {
  auto entry = dataset_of(1);
  deal_replicated({&entry}, 1000);
  EXPECT_LT(entry.slabs.at(0).owner, 1000);
  auto empty = dataset_of(0);
  deal_replicated({&empty}, 3);
  EXPECT_TRUE(empty.slabs.empty());
}

TEST(CheckName, RefusesNamesThatHdf5WouldReadAsAnotherPath) {
  for (const char* good : {"conv1.weight", "a/b", ".a", "a..b", "w\xc3\xa4rme"})
    EXPECT_NO_THROW(check_name(good)) << good;
  for (const char* bad : {"", "/", "/a", "a/", "a//b", ".", "a/../b", "a\nb", "./a"})
    EXPECT_THROW(check_name(bad), Error) << bad;
}

TEST(PlanState, NamesTheFirstTensorInWhichRanksDiffer) {
  run_ranks_as_threads(3, [](ProcessGroup& group) {
    StateDict model;
    model.insert("a", Tensor::zeros({2}));
    model.insert("b", Tensor::zeros({group.rank() == 2 ? 4 : 3}));
    const auto error =
        checkpoint_error_of([&] { static_cast<void>(plan_state(group, model, {})); });
    EXPECT_TRUE(contains(error,
                         "ranks 0 and 2 hold different tensors: '/model/b f32[3]' against "
                         "'/model/b f32[4]'"))
        << error;
  });
}

TEST(PlanState, RefusesShardsThatOverlapOrLeaveAGapOnAllRanks) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    StateDict gap, short_of, overlap;
    const auto rows = Tensor::zeros({2, 3});
    gap.insert("a", rows, Placement::rows(rows, group.rank() * 3, 5));
    short_of.insert("a", rows, Placement::rows(rows, group.rank() * 2, 5));
    overlap.insert("a", rows, Placement::rows(rows, group.rank(), 4));
    for (const StateDict* state : {&gap, &short_of}) {
      const auto error =
          checkpoint_error_of([&] { static_cast<void>(plan_state(group, *state, {})); });
      EXPECT_TRUE(contains(error, "shards of /model/a hold 48 of its 60 bytes")) << error;
    }
    const auto error =
        checkpoint_error_of([&] { static_cast<void>(plan_state(group, overlap, {})); });
    EXPECT_TRUE(contains(error, "the parts of /model/a that ranks 0 and 1 hold overlap")) << error;
  });
}

TEST(PlanState, AShardThatCannotBeOneIsToldWithItsNumbers) {
  run_ranks_as_threads(1, [](ProcessGroup& group) {
    for (const auto& tensor : {Tensor::zeros({}), Tensor::zeros({4, 3})}) {
      StateDict model;
      model.insert("a", tensor, Placement::slab({5, 3}, {2, 0}));
      const auto error =
          checkpoint_error_of([&] { static_cast<void>(plan_state(group, model, {})); });
      EXPECT_TRUE(contains(error, "at offset [2, 0] does not fit into a tensor of shape [5, 3]"))
          << error;
    }
  });
}

TEST(PlanState, APartOfEachOfSeveralPartsHasItsRunsWhereTheWholeHasThem) {
  const Shape global{6, 2};  // three parts of two rows; rank r holds row r of each
  run_ranks_as_threads(2, [&](ProcessGroup& group) {
    Placement placement = Placement::slab(global, {group.rank(), 0});
    placement.parts = 3;
    StateDict state;
    state.insert("qkv", pattern({3, 2}), placement);
    const auto plan = plan_state(group, state, {});
    EXPECT_EQ(plan[0].entry.shape, global);
    std::vector<std::int64_t> begins;
    for (const Slab& slab : plan[0].entry.slabs) {
      if (slab.owner != group.rank()) continue;
      for (const auto& run : runs_of(slab)) begins.push_back(run.begin + 100 * run.bytes);
    }
    const std::int64_t first = 800 + 8 * group.rank();
    EXPECT_EQ(begins, (std::vector<std::int64_t>{first, first + 16, first + 32}));
  });
}

TEST(PlanState, PartsThatTheRowsDoNotMakeAreRefused) {
  run_ranks_as_threads(1, [](ProcessGroup& group) {
    for (const auto& [rows, offset, parts] :
         {std::array<std::int64_t, 3>{6, 1, 3}, {6, 0, 4}, {6, 0, 0}}) {
      Placement placement = Placement::slab({6, 2}, {offset, 0});
      placement.parts = parts;
      StateDict state;
      state.insert("qkv", pattern({rows, 2}), placement);
      const auto error =
          checkpoint_error_of([&] { static_cast<void>(plan_state(group, state, {})); });
      EXPECT_TRUE(contains(error, "does not fit into a tensor of shape [6, 2]")) << error;
    }
  });
}

TEST(PlanState, FlatRunsHaveToTileTheTensorAndToBeInIt) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    const auto error_of = [&](std::int64_t begin, std::int64_t count, bool flat = true) {
      StateDict model;
      const auto part = Tensor::zeros({count});
      model.insert("a", part,
                   flat ? Placement::flat_run({5, 3}, begin) : Placement::slab({5, 3}, {begin, 0}));
      return checkpoint_error_of([&] { static_cast<void>(plan_state(group, model, {})); });
    };
    EXPECT_EQ(error_of(group.rank() * 7, 7 + group.rank()), "");
    EXPECT_TRUE(contains(error_of(group.rank() * 7, 7), "hold 56 of its 60 bytes"));
    EXPECT_TRUE(contains(error_of(group.rank() * 6, 7 + group.rank()), "overlap"));
    EXPECT_TRUE(contains(error_of(9, 7), "does not fit into a tensor of shape [5, 3]"));
    EXPECT_TRUE(contains(error_of(0, 7, false), "does not fit"));
  });
}

TEST(PlanState, RunsOfASlabHaveToTileItAndToBeInIt) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    const auto error_of = [&](std::int64_t begin, std::int64_t count, std::int64_t column = 0) {
      const Placement slab = Placement::slab({5, 3}, {0, column});
      StateDict model;
      model.insert("a", Tensor::zeros({count}), Placement::flat_run_of(slab, {5, 2}, begin));
      return checkpoint_error_of([&] { static_cast<void>(plan_state(group, model, {})); });
    };
    const std::int64_t rank = group.rank();
    EXPECT_TRUE(contains(error_of(rank * 5, 5), "hold 40 of its 60 bytes"));
    EXPECT_TRUE(contains(error_of(rank * 4, 6), "overlap"));
    EXPECT_TRUE(contains(error_of(rank * 6, 5), "does not fit into a tensor of shape [5, 3]"));
    EXPECT_TRUE(contains(error_of(rank * 5, 5, 2), "does not fit into a tensor of shape [5, 3]"));
    EXPECT_TRUE(contains(error_of(-1, 5), "does not fit into a tensor of shape [5, 3]"));
  });
}

TEST(PlanState, AnIllegalNameOnOneRankIsToldOnAll) {
  run_ranks_as_threads(2, [](ProcessGroup& group) {
    StateDict model;
    model.insert(group.rank() == 1 ? "a/../b" : "a", Tensor::zeros({2}));
    const auto error =
        checkpoint_error_of([&] { static_cast<void>(plan_state(group, model, {})); });
    EXPECT_TRUE(contains(error, "rank 1 of 2: the state cannot be saved: 'a/../b'")) << error;
  });
}

}  // namespace
}  // namespace lockstep
