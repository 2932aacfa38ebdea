// One rank of a group whose other ranks do not exist, in every call, at sizes that no machine has
// at hand.
#include <array>
#include <numeric>

#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

using Counts = std::vector<std::int64_t>;
using Values = std::vector<float>;

constexpr float untouched = -1;

/// A rank of a group; `root` is this rank, `other` is not (of one rank it is this one too).
struct Place {
  int size, rank, other;
  friend void PrintTo(const Place& place, std::ostream* out) {
    *out << "rank " << place.rank << " of " << place.size;
  }
};

class FakeCalls : public testing::TestWithParam<Place> {
 protected:
  [[nodiscard]] static Tensor tensor_of(const Values& values) {
    return Tensor::from(values, {std::ssize(values)});
  }
  [[nodiscard]] static Tensor blank(const Shape& shape) { return Tensor::full(shape, untouched); }
  [[nodiscard]] static Values blanks(std::int64_t n) {
    return Values(static_cast<std::size_t>(n), untouched);
  }
  /// 0, 1, 2, ... in `shape`.
  [[nodiscard]] static Tensor counted(const Shape& shape) {
    Values values(static_cast<std::size_t>(shape.numel()));
    std::iota(values.begin(), values.end(), 0.0F);
    return Tensor::from(values, shape);
  }
  /// `row` of every rank of the group.
  [[nodiscard]] Values of_every_rank(const Values& row) const {
    Values all;
    for (int r = 0; r < group.size(); ++r) all.insert(all.end(), row.begin(), row.end());
    return all;
  }
  /// Rank r has 1 + r % 2 rows.
  [[nodiscard]] Counts uneven() const {
    Counts counts;
    for (int r = 0; r < group.size(); ++r) counts.push_back(1 + r % 2);
    return counts;
  }
  [[nodiscard]] std::int64_t before(const Counts& counts) const {
    return std::accumulate(counts.begin(), counts.begin() + root, std::int64_t{0});
  }
  [[nodiscard]] static std::int64_t total(const Counts& counts) {
    return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  }

  FakeGroup group{GetParam().size, GetParam().rank};
  const int root = GetParam().rank, other = GetParam().other;
};

TEST_P(FakeCalls, AllReduceReturnsTheInput) {
  for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::min, ReduceOp::max}) {
    const Tensor t = tensor_of({1, 2, 3}), output = blank({3});
    EXPECT_TRUE(group.all_reduce(t, op).test());
    EXPECT_EQ(t.to_vector<float>(), (Values{1, 2, 3}));
    group.all_reduce(t, output, op).wait();
    EXPECT_EQ(output.to_vector<float>(), (Values{1, 2, 3}));
  }
}

TEST_P(FakeCalls, ReduceReturnsTheRootsInputAndLeavesOthersAlone) {
  const Tensor t = tensor_of({1, 2, 3}), output = blank({3});
  group.reduce(t, root, ReduceOp::sum).wait();
  group.reduce(t, output, root, ReduceOp::sum).wait();
  EXPECT_EQ(t.to_vector<float>(), (Values{1, 2, 3}));
  EXPECT_EQ(output.to_vector<float>(), (Values{1, 2, 3}));
  if (other == root) return;
  output.fill(untouched);
  group.reduce(t, output, other, ReduceOp::sum).wait();
  EXPECT_EQ(t.to_vector<float>(), (Values{1, 2, 3}));
  EXPECT_EQ(output.to_vector<float>(), blanks(3));
}

TEST_P(FakeCalls, BroadcastLeavesTheTensorForEveryRoot) {
  const Tensor t = tensor_of({1, 2, 3});
  group.broadcast(t, root).wait();
  group.broadcast(t, other).wait();
  EXPECT_EQ(t.to_vector<float>(), (Values{1, 2, 3}));
}

TEST_P(FakeCalls, GathersFillEveryPlaceWithTheCallersInput) {
  const Tensor mine = tensor_of({3, 4}), all = blank({group.size(), 2});
  group.all_gather(mine, all).wait();
  EXPECT_EQ(all.to_vector<float>(), of_every_rank({3, 4}));
  all.fill(untouched);
  group.gather(mine, all, root).wait();
  EXPECT_EQ(all.to_vector<float>(), of_every_rank({3, 4}));
  if (other == root) return;
  all.fill(untouched);
  group.gather(mine, all, other).wait();
  EXPECT_EQ(all.to_vector<float>(), blanks(2 * group.size()));
}

