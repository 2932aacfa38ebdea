#include <lockstep/checkpoint/file/region.hpp>

#include <gtest/gtest.h>

#include <algorithm>

#include <checkpoint/sample.hpp>
#include <lockstep/base/philox.hpp>
#include <lockstep/checkpoint/file/placed_regions.hpp>
#include <lockstep/checkpoint/save/plan.hpp>
#include <lockstep/comm/fake_group.hpp>

namespace lockstep {
namespace {

using test::checkpoint_error_of;
using test::contains;

DatasetEntry entry_of(const Shape& shape) {
  DatasetEntry entry;
  entry.path = "/model/a";
  entry.dtype = DType::f32;
  entry.shape = shape;
  return entry;
}

/// The region's elements, by their index in the tensor.
std::vector<float> elements_of(const Shape& shape, const Region& region) {
  return test::part_of(test::pattern(shape), region).first.to_vector<float>();
}

/// The elements that `runs` select from a tensor whose elements count from 0.
std::vector<float> picked(const std::vector<Run>& runs) {
  std::vector<float> elements;
  std::int64_t at = 0;
  for (const Run& run : runs) {
    EXPECT_EQ(run.at, at);
    at += run.bytes;
    for (std::int64_t i = 0; i < run.bytes / 4; ++i)
      elements.push_back(static_cast<float>(run.begin / 4 + i));
  }
  return elements;
}

Region random_region(PhiloxSequence& random, const Shape& shape) {
  std::vector<std::int64_t> offsets, sizes;
  for (const std::int64_t extent : shape) {
    const bool full = random.below(3) == 0;
    const auto bound = static_cast<std::uint32_t>(extent);
    offsets.push_back(full ? 0 : random.below(bound));
    sizes.push_back(full ? extent
                         : 1 + random.below(bound - static_cast<std::uint32_t>(offsets.back())));
  }
  return {Shape(offsets), Shape(sizes)};
}

TEST(Region, ItsRunsAndItsSlabsAreItsElementsInOrder) {
  PhiloxSequence random(7, 8);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int64_t> extents;
    const auto dims = random.below(5);
    for (std::uint32_t d = 0; d < dims; ++d) extents.push_back(1 + random.below(6));
    const Shape shape(extents);
    const DatasetEntry entry = entry_of(shape);
    const Region region = random_region(random, shape);
    const auto want = elements_of(shape, region);
    EXPECT_EQ(picked(runs_of(entry, region)), want);
    std::vector<float> of_slabs;
    std::int64_t local = 0;
    for (const Slab& slab : cut_slabs(entry, region)) {
      EXPECT_EQ(slab.local, local);
      local += slab.bytes;
      const auto part = picked(runs_of(slab));
      of_slabs.insert(of_slabs.end(), part.begin(), part.end());
    }
    EXPECT_EQ(of_slabs, want) << to_string(shape);
  }
}

TEST(Region, SlabsOfLargeOnesAreAsLongAsASlabMayBe) {
  const DatasetEntry entry = entry_of({4096, 4096});
  for (const Region& region : {Region{{0, 1000}, {4096, 100}}, Region{{7, 0}, {4000, 4096}},
                               Region::whole({4096, 4096})}) {
    std::int64_t total = 0;
    const auto slabs = cut_slabs(entry, region);
    for (const Slab& slab : slabs) {
      EXPECT_LE(slab.bytes, slab_bytes);
      total += slab.bytes;
    }
    EXPECT_EQ(total, region.sizes.numel() * 4);
    EXPECT_LE(static_cast<std::int64_t>(slabs.size()), 1 + total / slab_bytes * 5 / 4);
  }
  // A run of more than a slab.
  const DatasetEntry wide = entry_of({2, 3 << 20});
  EXPECT_EQ(cut_slabs(wide, Region{{0, 0}, {2, 2 << 20}}).size(), 4U);
}

TEST(CommonRuns, AreTheOverlapOfTwoRegions) {
  PhiloxSequence random(9, 10);
  const Shape shape{5, 6, 4};
  const DatasetEntry entry = entry_of(shape);
  for (int round = 0; round < 300; ++round) {
    const Region a = random_region(random, shape), b = random_region(random, shape);
    const auto in_a = elements_of(shape, a), in_b = elements_of(shape, b);
    std::vector<float> want, got;
    for (const float element : in_a) {
      if (std::ranges::find(in_b, element) != in_b.end()) want.push_back(element);
    }
    for (const auto& [at_a, at_b, bytes] : common_runs(runs_of(entry, a), runs_of(entry, b))) {
      for (std::int64_t i = 0; i < bytes / 4; ++i) {
        const float element = in_a.at(static_cast<std::size_t>(at_a / 4 + i));
        EXPECT_EQ(in_b.at(static_cast<std::size_t>(at_b / 4 + i)), element);
        got.push_back(element);
      }
    }
    EXPECT_EQ(got, want);
  }
}

/// One region a rank.
std::vector<HeldRegion> held_by_ranks(const std::vector<Region>& regions) {
  std::vector<HeldRegion> held;
  for (const Region& region : regions)
    held.push_back({.rank = static_cast<int>(held.size()), .region = region});
  return held;
}

/// Checks that a rank that holds it writes every byte once; returns each rank's bytes.
std::vector<std::int64_t> expect_plan(const DatasetEntry& entry,
                                      const std::vector<Region>& regions) {
  std::vector<std::int64_t> loads(regions.size(), 0), written(regions.size(), 0);
  std::int64_t total = 0;
  for (const Slab& slab : plan_slabs(entry, held_by_ranks(regions), loads)) {
    const Region& region = regions.at(static_cast<std::size_t>(slab.owner));
    EXPECT_LE(slab.local + slab.bytes, region.sizes.numel() * 4);
    written.at(static_cast<std::size_t>(slab.owner)) += slab.bytes;
    total += slab.bytes;
  }
  EXPECT_EQ(total, entry.bytes());
  EXPECT_EQ(written, loads);
  return written;
}

TEST(PlanSlabs, Of4096RanksInEveryCut) {
  constexpr int ranks = 4096;
  const DatasetEntry entry = entry_of({8192, 8192});
  std::vector<Region> rows, columns, grid, pairs, owned;
  for (int r = 0; r < ranks; ++r) {
    rows.push_back({{r * 2, 0}, {2, 8192}});
    columns.push_back({{0, r * 2}, {8192, 2}});
    grid.push_back({{r / 64 * 128, r % 64 * 128}, {128, 128}});
    pairs.push_back({{r / 2 * 4, 0}, {4, 8192}});
    owned.push_back(r == 3071 ? Region::whole(entry.shape) : Region{{0, 0}, {0, 8192}});
  }
  for (const auto* each : {&rows, &columns, &grid}) {
    for (const std::int64_t bytes : expect_plan(entry, *each))
      EXPECT_EQ(bytes, entry.bytes() / ranks);
  }
  EXPECT_EQ(expect_plan(entry, owned).at(3071), entry.bytes());
  // Two ranks hold each slab; it is written once, and each rank gets one tensor.
  std::vector<std::int64_t> loads(ranks, 0);
  for (int tensor = 0; tensor < 2; ++tensor) {
    EXPECT_EQ(plan_slabs(entry, held_by_ranks(pairs), loads).size(), 2048U);
  }
  for (const std::int64_t bytes : loads) EXPECT_EQ(bytes, 4 * 8192 * 4);
}

TEST(PlanSlabs, RefusesGapsAndOverlapsInAnyDimensionNamingTheRanks) {
  const DatasetEntry entry = entry_of({4, 6});
  std::vector<std::int64_t> loads(3, 0);
  const auto error_of = [&](const std::vector<Region>& regions) {
    return checkpoint_error_of(
        [&] { static_cast<void>(plan_slabs(entry, held_by_ranks(regions), loads)); });
  };
  const Region left{{0, 0}, {4, 3}}, top_right{{0, 3}, {2, 3}}, right{{0, 3}, {4, 3}};
  EXPECT_EQ(error_of({left, right, left}), "") << "the same part twice";
  EXPECT_TRUE(contains(error_of({left, top_right, left}),
                       "the ranks' shards of /model/a hold 72 of its 96 bytes"));
  EXPECT_TRUE(contains(error_of({left, top_right, right}),
                       "the parts of /model/a that ranks 1 and 2 hold overlap"));
  EXPECT_TRUE(contains(error_of({Region{{0, 0}, {4, 4}}, right, right}), "ranks 0 and 1"));
}

TEST(PlacedRegions, OfARunOfASlabAreItsElementsInOrder) {
  PhiloxSequence random(11, 12);
  for (int round = 0; round < 400; ++round) {
    std::vector<std::int64_t> extents;
    const auto dims = 1 + random.below(4);
    for (std::uint32_t d = 0; d < dims; ++d) extents.push_back(1 + random.below(5));
    const Shape shape(extents);
    const Region slab = random_region(random, shape);
    const auto all = static_cast<std::uint32_t>(slab.sizes.numel());
    const std::int64_t begin = random.below(all + 1);
    const std::int64_t count = random.below(all - static_cast<std::uint32_t>(begin) + 1);
    auto want = elements_of(shape, slab);
    want = {want.begin() + begin, want.begin() + begin + count};
    const Placement placement =
        Placement::flat_run_of(Placement::slab(shape, slab.offsets), slab.sizes, begin);
    const auto regions = placed_regions(placement, Shape{count});
    EXPECT_LE(regions.size(), 2 * dims - 1);
    const DatasetEntry entry = entry_of(shape);
    EXPECT_EQ(picked(runs_of(entry, regions)), want) << to_string(shape) << " " << begin;
  }
}

TEST(PlanSlabs, OfRanksWithSeveralRegionsTellWhereEachLiesInTheRanksPart) {
  // Two ranks hold rows 1 to 3 of four columns from the middle of a row on, one twice; rank 0 the
  // rest.
  const DatasetEntry entry = entry_of({4, 6});
  const Region rest{{0, 0}, {1, 6}}, left{{1, 0}, {3, 2}};
  std::vector<HeldRegion> held{{0, rest, 0}, {0, left, 6 * 4}};
  const Placement slab = Placement::slab({4, 6}, {1, 2});
  const auto add = [&](int rank, std::int64_t begin, std::int64_t count) {
    std::int64_t at = 0;
    for (const Region& region :
         placed_regions(Placement::flat_run_of(slab, {3, 4}, begin), Shape{count})) {
      held.push_back({rank, region, at});
      at += region.sizes.numel() * 4;
    }
  };
  add(1, 0, 6);
  add(2, 6, 6);
  add(3, 6, 6);
  std::vector<std::int64_t> loads{0, 0, 1000, 0};
  std::vector<float> file(24, -1.0F);
  for (const Slab& part : plan_slabs(entry, held, loads)) {
    EXPECT_NE(part.owner, 2) << "has most to write";
    for (const auto& [begin, bytes, at] : runs_of(part)) {
      for (std::int64_t i = 0; i < bytes / 4; ++i) {
        // The writer's element, by its number in the slab or in the rest.
        const std::int64_t local = (part.local + at) / 4 + i;
        file.at(static_cast<std::size_t>(begin / 4 + i)) =
            static_cast<float>(100 * part.owner + local);
      }
    }
  }
  EXPECT_EQ(file, (std::vector<float>{0,  1,  2,   3,   4,   5,    //
                                      6,  7,  100, 101, 102, 103,  //
                                      8,  9,  104, 105, 300, 301,  //
                                      10, 11, 302, 303, 304, 305}));
}

TEST(PlanState, OfRank3071Of4096GivesItItsShareOfReplicatedState) {
  StateDict model;
  for (int i = 0; i < 40; ++i) model.insert("layer" + std::to_string(i), Tensor::empty({1 << 20}));
  std::vector<std::vector<int>> owners;
  for (const int rank : {0, 3071, 4095}) {
    FakeGroup group(4096, rank);
    auto& mine = owners.emplace_back();
    for (const auto& planned : plan_state(group, model, {})) {
      for (const Slab& slab : planned.entry.slabs) mine.push_back(slab.owner);
    }
  }
  EXPECT_EQ(owners[0], owners[1]);
  EXPECT_EQ(owners[0], owners[2]);
  EXPECT_EQ(owners[0].size(), 40U);
  EXPECT_TRUE(std::ranges::is_sorted(owners[0]));
  EXPECT_EQ(std::ranges::adjacent_find(owners[0]), owners[0].end()) << "a slab a rank";
  EXPECT_LT(owners[0].back(), 4096);
}

}  // namespace
}  // namespace lockstep
