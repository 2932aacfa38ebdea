#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>

namespace lockstep {
namespace {

TEST(AllReduce, KeepsElementsApart) {
  test::on_every_group([](ProcessGroup& group) {
    const int n = group.size();
    std::vector<std::int64_t> mine(5003);
    for (std::size_t i = 0; i < mine.size(); ++i) {
      mine[i] = static_cast<std::int64_t>(i) * (group.rank() + 1) - 7;
    }
    const auto t = Tensor::from(mine, {5003});
    group.all_reduce(t, ReduceOp::sum).wait();
    const auto sums = t.to_vector<std::int64_t>();
    for (std::size_t i = 0; i < sums.size(); ++i) {
      ASSERT_EQ(sums[i], static_cast<std::int64_t>(i) * n * (n + 1) / 2 - 7 * n);
    }
  });
}

TEST(AllReduce, OfASliceLeavesItsNeighboursAlone) {
  test::on_every_group([](ProcessGroup& group) {
    const auto whole = Tensor::full({3, 100}, 1.0);
    group.all_reduce(whole.slice(1, 2), ReduceOp::sum).wait();
    const auto rows = whole.to_vector<float>();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      ASSERT_EQ(rows[i], i / 100 == 1 ? static_cast<float>(group.size()) : 1.0F) << i;
    }
  });
}

TEST(AllReduce, AcceptsScalarsAndTensorsOfManyDimensions) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, test::Arena& arena) {
      const auto scalar = arena.take({}, DType::f64, {2.0});
      const auto output = arena.take({}, DType::f64);
      const auto deep = arena.take({2, 1, 3, 1, 5}, DType::i32, test::values(DType::i32, 0, 30));
      const auto none = arena.take({3, 0, 5}, DType::f32);
      group.all_reduce(scalar, output, ReduceOp::sum).wait();
      group.all_reduce(deep, ReduceOp::max).wait();
      group.all_reduce(none, ReduceOp::avg).wait();
      EXPECT_EQ(test::values_of(output), std::vector<double>{2.0 * group.size()});
      EXPECT_EQ(test::values_of(scalar), std::vector<double>{2.0});
      EXPECT_EQ(test::values_of(deep), test::values(DType::i32, 0, 30));
    };
    test::in_every_place(claim, everybody);
  });
}

TEST(AllReduce, TakesASharedBufferWithoutElements) {
  test::on_every_new_group([](ProcessGroup& group) {
    const auto t = group.shared_buffer({0}, DType::f32);
    group.all_reduce(t, ReduceOp::sum).wait();
    EXPECT_EQ(t.numel(), 0);
  });
}

}  // namespace
}  // namespace lockstep
