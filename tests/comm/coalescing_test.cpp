#include <thread>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/coalescing.hpp>

namespace lockstep {
namespace {

TEST(Coalescing, MakesOneWorkOfManyOperations) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, test::Arena& arena) {
      const int n = group.size(), me = group.rank();
      const auto sum = arena.take({1000}, DType::f32, test::values(DType::f32, 0, 1000));
      const auto few = arena.take({3}, DType::i64, test::values(DType::i64, me, 3));
      const auto row = arena.take({50}, DType::u8, test::values(DType::u8, me, 50));
      const auto rows = arena.take({n, 50}, DType::u8);
      const auto sent = arena.take({70}, DType::f64, test::values(DType::f64, me, 70));
      const auto received = arena.take({70}, DType::f64);
      Coalescing batch(group);
      static_cast<void>(group.all_reduce(sum, ReduceOp::max));
      static_cast<void>(group.broadcast(few, n - 1));
      static_cast<void>(group.all_gather(row, rows));
      static_cast<void>(group.isend(sent, (me + 1) % n));
      static_cast<void>(group.irecv(received, (me + n - 1) % n));
      Work work = batch.end();
      work.wait();
      work.synchronize();
      EXPECT_TRUE(work.test());
      EXPECT_EQ(work.source(), -1);
      EXPECT_EQ(test::values_of(sum), test::values(DType::f32, 0, 1000));
      EXPECT_EQ(test::values_of(few), test::values(DType::i64, n - 1, 3));
      EXPECT_EQ(test::values_of(rows), test::of_all_ranks(DType::u8, n, 50));
      EXPECT_EQ(test::values_of(received), test::values(DType::f64, (me + n - 1) % n, 70));
    };
    test::in_every_place(claim, everybody);
  });
}

TEST(Coalescing, IsDrivenToItsEndByTest) {
  test::on_every_group([](ProcessGroup& group) {
    const auto a = Tensor::full({70000}, 1.0), b = Tensor::full({70000}, 2.0);
    Coalescing batch(group);
    static_cast<void>(group.all_reduce(a, ReduceOp::sum));
    static_cast<void>(group.all_reduce(b, ReduceOp::sum));
    Work work = batch.end();
    while (!work.test()) std::this_thread::yield();
    EXPECT_EQ(a.to_vector<float>().back(), static_cast<float>(group.size()));
    EXPECT_EQ(b.to_vector<float>().back(), static_cast<float>(2 * group.size()));
  });
}

TEST(Coalescing, OfNoOperationsIsComplete) {
  test::on_every_group([](ProcessGroup& group) {
    Coalescing batch(group);
    Work work = batch.end();
    EXPECT_TRUE(work.test());
    work.wait();
  });
}

TEST(Coalescing, DoesNotAffectLaterCalls) {
  test::on_every_group([](ProcessGroup& group) {
    const auto dropped = Tensor::full({10}, 1.0), t = Tensor::full({10}, 1.0);
    {
      const Coalescing given_up(group);
      static_cast<void>(group.all_reduce(dropped, ReduceOp::sum));
    }
    Coalescing batch(group);
    Work empty = batch.end();
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_TRUE(empty.test());
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.size()));
  });
}

TEST(Coalescing, RefusesASecondBatchAndASecondEnd) {
  test::on_every_group([](ProcessGroup& group) {
    Coalescing batch(group);
    EXPECT_THROW(Coalescing second(group), Error);
    static_cast<void>(batch.end());
    EXPECT_THROW(static_cast<void>(batch.end()), Error);
    Coalescing next(group);
    static_cast<void>(next.end());
  });
}

TEST(Coalescing, OfAWrongCallLeavesTheGroupUsable) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({4}, 1.0);
    const std::vector<P2POp> messages{{P2POp::Kind::isend, t, group.size()}};
    EXPECT_THROW(static_cast<void>(batch_isend_irecv(group, messages)), ShapeError);
    Coalescing batch(group);
    static_cast<void>(group.all_reduce(t, ReduceOp::sum));
    batch.end().wait();
    EXPECT_EQ(t.to_vector<float>().back(), static_cast<float>(group.size()));
  });
}

}  // namespace
}  // namespace lockstep
