#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/extents.hpp>
#include <lockstep/tensor/kernels/conv/conv_options.hpp>
#include <lockstep/tensor/kernels/pool/pool_nd.hpp>

#include <support/message_of.hpp>

namespace lockstep {
namespace {

// One number or a full list, and nothing else.
static_assert(std::is_convertible_v<int, Extents<2>>);
static_assert(std::is_convertible_v<std::uint8_t, Extents<3>>);
static_assert(std::is_convertible_v<std::array<std::int64_t, 2>, Extents<2>>);
static_assert(std::is_constructible_v<Extents<2>, int, std::int64_t>);
static_assert(std::is_constructible_v<Extents<3>, int, int, int>);
static_assert(!std::is_default_constructible_v<Extents<2>>);
static_assert(!std::is_constructible_v<Extents<1>, int, int>);
static_assert(!std::is_constructible_v<Extents<2>, int, int, int>);
static_assert(!std::is_constructible_v<Extents<3>, int, int>);
static_assert(!std::is_constructible_v<Extents<2>, std::array<std::int64_t, 3>>);
static_assert(!std::is_constructible_v<Extents<2>, Extents<3>>);
static_assert(!std::is_constructible_v<Extents<2>, double>);
static_assert(!std::is_constructible_v<Extents<2>, int, double>);
static_assert(!std::is_constructible_v<Extents<2>, bool>);
static_assert(!std::is_constructible_v<Extents<2>, std::nullptr_t>);
static_assert(!std::is_constructible_v<Extents<2>, std::vector<std::int64_t>>);

static_assert(std::is_convertible_v<int, PoolStride<2>>);
static_assert(std::is_convertible_v<Extents<2>, PoolStride<2>>);
static_assert(std::is_constructible_v<PoolStride<2>, int, int>);
static_assert(!std::is_constructible_v<PoolStride<2>, int, int, int>);
static_assert(!std::is_constructible_v<PoolStride<3>, int, int>);
static_assert(!std::is_constructible_v<PoolStride<2>, double>);
static_assert(!std::is_constructible_v<PoolStride<2>, bool>);

// Kernels capture them by value.
static_assert(std::is_trivially_copyable_v<Conv2dOptions>);
static_assert(std::is_trivially_copyable_v<PoolStride<3>>);
static_assert(std::is_trivially_copyable_v<PoolWindow>);

TEST(Extents, OneNumberFillsAll) {
  const Conv3dOptions options{.stride = 2, .padding = 1};
  EXPECT_EQ(options.stride, Extents<3>(2, 2, 2));
  EXPECT_EQ(options.padding, Extents<3>(1, 1, 1));
  EXPECT_EQ(options.dilation, Extents<3>(1, 1, 1));
  const Conv2dOptions in_braces{.padding = {3}};
  EXPECT_EQ(in_braces.padding, Extents<2>(3, 3));
}

TEST(Extents, ListIsTakenAsItIs) {
  const Conv2dOptions options{.stride = {2, 3}};
  EXPECT_EQ(options.stride[0], 2);
  EXPECT_EQ(options.stride[1], 3);
  EXPECT_FALSE(options.stride.uniform());
  EXPECT_TRUE(options.padding.uniform());
}

TEST(Extents, RunTimeListOfAnotherLengthIsRefused) {
  using List = std::vector<std::int64_t>;
  EXPECT_EQ(Extents<2>::from(List{5}), Extents<2>(5, 5));
  EXPECT_EQ(Extents<2>::from(List{5, 6}), Extents<2>(5, 6));
  for (const List& list : {List{}, List{1, 2, 3}}) {
    const std::string why =
        test::message_of<ShapeError>([&] { static_cast<void>(Extents<2>::from(list)); });
    EXPECT_NE(why.find("a list of " + std::to_string(list.size())), std::string::npos) << why;
  }
  EXPECT_THROW(static_cast<void>(Extents<3>::from(List{1, 2})), ShapeError);
}

TEST(Extents, PoolStrideIsTheKernelUnlessGiven) {
  const Extents<2> kernel{3, 4};
  EXPECT_EQ(PoolStride<2>().or_kernel(kernel), kernel);
  EXPECT_EQ(PoolStride<2>(1).or_kernel(kernel), Extents<2>(1, 1));
  EXPECT_EQ(PoolStride<2>(1, 2).or_kernel(kernel), Extents<2>(1, 2));
}

}  // namespace
}  // namespace lockstep
