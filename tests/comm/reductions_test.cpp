// Every reduction of every dtype, by all three collectives that reduce.
#include <algorithm>
#include <array>
#include <limits>
#include <string>

#include <gtest/gtest.h>
#include <comm/backend.hpp>
#include <comm/tensors.hpp>
#include <lockstep/comm/coalescing.hpp>
#include <lockstep/tensor/half.hpp>

namespace lockstep {
namespace {

using test::Arena;

bool is_signed(DType dtype) { return dtype != DType::u8 && dtype != DType::boolean; }

/// Element i of a rank's input: an integer so small that every partial result is exact in `dtype`,
/// in any order. Five ranks' product stays below 2^8, which bf16 has.
double brought(ReduceOp op, DType dtype, int rank, std::int64_t i) {
  const auto n = static_cast<int>(i);
  const double sign = is_signed(dtype) && (n + rank) % 4 == 0 ? -1 : 1;
  if (dtype == DType::boolean) return (n * 5 + rank) % 3 == 0 ? 1 : 0;
  if (op == ReduceOp::product) return sign * (1 + (n + rank) % 3);
  if (op == ReduceOp::sum || op == ReduceOp::avg) return sign * ((n * 7 + rank * 3) % 9);
  return sign * ((n * 37 + rank * 11) % 251);
}

double combined(ReduceOp op, DType dtype, double a, double b) {
  const auto x = static_cast<std::int64_t>(a), y = static_cast<std::int64_t>(b);
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::avg:
      return dtype == DType::boolean ? std::max(a, b) : a + b;
    case ReduceOp::product:
      return a * b;
    case ReduceOp::min:
      return std::min(a, b);
    case ReduceOp::max:
      return std::max(a, b);
    case ReduceOp::band:
      return static_cast<double>(x & y);
    case ReduceOp::bor:
      return static_cast<double>(x | y);
    case ReduceOp::bxor:
      return static_cast<double>(x ^ y);
  }
  return 0;
}

/// avg: the exact sum times 1/n, in the dtype that is accumulated in, rounded once.
double averaged(DType dtype, double sum, int n) {
  if (dtype == DType::f64) return sum * (1.0 / n);
  const float average = static_cast<float>(sum) * static_cast<float>(1.0 / n);
  if (dtype == DType::bf16) return static_cast<float>(BFloat16(average));
  if (dtype == DType::f16) return static_cast<float>(Float16(average));
  return average;
}

std::vector<double> brought(ReduceOp op, DType dtype, int rank, std::int64_t begin,
                            std::int64_t end) {
  std::vector<double> mine;
  for (std::int64_t i = begin; i < end; ++i) mine.push_back(brought(op, dtype, rank, i));
  return mine;
}

std::vector<double> reduced(ReduceOp op, DType dtype, int size, std::int64_t begin,
                            std::int64_t end) {
  std::vector<double> results = brought(op, dtype, 0, begin, end);
  for (std::size_t e = 0; e < results.size(); ++e) {
    for (int r = 1; r < size; ++r) {
      const double theirs = brought(op, dtype, r, begin + static_cast<std::int64_t>(e));
      results[e] = combined(op, dtype, results[e], theirs);
    }
    if (op == ReduceOp::avg) results[e] = averaged(dtype, results[e], size);
  }
  return results;
}

/// Calls f with every reduction and a dtype that it is defined for.
template <class F>
void for_every_reduction(const F& f) {
  for (const DType dtype : test::every_dtype) {
    for (const ReduceOp op : test::every_op) {
      if (!reducible(op, dtype)) continue;
      SCOPED_TRACE(std::string(name_of(op)) + " of " + std::string(name_of(dtype)));
      f(op, dtype);
    }
  }
}

// None, one, a size that fits a slot of the slot table, one that does not, and more than one block
// of the kernel.
constexpr std::int64_t reduced_lengths[] = {0, 1, 32, 257, 1100};

TEST(Reductions, AllReduceIsExactInPlaceAndOutOfPlace) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for_every_reduction([&](ReduceOp op, DType dtype) {
        arena.reset();
        Coalescing batch(group);
        std::vector<std::array<Tensor, 3>> tensors;
        for (const std::int64_t n : reduced_lengths) {
          const auto mine = brought(op, dtype, group.rank(), 0, n);
          const auto t = arena.take({n}, dtype, mine), input = arena.take({n}, dtype, mine);
          const auto output = arena.take({n}, dtype);
          static_cast<void>(group.all_reduce(t, op));
          static_cast<void>(group.all_reduce(input, output, op));
          tensors.push_back({t, input, output});
        }
        batch.end().wait();
        EXPECT_TRUE(arena.guards_hold());
        for (const auto& [t, input, output] : tensors) {
          const auto mine = brought(op, dtype, group.rank(), 0, t.numel());
          const auto expected = reduced(op, dtype, group.size(), 0, t.numel());
          EXPECT_EQ(test::values_of(t), expected);
          EXPECT_EQ(test::values_of(output), expected);
          EXPECT_EQ(test::values_of(input), mine);
        }
      });
    };
    test::in_every_place(claim, everybody, 1 << 18);
  });
}

