// broadcast, gather, scatter: one rank is the root.
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>

namespace lockstep {
namespace {

using test::Arena;
using test::Counts;

/// Runs claim(group, arena, dtype, root) for every dtype and, over the dtypes, every root.
template <class F>
void for_every_dtype_and_root(const F& claim) {
  test::on_every_group([&](ProcessGroup& everybody) {
    const auto in_place = [&](ProcessGroup& group, Arena& arena) {
      for (const DType dtype : test::every_dtype) {
        for (int root = 0; root < group.size(); ++root) {
          SCOPED_TRACE(std::string(name_of(dtype)) + ", root " + std::to_string(root));
          claim(group, arena, dtype, root);
          EXPECT_TRUE(arena.guards_hold());
        }
      }
    };
    test::in_every_place(in_place, everybody);
  });
}

TEST(Broadcast, CopiesTheRootsElements) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    for (const std::int64_t n : {0, 1, 31, 2001}) {
      arena.reset();
      const auto t = arena.take({n}, dtype, test::values(dtype, group.rank(), n));
      const auto scalar = arena.take({}, dtype, test::values(dtype, group.rank(), 1));
      group.broadcast(t, root).wait();
      group.broadcast(scalar, root).wait();
      EXPECT_EQ(test::values_of(t), test::values(dtype, root, n));
      EXPECT_EQ(test::values_of(scalar), test::values(dtype, root, 1));
    }
  });
}

TEST(Gather, GivesTheRootEveryRanksInputInRankOrder) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool gets = group.rank() == root;
    for (const std::int64_t n : {0, 1, 31, 501}) {
      arena.reset();
      const auto input = arena.take({n}, dtype, test::values(dtype, group.rank(), n));
      const auto output = gets ? arena.take({group.size(), n}, dtype) : Tensor();
      group.gather(input, output, root).wait();
      if (gets) {
        EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
      }
      EXPECT_EQ(test::values_of(input), test::values(dtype, group.rank(), n));
    }
  });
}

TEST(Gather, TakesTheRootsInputFromItsRowOfTheOutput) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool gets = group.rank() == root;
    for (const std::int64_t n : {3, 501}) {
      arena.reset();
      const auto output = gets ? arena.take({group.size(), n}, dtype) : Tensor();
      const auto input = gets ? output.slice(root, root + 1).reshape({n}) : arena.take({n}, dtype);
      test::set_values(input, test::values(dtype, group.rank(), n));
      group.gather(input, output, root).wait();
      if (gets) {
        EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
      }
    }
  });
}

TEST(Gather, GathersScalars) {
  test::on_every_group([](ProcessGroup& group) {
    const bool gets = group.rank() == group.size() - 1;
    const auto mine = Tensor::full({}, group.rank() + 1, DType::i64);
    const auto all = gets ? Tensor::empty({group.size()}, DType::i64) : Tensor();
    group.gather(mine, all, group.size() - 1).wait();
    for (int r = 0; gets && r < group.size(); ++r) {
      EXPECT_EQ(all.to_vector<std::int64_t>()[static_cast<std::size_t>(r)], r + 1);
    }
  });
}

TEST(GatherV, TakesOtherCountsFromEveryRank) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool gets = group.rank() == root;
    const Counts counts = test::uneven(group.size());
    const std::int64_t mine = counts[static_cast<std::size_t>(group.rank())];
    for (const std::int64_t row : {0, 1, 5}) {
      arena.reset();
      const auto input =
          arena.take({mine, row}, dtype, test::values(dtype, group.rank(), mine * row));
      const auto output = gets ? arena.take({test::total(counts), row}, dtype) : Tensor();
      group.gather_v(input, output, counts, root).wait();
      if (gets) {
        EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, counts, row));
      }
    }
  });
}

TEST(Scatter, GivesEveryRankItsRowOfTheRootsInput) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool brings = group.rank() == root;
    for (const std::int64_t n : {0, 1, 31, 501}) {
      arena.reset();
      const auto all = test::of_all_ranks(dtype, group.size(), n);
      const auto input = brings ? arena.take({group.size(), n}, dtype, all) : Tensor();
      const auto output = arena.take({n}, dtype);
      group.scatter(input, output, root).wait();
      EXPECT_EQ(test::values_of(output), test::values(dtype, group.rank(), n));
      if (brings) {
        EXPECT_EQ(test::values_of(input), all);
      }
    }
  });
}

TEST(Scatter, LeavesTheRootsRowWhereItIs) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool brings = group.rank() == root;
    for (const std::int64_t n : {3, 501}) {
      arena.reset();
      const auto all = test::of_all_ranks(dtype, group.size(), n);
      const auto input = brings ? arena.take({group.size(), n}, dtype, all) : Tensor();
      const auto output =
          brings ? input.slice(root, root + 1).reshape({n}) : arena.take({n}, dtype);
      group.scatter(input, output, root).wait();
      EXPECT_EQ(test::values_of(output), test::values(dtype, group.rank(), n));
      if (brings) {
        EXPECT_EQ(test::values_of(input), all);
      }
    }
  });
}

TEST(Scatter, ScattersScalars) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size();
    const auto all = group.rank() == 0
                         ? test::tensor_of({n}, DType::f16, test::values(DType::f16, 9, n))
                         : Tensor();
    const auto mine = Tensor::empty({}, DType::f16);
    group.scatter(all, mine, 0).wait();
    EXPECT_EQ(mine.item(), test::values(DType::f16, 9, n)[static_cast<std::size_t>(group.rank())]);
  });
}

TEST(ScatterV, GivesOtherCountsToEveryRank) {
  for_every_dtype_and_root([](ProcessGroup& group, Arena& arena, DType dtype, int root) {
    const bool brings = group.rank() == root;
    const Counts counts = test::uneven(group.size());
    const std::int64_t mine = counts[static_cast<std::size_t>(group.rank())];
    for (const std::int64_t row : {0, 1, 5}) {
      arena.reset();
      const auto input = brings ? arena.take({test::total(counts), row}, dtype,
                                             test::of_all_ranks(dtype, counts, row))
                                : Tensor();
      const auto output = arena.take({mine, row}, dtype);
      group.scatter_v(input, output, counts, root).wait();
      EXPECT_EQ(test::values_of(output), test::values(dtype, group.rank(), mine * row));
    }
  });
}

}  // namespace
}  // namespace lockstep
