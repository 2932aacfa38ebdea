#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

TEST(FakeGroup, PlaysOneRankOfAnySize) {
  FakeGroup group(4096, 3071);
  EXPECT_EQ(group.size(), 4096);
  EXPECT_EQ(group.rank(), 3071);
  EXPECT_STREQ(group.backend(), "fake");
  EXPECT_THROW(FakeGroup(4, 4), InputError);
  EXPECT_THROW(FakeGroup(4, -1), InputError);
  EXPECT_THROW(FakeGroup(0, 0), InputError);
}

TEST(FakeGroup, LeavesTensorsAndIsOverAtOnce) {
  FakeGroup group(1000, 7);
  const Tensor t = Tensor::from(std::vector<float>{1, 2, 3}, {3});
  EXPECT_TRUE(group.all_reduce(t, ReduceOp::sum).test());
  group.broadcast(t, 999).wait();
  EXPECT_EQ(t.to_vector<float>(), (std::vector<float>{1, 2, 3}));
}

TEST(FakeGroup, GathersTheCallersInputFromEveryRank) {
  FakeGroup group(5, 2);
  const Tensor output = Tensor::zeros({5, 2});
  group.all_gather(Tensor::from(std::vector<float>{3, 4}, {2}), output).wait();
  EXPECT_EQ(output.to_vector<float>(), (std::vector<float>{3, 4, 3, 4, 3, 4, 3, 4, 3, 4}));
  EXPECT_EQ(all_gather_object(group, "here"), std::vector<std::string>(5, "here"));
}

TEST(FakeGroup, ChecksArgumentsAsEveryBackendDoes) {
  FakeGroup group(4, 0);
  EXPECT_THROW(static_cast<void>(group.broadcast(Tensor::zeros({3}), 4)), ShapeError);
  EXPECT_THROW(static_cast<void>(group.all_gather(Tensor::zeros({3}), Tensor::zeros({3, 3}))),
               ShapeError);
  EXPECT_THROW(static_cast<void>(group.all_reduce(Tensor(), ReduceOp::sum)), ShapeError);
}

TEST(FakeGroup, CountsWhatTheRankWouldSend) {
  FakeGroup group(8, 1);
  static_cast<void>(group.all_reduce(Tensor::zeros({100}), ReduceOp::sum));
  static_cast<void>(group.all_gather(Tensor::zeros({10}), Tensor::zeros({8, 10})));
  group.barrier();
  EXPECT_EQ(group.traffic().operations, 3);
  EXPECT_EQ(group.traffic().bytes, 440);
}

TEST(FakeGroup, RefusesCallsAfterClose) {
  FakeGroup group(2, 0);
  group.close();
  EXPECT_THROW(group.barrier(), CommError);
}

}  // namespace
}  // namespace lockstep
