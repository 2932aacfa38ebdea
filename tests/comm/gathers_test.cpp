// all_gather and reduce_scatter with counts: their equal shares are in reductions_test.cpp.
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>

namespace lockstep {
namespace {

using test::Arena;
using test::Counts;

template <class F>
void for_every_dtype(const F& claim) {
  test::on_every_group([&](ProcessGroup& everybody) {
    const auto in_place = [&](ProcessGroup& group, Arena& arena) {
      for (const DType dtype : test::every_dtype) {
        SCOPED_TRACE(std::string(name_of(dtype)));
        claim(group, arena, dtype);
        EXPECT_TRUE(arena.guards_hold());
      }
    };
    test::in_every_place(in_place, everybody);
  });
}

TEST(AllGather, PutsEveryRanksInputInRankOrder) {
  for_every_dtype([](ProcessGroup& group, Arena& arena, DType dtype) {
    for (const std::int64_t n : {0, 1, 32, 501}) {
      arena.reset();
      const auto mine = test::values(dtype, group.rank(), n);
      const auto input = arena.take({n}, dtype, mine);
      const auto output = arena.take({group.size(), n}, dtype);
      group.all_gather(input, output).wait();
      EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
      EXPECT_EQ(test::values_of(input), mine);
    }
  });
}

TEST(AllGather, TakesTheInputFromItsRowOfTheOutput) {
  for_every_dtype([](ProcessGroup& group, Arena& arena, DType dtype) {
    for (const std::int64_t n : {3, 501}) {
      arena.reset();
      const auto output = arena.take({group.size(), n}, dtype);
      const auto mine = output.slice(group.rank(), group.rank() + 1).reshape({n});
      test::set_values(mine, test::values(dtype, group.rank(), n));
      group.all_gather(mine, output).wait();
      EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
    }
  });
}

TEST(AllGather, GathersScalars) {
  for_every_dtype([](ProcessGroup& group, Arena& arena, DType dtype) {
    arena.reset();
    const auto mine = arena.take({}, dtype, test::values(dtype, group.rank(), 1));
    const auto all = arena.take({group.size()}, dtype);
    group.all_gather(mine, all).wait();
    EXPECT_EQ(test::values_of(all), test::of_all_ranks(dtype, group.size(), 1));
  });
}

TEST(AllGatherV, TakesOtherCountsFromEveryRankAlsoInPlace) {
  for_every_dtype([](ProcessGroup& group, Arena& arena, DType dtype) {
    const Counts counts = test::uneven(group.size());
    const auto me = static_cast<std::size_t>(group.rank());
    for (const std::int64_t row : {0, 1, 5}) {
      arena.reset();
      const auto mine = test::values(dtype, group.rank(), counts[me] * row);
      const auto all = test::of_all_ranks(dtype, counts, row);
      const auto input = arena.take({counts[me], row}, dtype, mine);
      const auto output = arena.take({test::total(counts), row}, dtype);
      group.all_gather_v(input, output, counts).wait();
      EXPECT_EQ(test::values_of(output), all);

      const auto in_place = arena.take({test::total(counts), row}, dtype);
      std::int64_t begin = 0;
      for (std::size_t r = 0; r < me; ++r) begin += counts[r];
      const auto own_rows = in_place.slice(begin, begin + counts[me]);
      test::set_values(own_rows, mine);
      group.all_gather_v(own_rows, in_place, counts).wait();
      EXPECT_EQ(test::values_of(in_place), all);
    }
  });
}

TEST(ReduceScatterV, GivesOtherCountsToEveryRankAlsoInPlace) {
  for_every_dtype([](ProcessGroup& group, Arena& arena, DType dtype) {
    const Counts counts = test::uneven(group.size());
    const auto me = static_cast<std::size_t>(group.rank());
    std::int64_t begin = 0;
    for (std::size_t r = 0; r < me; ++r) begin += counts[r];
    for (const std::int64_t row : {0, 1, 5}) {
      arena.reset();
      const auto mine = test::values(dtype, group.rank(), test::total(counts) * row);
      // The largest of all ranks' elements: no dtype rounds it.
      auto largest = test::values(dtype, 0, test::total(counts) * row);
      for (int r = 1; r < group.size(); ++r) {
        const auto theirs = test::values(dtype, r, test::total(counts) * row);
        for (std::size_t i = 0; i < largest.size(); ++i)
          largest[i] = std::max(largest[i], theirs[i]);
      }
      const std::vector<double> expected(largest.begin() + begin * row,
                                         largest.begin() + (begin + counts[me]) * row);
      const auto input = arena.take({test::total(counts), row}, dtype, mine);
      const auto output = arena.take({counts[me], row}, dtype);
      group.reduce_scatter_v(input, output, counts, ReduceOp::max).wait();
      EXPECT_EQ(test::values_of(output), expected);
      EXPECT_EQ(test::values_of(input), mine);

      const auto own_rows = input.slice(begin, begin + counts[me]);
      group.reduce_scatter_v(input, own_rows, counts, ReduceOp::max).wait();
      EXPECT_EQ(test::values_of(own_rows), expected);
    }
  });
}

}  // namespace
}  // namespace lockstep