TEST_P(FakeCalls, GathersInPlaceFillTheOtherPlacesToo) {
  const Tensor all = blank({group.size(), 2});
  const Tensor mine = all.slice(root, root + 1).reshape({2});
  mine.copy_from(tensor_of({3, 4}));
  group.all_gather(mine, all).wait();
  EXPECT_EQ(all.to_vector<float>(), of_every_rank({3, 4}));
}

TEST_P(FakeCalls, UnevenGathersFillEachPlaceAsFarAsTheInputGoes) {
  const Counts counts = uneven();
  const std::int64_t rows = counts[static_cast<std::size_t>(root)];
  const Tensor mine = counted({rows, 2});
  Values expected;
  for (const std::int64_t count : counts) {
    for (int i = 0; i < 2 * count; ++i) {
      expected.push_back(i < 2 * rows ? static_cast<float>(i) : untouched);
    }
  }
  const Tensor all = blank({total(counts), 2});
  group.all_gather_v(mine, all, counts).wait();
  EXPECT_EQ(all.to_vector<float>(), expected);
  all.fill(untouched);
  group.gather_v(mine, all, counts, root).wait();
  EXPECT_EQ(all.to_vector<float>(), expected);
}

TEST_P(FakeCalls, ScattersGiveOnlyTheRootItsRows) {
  const auto me = static_cast<float>(root);
  const Tensor output = blank({2});
  group.scatter(counted({group.size(), 2}), output, root).wait();
  EXPECT_EQ(output.to_vector<float>(), (Values{2 * me, 2 * me + 1}));

  const Counts counts = uneven();
  const std::int64_t rows = counts[static_cast<std::size_t>(root)];
  const Tensor uneven_output = blank({rows});
  group.scatter_v(counted({total(counts)}), uneven_output, counts, root).wait();
  EXPECT_EQ(uneven_output.to_vector<float>().front(), static_cast<float>(before(counts)));
  EXPECT_EQ(uneven_output.to_vector<float>().back(), static_cast<float>(before(counts) + rows - 1));

  if (other == root) return;
  output.fill(untouched);
  group.scatter(Tensor(), output, other).wait();
  EXPECT_EQ(output.to_vector<float>(), blanks(2));
}

TEST_P(FakeCalls, ReduceScatterGivesTheCallersOwnRows) {
  const auto me = static_cast<float>(root);
  const Tensor output = blank({2});
  group.reduce_scatter(counted({group.size(), 2}), output, ReduceOp::sum).wait();
  EXPECT_EQ(output.to_vector<float>(), (Values{2 * me, 2 * me + 1}));

  const Counts counts = uneven();
  const std::int64_t rows = counts[static_cast<std::size_t>(root)];
  const Tensor uneven_output = blank({rows});
  group.reduce_scatter_v(counted({total(counts)}), uneven_output, counts, ReduceOp::max).wait();
  EXPECT_EQ(uneven_output.to_vector<float>().front(), static_cast<float>(before(counts)));
  EXPECT_EQ(uneven_output.to_vector<float>().back(), static_cast<float>(before(counts) + rows - 1));
}

TEST_P(FakeCalls, AllToAllBringsTheCallersOwnRowsFromEveryRank) {
  const auto me = static_cast<float>(root);
  const Tensor output = blank({group.size(), 2});
  group.all_to_all(counted({group.size(), 2}), output).wait();
  EXPECT_EQ(output.to_vector<float>(), of_every_rank({2 * me, 2 * me + 1}));

  // Every rank is sent one row, and sends this one two: the second cannot be known.
  const Counts one(static_cast<std::size_t>(group.size()), 1), two(one.size(), 2);
  const Tensor uneven_output = blank({2 * group.size()});
  group.all_to_all_v(counted({group.size()}), uneven_output, one, two).wait();
  EXPECT_EQ(uneven_output.to_vector<float>(), of_every_rank({me, untouched}));
}