TEST(Reductions, ReduceIsExactOnTheRootAndLeavesTheOthersAlone) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      int root = 0;
      for_every_reduction([&](ReduceOp op, DType dtype) {
        arena.reset();
        root = (root + 1) % group.size();
        const bool gets = group.rank() == root;
        Coalescing batch(group);
        std::vector<std::array<Tensor, 3>> tensors;
        for (const std::int64_t n : reduced_lengths) {
          const auto mine = brought(op, dtype, group.rank(), 0, n);
          const auto t = arena.take({n}, dtype, mine), input = arena.take({n}, dtype, mine);
          const auto output = gets ? arena.take({n}, dtype) : Tensor();
          static_cast<void>(group.reduce(t, root, op));
          static_cast<void>(group.reduce(input, output, root, op));
          tensors.push_back({t, input, output});
        }
        batch.end().wait();
        EXPECT_TRUE(arena.guards_hold());
        for (const auto& [t, input, output] : tensors) {
          const auto mine = brought(op, dtype, group.rank(), 0, t.numel());
          const auto expected = reduced(op, dtype, group.size(), 0, t.numel());
          EXPECT_EQ(test::values_of(t), gets ? expected : mine);
          EXPECT_EQ(test::values_of(input), mine);
          if (gets) {
            EXPECT_EQ(test::values_of(output), expected);
          }
        }
      });
    };
    test::in_every_place(claim, everybody, 1 << 18);
  });
}

TEST(Reductions, ReduceScatterIsExactInPlaceAndOutOfPlace) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      const int n = group.size(), me = group.rank();
      for_every_reduction([&](ReduceOp op, DType dtype) {
        arena.reset();
        Coalescing batch(group);
        std::vector<std::array<Tensor, 3>> tensors;
        for (const std::int64_t row : {0, 1, 100, 501}) {
          const auto mine = brought(op, dtype, me, 0, n * row);
          const auto input = arena.take({n, row}, dtype, mine);
          const auto both = arena.take({n, row}, dtype, mine);
          const auto output = arena.take({row}, dtype);
          const auto own_row = both.slice(me, me + 1).reshape({row});
          static_cast<void>(group.reduce_scatter(input, output, op));
          static_cast<void>(group.reduce_scatter(both, own_row, op));
          tensors.push_back({input, output, own_row});
        }
        batch.end().wait();
        EXPECT_TRUE(arena.guards_hold());
        for (const auto& [input, output, own_row] : tensors) {
          const std::int64_t row = output.numel();
          const auto expected = reduced(op, dtype, n, me * row, (me + 1) * row);
          EXPECT_EQ(test::values_of(output), expected);
          EXPECT_EQ(test::values_of(own_row), expected);
          EXPECT_EQ(test::values_of(input), brought(op, dtype, me, 0, n * row));
        }
      });
    };
    test::in_every_place(claim, everybody, 1 << 18);
  });
}

