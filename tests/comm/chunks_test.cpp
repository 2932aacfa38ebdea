// Data longer than GroupOptions::max_count travels in pieces: tests every collective just below, at
// and above the limit, and at several times the limit. The limit counts elements of reductions and
// bytes of copies.
#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>

namespace lockstep {
namespace {

using test::Arena;
using test::Counts;

const GroupOptions options{.timeout = std::chrono::seconds(60), .max_count = 1000};
constexpr std::int64_t lengths[] = {999, 1000, 1001, 2500};

/// claim(group, arena, n) for every length.
template <class F>
void at_every_length(const F& claim) {
  const auto on_group = [&](ProcessGroup& everybody) {
    const auto in_place = [&](ProcessGroup& group, Arena& arena) {
      for (const std::int64_t n : lengths) {
        SCOPED_TRACE(n);
        arena.reset();
        claim(group, arena, n);
        EXPECT_TRUE(arena.guards_hold());
      }
    };
    test::in_every_place(in_place, everybody, 1 << 19);
  };
  test::on_every_new_group(on_group, options);
}

/// Unequal counts with sum n, and the sum of those before this rank's.
struct Shares {
  Shares(const ProcessGroup& group, std::int64_t n) {
    std::int64_t rest = n;
    for (int r = 0; r + 1 < group.size(); ++r) {
      counts.push_back(rest / 3);
      rest -= counts.back();
    }
    counts.push_back(rest);
    mine = counts[static_cast<std::size_t>(group.rank())];
    for (int r = 0; r < group.rank(); ++r) begin += counts[static_cast<std::size_t>(r)];
  }
  Counts counts;
  std::int64_t mine = 0, begin = 0;
};

/// Elements [begin, begin + count).
std::vector<double> part(const std::vector<double>& all, std::int64_t begin, std::int64_t count) {
  return {all.begin() + begin, all.begin() + begin + count};
}

/// The reduction by max of all ranks' values(); no dtype rounds it.
std::vector<double> largest(DType dtype, int size, std::int64_t n) {
  auto result = test::values(dtype, 0, n);
  for (int r = 1; r < size; ++r) {
    const auto theirs = test::values(dtype, r, n);
    for (std::size_t i = 0; i < result.size(); ++i) result[i] = std::max(result[i], theirs[i]);
  }
  return result;
}

TEST(Chunks, AllReduceIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
      const auto mine = test::values(dtype, group.rank(), n);
      const auto t = arena.take({n}, dtype, mine), input = arena.take({n}, dtype, mine);
      const auto output = arena.take({n}, dtype);
      group.all_reduce(t, ReduceOp::max).wait();
      group.all_reduce(input, output, ReduceOp::max).wait();
      EXPECT_EQ(test::values_of(t), largest(dtype, group.size(), n));
      EXPECT_EQ(test::values_of(output), largest(dtype, group.size(), n));
      EXPECT_EQ(test::values_of(input), mine);
    }
  });
}

TEST(Chunks, ReduceIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int root = group.size() - 1;
    const bool gets = group.rank() == root;
    const auto mine = test::values(DType::f32, group.rank(), n);
    const auto t = arena.take({n}, DType::f32, mine), input = arena.take({n}, DType::f32, mine);
    const auto output = arena.take({n}, DType::f32);
    group.reduce(t, root, ReduceOp::max).wait();
    group.reduce(input, output, root, ReduceOp::max).wait();
    const auto result = largest(DType::f32, group.size(), n);
    EXPECT_EQ(test::values_of(t), gets ? result : mine);
    if (gets) {
      EXPECT_EQ(test::values_of(output), result);
    }
  });
}

TEST(Chunks, ReduceScatterIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const Shares shares(group, n);
    const auto input = arena.take({n}, DType::f32, test::values(DType::f32, group.rank(), n));
    const auto output = arena.take({shares.mine}, DType::f32);
    const auto result = largest(DType::f32, group.size(), n);
    group.reduce_scatter_v(input, output, shares.counts, ReduceOp::max).wait();
    EXPECT_EQ(test::values_of(output), part(result, shares.begin, shares.mine));
    const auto own = input.slice(shares.begin, shares.begin + shares.mine);
    group.reduce_scatter_v(input, own, shares.counts, ReduceOp::max).wait();
    EXPECT_EQ(test::values_of(own), part(result, shares.begin, shares.mine));

    const std::int64_t row = n / group.size() + 1, rows = row * group.size();
    const auto equal =
        arena.take({group.size(), row}, DType::f64, test::values(DType::f64, group.rank(), rows));
    const auto mine = arena.take({row}, DType::f64);
    group.reduce_scatter(equal, mine, ReduceOp::max).wait();
    EXPECT_EQ(test::values_of(mine),
              part(largest(DType::f64, group.size(), rows), group.rank() * row, row));
  });
}