TEST_P(FakeCalls, MessagesCompleteWithoutAPeer) {
  const Tensor t = tensor_of({1, 2});
  group.send(t, other, 7);
  EXPECT_EQ(group.recv(t, other, 7), -1);
  EXPECT_EQ(group.recv(t, any_source), -1);
  const std::array messages{P2POp{P2POp::Kind::isend, t, other},
                            P2POp{P2POp::Kind::irecv, t, other}};
  EXPECT_TRUE(batch_isend_irecv(group, messages).test());
  EXPECT_EQ(t.to_vector<float>(), (Values{1, 2}));
}

TEST_P(FakeCalls, CoalescedCallsAreCarriedOut) {
  const Tensor all = blank({group.size(), 1});
  Coalescing coalescing(group);
  static_cast<void>(group.all_reduce(tensor_of({1}), ReduceOp::sum));
  static_cast<void>(group.all_gather(tensor_of({5}), all));
  EXPECT_TRUE(coalescing.end().test());
  EXPECT_EQ(all.to_vector<float>(), of_every_rank({5}));
}

TEST_P(FakeCalls, ObjectsAndBuffersAreAsOnEveryGroup) {
  EXPECT_EQ(all_gather_object(group, "here"),
            std::vector<std::string>(static_cast<std::size_t>(group.size()), "here"));
  for (const int from : {root, (root + 1) % group.size()})
    EXPECT_EQ(broadcast_object(group, "mine", from), "mine");
  EXPECT_EQ(all_reduce_scalar(group, 2.5, ReduceOp::max), 2.5);
  EXPECT_EQ(group.shared_buffer({2, 2}, DType::f64).to_vector<double>(), std::vector<double>(4));
}

TEST_P(FakeCalls, SplitKeepsAllRanksExceptForANegativeColour) {
  const auto half = group.split(3, -root);
  ASSERT_TRUE(half);
  EXPECT_EQ(half->size(), group.size());
  EXPECT_EQ(half->rank(), group.rank());
  EXPECT_STREQ(half->backend(), "fake");
  EXPECT_EQ(group.split(-1, 0)->rank(), -1);
}

TEST_P(FakeCalls, NewGroupIsOfTheRanksInTheirOrder) {
  const std::array alone{root};
  EXPECT_EQ(group.new_group(alone)->size(), 1);
  if (other != root) {
    const std::vector<int> pair{other, root}, without{other};
    const auto made = group.new_group(pair);
    EXPECT_EQ(made->size(), 2);
    EXPECT_EQ(made->rank(), 1);
    const Tensor both = blank({2, 1});
    made->all_gather(tensor_of({6}), both).wait();
    EXPECT_EQ(both.to_vector<float>(), (Values{6, 6}));
    EXPECT_EQ(group.new_group(without)->rank(), -1);
  }
  const std::vector<int> twice{root, root}, beyond{root, group.size()}, negative{-1};
  EXPECT_THROW(static_cast<void>(group.new_group(twice)), InputError);
  EXPECT_THROW(static_cast<void>(group.new_group(beyond)), InputError);
  EXPECT_THROW(static_cast<void>(group.new_group(negative)), InputError);
  EXPECT_THROW(static_cast<void>(group.new_group({})), InputError);
}

TEST_P(FakeCalls, WrongArgumentsAreRefusedAsByEveryBackend) {
  const int n = group.size();
  const Tensor t = blank({3}), all = blank({n, 3}), many = blank({n + 1, 3});
  const Counts short_by_one(static_cast<std::size_t>(n - 1), 1);
  const auto refused = [](const auto& call) {
    EXPECT_THROW(static_cast<void>(call()), ShapeError);
  };
  refused([&] { return group.all_reduce(Tensor(), ReduceOp::sum); });
  refused([&] { return group.all_reduce(t, many, ReduceOp::sum); });
  refused([&] { return group.reduce(t, n, ReduceOp::sum); });
  refused([&] { return group.broadcast(t, n); });
  refused([&] { return group.all_gather(t, many); });
  refused([&] { return group.all_gather_v(all, all, short_by_one); });
  refused([&] { return group.gather(t, many, root); });
  refused([&] { return group.gather_v(all, all, short_by_one, root); });
  refused([&] { return group.scatter(many, t, root); });
  refused([&] { return group.scatter_v(all, all, short_by_one, root); });
  refused([&] { return group.reduce_scatter(many, t, ReduceOp::sum); });
  refused([&] { return group.reduce_scatter_v(all, all, short_by_one, ReduceOp::sum); });
  refused([&] { return group.all_to_all(all, many); });
  refused([&] { return group.all_to_all_v(all, many, short_by_one, short_by_one); });
  refused([&] { return group.isend(t, n); });
  refused([&] { return group.irecv(t, -2); });
  EXPECT_EQ(group.traffic().operations, 0) << "refused before anything is sent";
}

