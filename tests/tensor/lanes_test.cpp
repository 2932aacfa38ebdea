#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include <lockstep/base/philox.hpp>
#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using HostLanes = Lanes<HostExecutionSpace>;

TEST(Lanes, SumIsTheSumOverEveryWidth) {
  for (const std::int64_t width : {0, 1, 15, 16, 17, 31, 32, 100}) {
    const HostLanes lanes(width);
    // Whole numbers below 2^24 are exact in float, in any order.
    EXPECT_EQ(lanes.sum([](std::int64_t c) { return static_cast<float>(c); }),
              static_cast<float>(width * (width - 1) / 2));
  }
}

// The definition, written plainly: 256 bytes of partial sums (128 each for two sums), added in
// halves.
template <std::size_t count>
float halved_sum(const std::vector<float>& x) {
  float partial[count] = {};
  for (std::size_t c = 0; c < x.size(); ++c) partial[c % count] += x[c];
  for (std::size_t half = count / 2; half > 0; half /= 2) {
    for (std::size_t l = 0; l < half; ++l) partial[l] += partial[l + half];
  }
  return partial[0];
}

TEST(Lanes, SumHasTheBitsOfItsDefinition) {
  PhiloxSequence random(3, 0);
  std::vector<float> x(1003);
  for (float& value : x) value = random.uniform() - 0.5F;
  const HostLanes lanes(static_cast<std::int64_t>(x.size()));
  const auto element = [&](std::int64_t c) { return x[static_cast<std::size_t>(c)]; };
  EXPECT_EQ(lanes.sum(element), halved_sum<64>(x));
  EXPECT_EQ(lanes.fetching(x.data() + x.size()).sum(element), halved_sum<64>(x));
  const auto sums = lanes.sums<float, 2>(
      [&](auto k, std::int64_t c) { return static_cast<float>(k() + 1) * element(c); });
  EXPECT_EQ(sums[0], halved_sum<32>(x));
  EXPECT_EQ(sums[1], 2.0F * halved_sum<32>(x));
}

TEST(Lanes, WriteSetsEveryColumnThroughAndAroundTheCache) {
  for (const std::int64_t width : {0, 1, 17, 2048, 2051, 4100}) {
    for (const std::size_t offset : {0, 3}) {  // the second is not where a line of the cache begins
      const auto n = static_cast<std::size_t>(width);
      std::vector<float> a(n + 40, -1.0F), b(n + 40, -1.0F);
      float* const row =
          a.data() + (16 - reinterpret_cast<std::uintptr_t>(a.data()) / 4 % 16) % 16 + offset;
      float* const other =
          b.data() + (16 - reinterpret_cast<std::uintptr_t>(b.data()) / 4 % 16) % 16;
      for (const bool around : {false, true}) {
        HostLanes(width).write(std::array{row, other}, around, [](auto k, std::int64_t c) {
          return static_cast<float>(c) + (k() == 1 ? 0.5F : 0.0F);
        });
        for (std::size_t c = 0; c < n; ++c) {
          ASSERT_EQ(row[c], static_cast<float>(c)) << width;
          ASSERT_EQ(other[c], static_cast<float>(c) + 0.5F) << width;
        }
        EXPECT_EQ(row[n], -1.0F) << "nothing behind the row is written";
        std::fill(row, row + n, -1.0F);
        std::fill(other, other + n, -1.0F);
      }
    }
  }
}

TEST(Lanes, MaxFindsTheLargestAndLeastOfNothing) {
  const double least = -std::numeric_limits<double>::infinity();
  EXPECT_EQ(HostLanes(0).max(least, [](std::int64_t) { return 1.0; }), least);
  for (const std::int64_t width : {1, 16, 33}) {
    for (std::int64_t peak = 0; peak < width; ++peak) {
      EXPECT_EQ(HostLanes(width).max(least, [&](std::int64_t c) { return c == peak ? 5.0 : -1.0; }),
                5.0);
    }
  }
}

template <class Space>
void count_visits(const Space& space, const Tensor& visits) {
  const auto out = view<Space, std::int32_t, 2>(visits);
  for_each_row(
      "test", space, visits.size(0), visits.size(1),
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        lanes.each([&](std::int64_t c) { ++out(r, c); });
      });
}

TEST(ForEachRow, VisitsEveryElementOnce) {
  const Tensor visits = Tensor::zeros({7, 19}, DType::i32);
  dispatch(current_stream(), [&](const auto& space) { count_visits(space, visits); });
  EXPECT_EQ(visits.to_vector<std::int32_t>(), std::vector<std::int32_t>(7 * 19, 1));
}

TEST(ForEachRow, RefusesMoreRowsThanALaunchInTeamsCounts) {
  constexpr std::int64_t most = std::numeric_limits<int>::max() - 1;
  EXPECT_EQ(detail::team_count("test", most), most);
  EXPECT_EQ(
      test::message_of<ShapeError>([] { static_cast<void>(detail::team_count("test", most + 1)); }),
      "test: a GPU takes at most 2147483646 rows at once, not 2147483647");
}

}  // namespace
}  // namespace lockstep