/// `first` on rank 0 and 1 on each of the others, added in f32 and rounded to T: once if the ranks
/// share memory, else at each node and over the nodes.
template <class T>
double rounded_sum(float first, int size) {
  float total = 0;
  for (int r = 0; r < size; ++r) {
    const auto shares = [r](int other) { return test::share_memory(r, other); };
    float node = 0;
    for (int other = 0; other < size; ++other) {
      if (!shares(other)) continue;
      if (other < r) break;  // the node has been counted
      node += other == 0 ? first : 1;
    }
    total += float{T(node)};
  }
  return float{T(total)};
}

TEST(Reductions, SixteenBitFloatsAccumulateInSinglePrecision) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      const int n = group.size();
      const bool first = group.rank() == 0, last = group.rank() == n - 1;
      for (const std::int64_t length : {9, 2500}) {
        const std::vector<double> ones(static_cast<std::size_t>(length), 1.0);
        const auto all = [&](double value) {
          return std::vector<double>(static_cast<std::size_t>(length), value);
        };
        arena.reset();
        // Each 1 on its own is lost beside 256 in bf16, beside 2048 in f16: they have 8 and 11
        // bits.
        const auto wide = arena.take({length}, DType::bf16, first ? all(256) : ones);
        const auto half = arena.take({length}, DType::f16, first ? all(2048) : ones);
        // The sum and the product are beyond f16's largest number, 65504; the results are not.
        const auto large = arena.take({length}, DType::f16, all(60000));
        const auto factors = arena.take({length}, DType::f16, all(last ? 0.0009765625 : 300));
        group.all_reduce(wide, ReduceOp::sum).wait();
        group.all_reduce(half, ReduceOp::sum).wait();
        group.all_reduce(large, ReduceOp::avg).wait();
        group.all_reduce(factors, ReduceOp::product).wait();
        EXPECT_EQ(test::values_of(wide), all(rounded_sum<BFloat16>(256, n)));
        EXPECT_EQ(test::values_of(half), all(rounded_sum<Float16>(2048, n)));
        EXPECT_EQ(test::values_of(large), all(60000));
        if (n == 3) {
          EXPECT_EQ(test::values_of(factors), all(87.875));  // 90000 / 1024, rounded to f16
        }
      }
    };
    test::in_every_place(claim, everybody);
  });
}

TEST(Reductions, WholeNumbersWrapAround) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const std::int64_t length : {5, 2500}) {
        arena.reset();
        const auto count = static_cast<std::size_t>(length);
        const auto bytes = arena.take({length}, DType::u8);
        const auto words = arena.take({length}, DType::i32);
        test::set_values(bytes, std::vector<double>(count, 200));
        test::set_values(words, std::vector<double>(count, 2e9));
        group.all_reduce(bytes, ReduceOp::sum).wait();
        group.all_reduce(words, ReduceOp::product).wait();
        std::uint32_t product = 1;
        for (int r = 0; r < group.size(); ++r) product *= 2'000'000'000U;
        EXPECT_EQ(test::values_of(bytes), std::vector<double>(count, 200 * group.size() % 256));
        EXPECT_EQ(test::values_of(words),
                  std::vector<double>(count, static_cast<std::int32_t>(product)));
      }
    };
    test::in_every_place(claim, everybody);
  });
}

/// Numbers of very different magnitude, so that every order of summation gives other bits.
std::vector<float> rugged(int rank, std::size_t n) {
  std::vector<float> numbers(n);
  std::uint32_t state = 12345U + 7919U * static_cast<std::uint32_t>(rank);
  for (float& x : numbers) {
    state = state * 1664525U + 1013904223U;
    x = (static_cast<float>(state) * 0x1.0p-31F - 1.0F) * static_cast<float>(1U << (state >> 28U));
  }
  return numbers;
}

std::vector<std::uint8_t> bits(const std::vector<float>& numbers) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(numbers.data());
  return {bytes, bytes + numbers.size() * sizeof(float)};
}

