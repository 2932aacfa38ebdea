// Operations in flight: any number of them, awaited in any order, dropped, and close().
#include <thread>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

// More than the slot table and the threads backend have slots.
constexpr int in_flight = 150;

/// An operation in flight, and the expected last element of its result.
struct Started {
  Work work;
  Tensor result;
  double expected = 0;
};

/// The i-th operation, with its own kind and length.
Started start(ProcessGroup& group, int i) {
  const int n = group.size(), me = group.rank();
  const std::int64_t length = i % 5 == 0 ? 3 : 400 + i;  // some fit into a slot of the slot table
  switch (i % 4) {
    case 0: {
      const auto t = Tensor::full({length}, i + me);
      return {group.all_reduce(t, ReduceOp::sum), t, i * n + n * (n - 1) / 2.0};
    }
    case 1: {
      const auto t = Tensor::full({length}, i + me);
      return {group.broadcast(t, i % n), t, i + i % n * 1.0};
    }
    case 2: {
      const auto rows = Tensor::zeros({n, length});
      return {group.all_gather(Tensor::full({length}, i + me), rows), rows, i + n - 1.0};
    }
    default: {
      const auto part = Tensor::zeros({length});
      return {group.reduce_scatter(Tensor::full({n, length}, i), part, ReduceOp::sum), part,
              i * n * 1.0};
    }
  }
}

TEST(Work, OfAGroupWithTheLongestTimeoutDoesNotTimeOutAtOnce) {
  test::on_every_new_group(
      [](ProcessGroup& group) {
        if (group.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(50));
        EXPECT_NO_THROW(group.barrier());
      },
      {.timeout = std::chrono::milliseconds::max(), .progress = test::asked_for_progress()});
}

TEST(Work, SeveralOperationsInFlightMayBeAwaitedInAnyOrder) {
  test::on_every_group([](ProcessGroup& group) {
    std::vector<Started> all;
    for (int i = 0; i < in_flight; ++i) all.push_back(start(group, i));
    for (int i = 0; i < in_flight; ++i) {
      // Another order on every rank: 7 is coprime to their number.
      const int index = (i * 7 + group.rank() * 31) % in_flight;
      Started& one = all[static_cast<std::size_t>(index)];
      one.work.wait();
      EXPECT_EQ(test::values_of(one.result).back(), one.expected) << "operation " << index;
    }
  });
}

TEST(Work, OperationsInSharedBuffersMayBeAwaitedInAnyOrder) {
  test::on_every_group([](ProcessGroup& group) {
    test::Arena arena(group, test::Place::shared, 1 << 20);
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < in_flight; ++i) {
      tensors.push_back(arena.take({100 + i * 9}, DType::f32));
      tensors.back().fill(i + group.rank());
      works.push_back(i % 2 == 0 ? group.all_reduce(tensors.back(), ReduceOp::max)
                                 : group.broadcast(tensors.back(), i % group.size()));
    }
    for (int i = in_flight; i-- > 0;) {
      const auto index = static_cast<std::size_t>(i);
      works[index].wait();
      const int expected = i + (i % 2 == 0 ? group.size() - 1 : i % group.size());
      EXPECT_EQ(tensors[index].to_vector<float>().back(), static_cast<float>(expected)) << i;
    }
    EXPECT_TRUE(arena.guards_hold());
  });
}

TEST(Work, InASharedBufferGoesOnWhileOthersAreMade) {
  test::on_every_new_group([](ProcessGroup& group) {
    const Tensor first = group.shared_buffer({1 << 18}, DType::f32);
    for (int round = 1; round <= 12; ++round) {
      first.fill(round);
      Work work = group.all_reduce(first, ReduceOp::sum);
      const Tensor another = group.shared_buffer({64}, DType::f32);
      another.fill(group.rank());
      Work second = group.all_reduce(another, ReduceOp::max);
      work.wait();
      second.wait();
      EXPECT_EQ(first.to_vector<float>().back(), static_cast<float>(round * group.size()));
      EXPECT_EQ(another.to_vector<float>().back(), static_cast<float>(group.size() - 1));
      group.barrier();
    }
  });
}

TEST(Work, TestDrivesAnOperationToItsEnd) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({1 << 18}, 1.0);
    auto work = group.all_reduce(t, ReduceOp::sum);
    while (!work.test()) std::this_thread::yield();
    EXPECT_EQ(t.to_vector<float>().back(), group.size());
    work.wait();
    EXPECT_TRUE(Work().test());
  });
}

TEST(Work, DroppedIsCarriedOutAndItsTensorReleasedAfterwards) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({1 << 16}, 1.0);
    static_cast<void>(group.all_reduce(t, ReduceOp::avg));
    // Later calls drive it. Ranks agree on how many are made: each may see the end at another one.
    double held = 2.0;
    for (int i = 0; i < 1000 && held > 1.0; ++i) {
      held = all_reduce_scalar(group, t.storage()->owners(), ReduceOp::max);
    }
    EXPECT_EQ(t.storage()->owners(), 1);
    EXPECT_EQ(t.to_vector<float>().back(),
              static_cast<float>(group.size()) * static_cast<float>(1.0 / group.size()));
  });
}

TEST(Work, DroppedIsCarriedOutByCloseAtTheLatest) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto t = Tensor::full({1 << 16}, 1.0);
    static_cast<void>(group.all_reduce(t, ReduceOp::sum));
    group.close();
    EXPECT_EQ(t.storage()->owners(), 1);
    EXPECT_EQ(t.to_vector<float>().back(), group.size());
  });
}

TEST(Close, MakesTheGroupUnusableAndMayBeRepeated) {
  test::on_every_new_group([](ProcessGroup& group) {
    group.barrier();
    group.close();
    group.close();
    const auto t = Tensor::zeros({1});
    EXPECT_THROW(static_cast<void>(group.all_reduce(t, ReduceOp::sum)), CommError);
    EXPECT_THROW(static_cast<void>(group.broadcast(t, 0)), CommError);
    EXPECT_THROW(static_cast<void>(group.isend(t, 0)), CommError);
    EXPECT_THROW(group.barrier(), CommError);
  });
}

}  // namespace
}  // namespace lockstep
