#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/objects.hpp>

namespace lockstep {
namespace {

std::vector<std::uint8_t> bytes_of_rank(int rank, std::size_t n) {
  std::vector<std::uint8_t> bytes(n);
  for (std::size_t i = 0; i < n; ++i) {
    bytes[i] = static_cast<std::uint8_t>(i * 7 + static_cast<std::size_t>(rank) * 31 + 1);
  }
  return bytes;
}

/// A tensor of any dtype over bytes that differ from rank to rank.
struct Raw {
  Raw(int rank, std::int64_t elements, DType dtype)
      : bytes(Tensor::from(bytes_of_rank(rank, static_cast<std::size_t>(elements) * size_of(dtype)),
                           {elements * static_cast<std::int64_t>(size_of(dtype))})),
        tensor(Tensor::over(bytes.storage(), bytes.offset_bytes(), {elements}, dtype)) {}
  Tensor bytes;  // u8 view of the same storage
  Tensor tensor;
};

constexpr DType every_dtype[] = {DType::f32, DType::f64, DType::bf16, DType::f16,
                                 DType::i32, DType::i64, DType::u8,   DType::boolean};

TEST(Broadcast, CopiesTheRootsBytesForEveryDtypeAndRoot) {
  test::on_every_group([](ProcessGroup& group) {
    for (const DType dtype : every_dtype) {
      for (int root = 0; root < group.size(); ++root) {
        const Raw t(group.rank(), 1001, dtype);
        group.broadcast(t.tensor, root).wait();
        EXPECT_EQ(t.bytes.to_vector<std::uint8_t>(), bytes_of_rank(root, t.tensor.bytes()))
            << name_of(dtype) << " from root " << root << " on rank " << group.rank();
      }
    }
  });
}

TEST(Broadcast, RefusesARootOutsideTheGroup) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::zeros({3});
    EXPECT_THROW(static_cast<void>(group.broadcast(t, group.size())), ShapeError);
    EXPECT_THROW(static_cast<void>(group.broadcast(t, -1)), ShapeError);
    group.broadcast(Tensor::empty({0}), 0).wait();
  });
}

TEST(AllGather, PutsEveryRanksInputInRankOrderForEveryDtype) {
  test::on_every_group([](ProcessGroup& group) {
    for (const DType dtype : every_dtype) {
      const Raw input(group.rank(), 501, dtype);
      const Raw output(99, 501 * group.size(), dtype);
      group.all_gather(input.tensor, output.tensor.reshape({group.size(), 501})).wait();
      std::vector<std::uint8_t> expected;
      for (int r = 0; r < group.size(); ++r) {
        const auto row = bytes_of_rank(r, input.tensor.bytes());
        expected.insert(expected.end(), row.begin(), row.end());
      }
      EXPECT_EQ(output.bytes.to_vector<std::uint8_t>(), expected) << name_of(dtype);
    }
  });
}

TEST(AllGather, WorksInPlaceAndOnScalars) {
  test::on_every_group([](ProcessGroup& group) {
    const auto rows = Tensor::full({group.size(), 3}, -1.0);
    const auto mine = rows.slice(group.rank(), group.rank() + 1).reshape({3});
    mine.fill(group.rank());
    group.all_gather(mine, rows).wait();
    const auto scalars = Tensor::empty({group.size()}, DType::i64);
    group.all_gather(Tensor::full({}, group.rank(), DType::i64), scalars).wait();
    for (int r = 0; r < group.size(); ++r) {
      EXPECT_EQ(rows.to_vector<float>()[static_cast<std::size_t>(r) * 3 + 2], r);
      EXPECT_EQ(scalars.to_vector<std::int64_t>()[static_cast<std::size_t>(r)], r);
    }
  });
}

TEST(AllGather, RefusesAnOutputThatDoesNotFit) {
  test::on_every_group([](ProcessGroup& group) {
    const auto gather = [&](const Tensor& output) {
      static_cast<void>(group.all_gather(Tensor::zeros({4, 2}), output));
    };
    const int n = group.size();
    EXPECT_THROW(gather(Tensor::zeros({n + 1, 4, 2})), ShapeError);
    EXPECT_THROW(gather(Tensor::zeros({n, 8})), ShapeError);
    EXPECT_THROW(gather(Tensor::zeros({n, 4, 2}, DType::f64)), ShapeError);
    EXPECT_THROW(gather(Tensor()), ShapeError);
  });
}

TEST(Work, SeveralOperationsInFlightMayBeAwaitedInAnyOrder) {
  test::on_every_group([](ProcessGroup& group) {
    constexpr int in_flight = 150;  // more than the threads backend has slots
    const int n = group.size();
    std::vector<Tensor> tensors;
    std::vector<Work> works;
    for (int i = 0; i < in_flight; ++i) {
      tensors.push_back(Tensor::full({100 + i}, i + group.rank()));
      works.push_back(i % 3 == 2 ? group.broadcast(tensors.back(), n - 1)
                                 : group.all_reduce(tensors.back(), ReduceOp::sum));
    }
    for (int i = in_flight - 1; i >= 0; --i) {
      const auto index = static_cast<std::size_t>(i);
      works[index].wait();
      const float expected =
          i % 3 == 2 ? static_cast<float>(i + n - 1) : static_cast<float>(i * n + n * (n - 1) / 2);
      EXPECT_EQ(tensors[index].to_vector<float>().back(), expected) << "operation " << i;
    }
  });
}

TEST(Work, TestDrivesAnOperationToItsEnd) {
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({1 << 18}, 1.0);
    auto work = group.all_reduce(t, ReduceOp::sum);
    while (!work.test()) {
    }
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
  test::on_every_group([](ProcessGroup& group) {
    const auto t = Tensor::full({1 << 16}, 1.0);
    static_cast<void>(group.all_reduce(t, ReduceOp::sum));
    group.close();
    EXPECT_EQ(t.storage()->owners(), 1);
    EXPECT_EQ(t.to_vector<float>().back(), group.size());
  });
}

TEST(Objects, TravelWithTheirLengths) {
  test::on_every_group([](ProcessGroup& group) {
    const auto object_of = [](int rank) {
      return std::string(static_cast<std::size_t>(rank) * 1000, static_cast<char>('a' + rank)) +
             std::string("\0x",
                         static_cast<std::size_t>(rank % 3));  // also empty, also a zero byte
    };
    for (int root = 0; root < group.size(); ++root) {
      EXPECT_EQ(broadcast_object(group, object_of(group.rank()), root), object_of(root));
    }
    const auto all = all_gather_object(group, object_of(group.rank()));
    ASSERT_EQ(all.size(), static_cast<std::size_t>(group.size()));
    for (int r = 0; r < group.size(); ++r)
      EXPECT_EQ(all[static_cast<std::size_t>(r)], object_of(r));
    EXPECT_EQ(all_gather_object(group, ""), std::vector<std::string>(all.size()));
  });
}

TEST(Close, MakesTheGroupUnusableAndMayBeRepeated) {
  test::on_every_group([](ProcessGroup& group) {
    group.barrier();
    group.close();
    group.close();
    const auto t = Tensor::zeros({1});
    EXPECT_THROW(static_cast<void>(group.all_reduce(t, ReduceOp::sum)), CommError);
    EXPECT_THROW(static_cast<void>(group.broadcast(t, 0)), CommError);
    EXPECT_THROW(group.barrier(), CommError);
  });
}

}  // namespace
}  // namespace lockstep
