// More than 2^31 elements on two ranks, which MPI's counts cannot hold in one call. Not for every
// run: each test touches gigabytes (label large).
#include <gtest/gtest.h>
#include <comm/backend.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t length = (std::int64_t{1} << 31) + 8;

/// Zeros, except a few bytes: the first and last, and those on both sides of every 2^30th, where
/// pieces meet.
Tensor marked(int value) {
  auto t = Tensor::zeros({length}, DType::u8);
  for (std::int64_t at = 0; at < length; at += std::int64_t{1} << 30) {
    t.slice(std::max<std::int64_t>(at - 1, 0), at + 1).fill(value);
  }
  t.slice(length - 1, length).fill(value);
  return t;
}

void expect_marks(const Tensor& t, int value) {
  const auto byte = [&](std::int64_t at) { return t.slice(at, at + 1).item(); };
  for (std::int64_t at = 0; at < length; at += std::int64_t{1} << 30) {
    EXPECT_EQ(byte(at), value) << at;
    if (at > 0) {
      EXPECT_EQ(byte(at - 1), value) << at - 1;
      EXPECT_EQ(byte(at - 2), 0) << at - 2;
    }
    EXPECT_EQ(byte(at + 1), 0) << at + 1;
  }
  EXPECT_EQ(byte(length - 1), value);
  EXPECT_EQ(byte(length - 2), 0);
}

void on_two_ranks(const test::Claim& claim) {
  test::on_every_new_group(
      [&](ProcessGroup& group) {
        if (group.size() == 2) claim(group);
      },
      {.timeout = std::chrono::seconds(120)});
}

TEST(Large, AllReduceIsExact) {
  on_two_ranks([](ProcessGroup& group) {
    const auto t = marked(group.rank() + 1);
    group.all_reduce(t, ReduceOp::sum).wait();
    expect_marks(t, 3);
  });
}

TEST(Large, BroadcastIsExact) {
  on_two_ranks([](ProcessGroup& group) {
    const auto t = group.rank() == 1 ? marked(7) : Tensor::zeros({length}, DType::u8);
    group.broadcast(t, 1).wait();
    expect_marks(t, 7);
  });
}

TEST(Large, SendAndReceiveAreExact) {
  on_two_ranks([](ProcessGroup& group) {
    if (group.rank() == 0) return group.send(marked(9), 1);
    const auto t = Tensor::zeros({length}, DType::u8);
    EXPECT_EQ(group.recv(t, 0), 0);
    expect_marks(t, 9);
  });
}

}  // namespace
}  // namespace lockstep