TEST(Reductions, GiveEveryRankTheSameBits) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      for (const std::int64_t n : {60, 10007}) {
        arena.reset();
        const auto t = arena.take({n}, DType::f32);
        const auto numbers = rugged(group.rank(), static_cast<std::size_t>(n));
        test::set_values(t, std::vector<double>(numbers.begin(), numbers.end()));
        group.all_reduce(t, ReduceOp::sum).wait();
        const auto mine = test::bytes_of(t);
        const auto bytes = static_cast<std::int64_t>(mine.size());
        const auto all = Tensor::empty({group.size(), bytes}, DType::u8);
        group.all_gather(Tensor::from(mine, {bytes}), all).wait();
        for (int r = 0; r < group.size(); ++r) {
          EXPECT_EQ(test::bytes_of(all.slice(r, r + 1)), mine) << "rank " << r;
        }
      }
    };
    test::in_every_place(claim, everybody, 1 << 17);
  });
}

// Whichever rank brings it, whatever the others have, and on every rank the same bits.
TEST(Reductions, MinAndMaxLoseNoNaNAndNoSignOfZero) {
  test::on_every_group([](ProcessGroup& everybody) {
    const auto claim = [](ProcessGroup& group, Arena& arena) {
      const double nan = std::numeric_limits<double>::quiet_NaN();
      struct Case {
        double one, others, min, max;
      };
      const Case cases[] = {
          {nan, 1, nan, nan},   {-nan, 1, nan, nan},  {nan, -nan, nan, nan}, {nan, -1, nan, nan},
          {-0.0, 0.0, -0.0, 0}, {0.0, -0.0, -0.0, 0}, {-0.0, 1, -0.0, 1.0},  {0.0, -1, -1.0, 0.0},
      };
      // Element i is of case i % 8.
      const auto filled = [&](std::int64_t n, DType dtype, double Case::*of) {
        std::vector<double> values(static_cast<std::size_t>(n));
        for (std::size_t i = 0; i < values.size(); ++i) values[i] = cases[i % std::size(cases)].*of;
        return arena.take({n}, dtype, values);
      };
      for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
        for (const std::int64_t n : {13, 1500}) {
          for (int special = 0; special < group.size() && group.size() > 1; ++special) {
            arena.reset();
            const auto mine = group.rank() == special ? &Case::one : &Case::others;
            const auto least = filled(n, dtype, mine), greatest = filled(n, dtype, mine);
            group.all_reduce(least, ReduceOp::min).wait();
            group.all_reduce(greatest, ReduceOp::max).wait();
            EXPECT_EQ(test::bytes_of(least), test::bytes_of(filled(n, dtype, &Case::min)))
                << name_of(dtype) << ", " << special << " has the special ones";
            EXPECT_EQ(test::bytes_of(greatest), test::bytes_of(filled(n, dtype, &Case::max)))
                << name_of(dtype) << ", " << special << " has the special ones";
          }
        }
      }
    };
    test::in_every_place(claim, everybody, 1 << 17);
  });
}

// The order is a promise in shared memory; MPI keeps its own, the same one every time.
TEST(Reductions, InSharedBuffersGoInRankOrder) {
  test::on_every_group([](ProcessGroup& group) {
    for (int r = 0; r < group.size(); ++r) {
      if (!test::share_memory(0, r)) return;
    }
    constexpr std::size_t n = 10007;
    const auto all = group.shared_buffer({static_cast<std::int64_t>(n)}, DType::f32);
    const auto few = group.shared_buffer({7}, DType::f32);
    std::vector<float> expected = rugged(0, n);
    for (int r = 1; r < group.size(); ++r) {
      const auto theirs = rugged(r, n);
      for (std::size_t i = 0; i < n; ++i) expected[i] += theirs[i];
    }
    const auto mine = rugged(group.rank(), n);
    all.copy_from_host(std::span<const float>(mine));
    few.copy_from_host(std::span<const float>(mine.data(), 7));
    group.all_reduce(all, ReduceOp::sum).wait();
    group.all_reduce(few, ReduceOp::sum).wait();
    EXPECT_EQ(test::bytes_of(all), bits(expected));
    expected.resize(7);
    EXPECT_EQ(test::bytes_of(few), bits(expected));
  });
}

}  // namespace
}  // namespace lockstep
