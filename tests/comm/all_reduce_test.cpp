#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

template <class T>
void expect_all(const Tensor& t, T expected, const ProcessGroup& group) {
  const auto elements = t.to_vector<T>();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    ASSERT_EQ(elements[i], expected)
        << "element " << i << " on rank " << group.rank() << " of " << group.size();
  }
}

template <class T>
Tensor filled(std::int64_t n, T value) {
  return Tensor::from(std::vector<T>(static_cast<std::size_t>(n), value), {n});
}

template <class T>
void reduces_exactly(ProcessGroup& group) {
  const int n = group.size();
  const auto mine = static_cast<T>(group.rank() + 1);
  // Small whole numbers are exact in every dtype, so == holds for ring, tree or any other order.
  for (const std::int64_t length : {1, 2, 1000, 30011}) {
    const auto sum = filled<T>(length, mine);
    const auto least = filled<T>(length, mine);
    const auto greatest = filled<T>(length, mine);
    group.all_reduce(sum, ReduceOp::sum).wait();
    group.all_reduce(least, ReduceOp::min).wait();
    group.all_reduce(greatest, ReduceOp::max).wait();
    expect_all(sum, static_cast<T>(n * (n + 1) / 2), group);
    expect_all(least, static_cast<T>(1), group);
    expect_all(greatest, static_cast<T>(n), group);
  }
}

TEST(AllReduce, OfWholeNumbersIsExactInAnyOrder) {
  test::on_every_group(reduces_exactly<float>);
  test::on_every_group(reduces_exactly<double>);
  test::on_every_group(reduces_exactly<std::int32_t>);
  test::on_every_group(reduces_exactly<std::int64_t>);
  test::on_every_group(reduces_exactly<std::uint8_t>);
}

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

template <class T>
void averages(ProcessGroup& group) {
  const int n = group.size();
  const auto t = filled<T>(1000, static_cast<T>(group.rank() + 1));
  group.all_reduce(t, ReduceOp::avg).wait();
  // The sum is exact; then one multiplication.
  expect_all(t, static_cast<T>(n * (n + 1) / 2) * static_cast<T>(1.0 / n), group);
}

TEST(AllReduce, AverageIsTheSumScaledOnce) {
  test::on_every_group(averages<float>);
  test::on_every_group(averages<double>);
}

TEST(AllReduce, GivesEveryRankTheSameBits) {
  test::on_every_group([](ProcessGroup& group) {
    std::vector<float> mine(10007);
    std::uint32_t state = 12345U + static_cast<std::uint32_t>(group.rank());
    for (auto& x : mine) {
      state = state * 1664525U + 1013904223U;
      x = static_cast<float>(state) * 0x1.0p-30F - 2.0F;
    }
    const auto t = Tensor::from(mine, {10007});
    group.all_reduce(t, ReduceOp::sum).wait();
    const auto sums = t.to_vector<float>();
    const std::string bits(reinterpret_cast<const char*>(sums.data()), sums.size() * sizeof(float));
    for (const auto& other : all_gather_object(group, bits)) EXPECT_TRUE(other == bits);
  });
}

TEST(AllReduce, OfASliceLeavesItsNeighboursAlone) {
  test::on_every_group([](ProcessGroup& group) {
    const auto whole = Tensor::full({3, 100}, 1.0);
    group.all_reduce(whole.slice(1, 2), ReduceOp::sum).wait();
    expect_all(whole.slice(0, 1), 1.0F, group);
    expect_all(whole.slice(1, 2), static_cast<float>(group.size()), group);
    expect_all(whole.slice(2, 3), 1.0F, group);
  });
}

TEST(AllReduce, AcceptsEmptyTensorsAndScalars) {
  test::on_every_group([](ProcessGroup& group) {
    group.all_reduce(Tensor::empty({0, 5}), ReduceOp::avg).wait();
    const auto scalar = Tensor::full({}, 2.0);
    group.all_reduce(scalar, ReduceOp::sum).wait();
    EXPECT_EQ(scalar.item(), 2.0 * group.size());
    EXPECT_EQ(all_reduce_scalar(group, group.rank(), ReduceOp::max), group.size() - 1);
  });
}

TEST(AllReduce, RefusesWhatItCannotReduceAndTheGroupGoesOn) {
  test::on_every_group([](ProcessGroup& group) {
    const auto reduce = [&](const Tensor& t, ReduceOp op) {
      static_cast<void>(group.all_reduce(t, op));
    };
    EXPECT_THROW(reduce(Tensor::zeros({4}, DType::i32), ReduceOp::avg), ShapeError);
    EXPECT_THROW(reduce(Tensor::zeros({4}, DType::boolean), ReduceOp::avg), ShapeError);
    EXPECT_THROW(reduce(Tensor::empty({4}, DType::bf16), ReduceOp::band), ShapeError);
    EXPECT_THROW(reduce(Tensor(), ReduceOp::sum), ShapeError);
    const auto t = Tensor::full({4}, 1.0);
    group.all_reduce(t, ReduceOp::sum).wait();
    expect_all(t, static_cast<float>(group.size()), group);
  });
}

}  // namespace
}  // namespace lockstep