TEST(Chunks, BroadcastIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int root = group.size() / 2;
    const auto bytes = arena.take({n}, DType::u8, test::values(DType::u8, group.rank(), n));
    const auto doubles = arena.take({n}, DType::f64, test::values(DType::f64, group.rank(), n));
    group.broadcast(bytes, root).wait();
    group.broadcast(doubles, root).wait();
    EXPECT_EQ(test::values_of(bytes), test::values(DType::u8, root, n));
    EXPECT_EQ(test::values_of(doubles), test::values(DType::f64, root, n));
  });
}

TEST(Chunks, AllGatherIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    for (const DType dtype : {DType::u8, DType::f32}) {
      const auto input = arena.take({n}, dtype, test::values(dtype, group.rank(), n));
      const auto output = arena.take({group.size(), n}, dtype);
      group.all_gather(input, output).wait();
      EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
      const auto in_place = arena.take({group.size(), n}, dtype);
      const auto row = in_place.slice(group.rank(), group.rank() + 1).reshape({n});
      test::set_values(row, test::values_of(input));
      group.all_gather(row, in_place).wait();
      EXPECT_EQ(test::values_of(in_place), test::of_all_ranks(dtype, group.size(), n));

      const Shares shares(group, n);
      const auto mine =
          arena.take({shares.mine}, dtype, test::values(dtype, group.rank(), shares.mine));
      const auto all = arena.take({n}, dtype);
      group.all_gather_v(mine, all, shares.counts).wait();
      EXPECT_EQ(test::values_of(all), test::of_all_ranks(dtype, shares.counts, 1));
    }
  });
}

TEST(Chunks, GatherIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int root = group.size() - 1;
    const bool gets = group.rank() == root;
    for (const DType dtype : {DType::u8, DType::i32}) {
      const auto input = arena.take({n}, dtype, test::values(dtype, group.rank(), n));
      const auto output = gets ? arena.take({group.size(), n}, dtype) : Tensor();
      group.gather(input, output, root).wait();
      if (gets) {
        EXPECT_EQ(test::values_of(output), test::of_all_ranks(dtype, group.size(), n));
      }

      const Shares shares(group, n);
      const auto all = gets ? arena.take({n}, dtype) : Tensor();
      group.gather_v(input.slice(0, shares.mine), all, shares.counts, root).wait();
      if (gets) {
        EXPECT_EQ(test::values_of(all), test::of_all_ranks(dtype, shares.counts, 1));
      }
    }
  });
}

TEST(Chunks, ScatterIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int root = group.size() - 1;
    const bool brings = group.rank() == root;
    for (const DType dtype : {DType::u8, DType::i32}) {
      const auto all = test::of_all_ranks(dtype, group.size(), n);
      const auto input = brings ? arena.take({group.size(), n}, dtype, all) : Tensor();
      const auto output = arena.take({n}, dtype);
      group.scatter(input, output, root).wait();
      EXPECT_EQ(test::values_of(output), test::values(dtype, group.rank(), n));

      const Shares shares(group, n);
      const auto uneven =
          brings ? arena.take({n}, dtype, test::of_all_ranks(dtype, shares.counts, 1)) : Tensor();
      const auto mine = arena.take({shares.mine}, dtype);
      group.scatter_v(uneven, mine, shares.counts, root).wait();
      EXPECT_EQ(test::values_of(mine), test::values(dtype, group.rank(), shares.mine));
    }
  });
}

TEST(Chunks, AllToAllIsExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int me = group.rank();
    const std::int64_t row = n / group.size();
    const auto input = arena.take({group.size(), row}, DType::u8);
    const auto output = arena.take({group.size(), row}, DType::u8);
    const auto long_input = arena.take({group.size(), n}, DType::f32);
    const auto long_output = arena.take({group.size(), n}, DType::f32);
    for (int to = 0; to < group.size(); ++to) {
      test::set_values(input.slice(to, to + 1), test::values(DType::u8, me, row, to));
      test::set_values(long_input.slice(to, to + 1), test::values(DType::f32, me, n, to));
    }
    group.all_to_all(input, output).wait();
    const Counts ones(static_cast<std::size_t>(group.size()), 1);
    group.all_to_all_v(long_input, long_output, ones, ones).wait();
    for (int from = 0; from < group.size(); ++from) {
      EXPECT_EQ(test::values_of(output.slice(from, from + 1)),
                test::values(DType::u8, from, row, me));
      EXPECT_EQ(test::values_of(long_output.slice(from, from + 1)),
                test::values(DType::f32, from, n, me));
    }
  });
}

TEST(Chunks, MessagesAreExact) {
  at_every_length([](ProcessGroup& group, Arena& arena, std::int64_t n) {
    const int to = (group.rank() + 1) % group.size();
    const int from = (group.rank() + group.size() - 1) % group.size();
    for (const DType dtype : {DType::u8, DType::f64}) {
      const auto sent = arena.take({n}, dtype, test::values(dtype, group.rank(), n));
      const auto received = arena.take({n}, dtype);
      auto sending = group.isend(sent, to);
      EXPECT_EQ(group.recv(received, from), from);
      sending.wait();
      EXPECT_EQ(test::values_of(received), test::values(dtype, from, n));
    }
  });
}

}  // namespace
}  // namespace lockstep