TEST_P(FakeCalls, TrafficCountsTheRanksOwnBytes) {
  const int n = group.size();
  const auto bytes_of = [&](const auto& call) {
    const auto before = group.traffic();
    call();
    EXPECT_EQ(group.traffic().operations - before.operations, 1);
    return group.traffic().bytes - before.bytes;
  };
  const Tensor row = blank({10}), all = blank({n, 10}), others = blank({n, 10});
  EXPECT_EQ(bytes_of([&] { group.all_reduce(row, ReduceOp::sum).wait(); }), 40);
  EXPECT_EQ(bytes_of([&] { group.all_gather(row, all).wait(); }), 40);
  EXPECT_EQ(bytes_of([&] { group.gather(row, all, other).wait(); }), 40);
  EXPECT_EQ(bytes_of([&] { group.reduce_scatter(all, row, ReduceOp::sum).wait(); }), 40 * n);
  EXPECT_EQ(bytes_of([&] { group.all_to_all(all, others).wait(); }), 40 * n);
  EXPECT_EQ(bytes_of([&] { group.scatter(all, row, root).wait(); }), 40 * n);
  EXPECT_EQ(bytes_of([&] { group.broadcast(row, root).wait(); }), 40);
  EXPECT_EQ(bytes_of([&] { group.send(row, other); }), 40);
  EXPECT_EQ(bytes_of([&] { group.recv(row, other); }), 0);
  EXPECT_EQ(bytes_of([&] { group.barrier(); }), 0);
  if (other == root) return;
  EXPECT_EQ(bytes_of([&] { group.scatter(Tensor(), row, other).wait(); }), 0);
  EXPECT_EQ(bytes_of([&] { group.broadcast(row, other).wait(); }), 0);
}

TEST_P(FakeCalls, AreRefusedAfterClose) {
  const Tensor t = blank({1}), all = blank({group.size(), 1});
  const std::array alone{root};
  group.close();
  group.close();
  EXPECT_THROW(group.barrier(), CommError);
  EXPECT_THROW(static_cast<void>(group.all_reduce(t, ReduceOp::sum)), CommError);
  EXPECT_THROW(static_cast<void>(group.all_gather(t, all)), CommError);
  EXPECT_THROW(group.send(t, other), CommError);
  EXPECT_THROW(static_cast<void>(group.recv(t, other)), CommError);
  EXPECT_THROW(static_cast<void>(group.split(0, 0)), CommError);
  EXPECT_THROW(static_cast<void>(group.new_group(alone)), CommError);
}

INSTANTIATE_TEST_SUITE_P(Ranks, FakeCalls,
                         testing::Values(Place{1, 0, 0}, Place{3, 0, 2}, Place{3, 1, 0},
                                         Place{4096, 0, 1}, Place{4096, 3071, 4095}),
                         [](const auto& test) {
                           return std::to_string(test.param.rank) + "Of" +
                                  std::to_string(test.param.size);
                         });

TEST(FakeGroup, PlaysOneRankOfAnySize) {
  const FakeGroup group(4096, 3071);
  EXPECT_EQ(group.size(), 4096);
  EXPECT_EQ(group.rank(), 3071);
  EXPECT_STREQ(group.backend(), "fake");
  EXPECT_THROW(FakeGroup(4, 4), InputError);
  EXPECT_THROW(FakeGroup(4, -1), InputError);
  EXPECT_THROW(FakeGroup(0, 0), InputError);
}

TEST(FakeGroup, TakesTensorsOfADevice) {
  FakeGroup group(4, 1);
  const Device device{DeviceType::sim, 0};
  const auto mine = Tensor::full({3}, 2.0, DType::f32, device);
  const auto all = Tensor::zeros({4, 3}, DType::f32, device);
  group.all_gather(mine, all).wait();
  EXPECT_EQ(all.to_vector<float>(), Values(12, 2.0F));
}

}  // namespace
}  // namespace lockstep
