#include <lockstep/data/normalisation.hpp>

#include <gtest/gtest.h>
#include <data/idx_files.hpp>

namespace lockstep {
namespace {

TEST(Normalisation, OneNumberIsForAllAndOtherwiseOneAChannel) {
  EXPECT_EQ(channel_scale({{1.0}, {2.0}}, {3, 4, 4}, DType::f32, "x").mean.numel(), 1);
  EXPECT_EQ(channel_scale({{1, 2, 3}, {2.0}}, {3, 4, 4}, DType::f32, "x").mean.numel(), 3);
  EXPECT_EQ(channel_scale({{1.0}, {2.0}}, {5}, DType::u8, "x").divisor, 255.0F);
  EXPECT_EQ(channel_scale({{1.0}, {2.0}}, {5}, DType::f32, "x").divisor, 1.0F);
}

TEST(Normalisation, WrongCountsAndDeviationsAreRefused) {
  const auto message = test::input_error([] {
    return channel_scale({{1, 2}, {2.0}}, {3, 4, 4}, DType::f32, "a.h5");
  });
  EXPECT_TRUE(
      test::says(message, "a.h5: samples [3, 4, 4] have 3 channels, but data.mean has 2 numbers"));
  EXPECT_TRUE(test::says(test::input_error([] {
                           return channel_scale({{1.0}, {0.0}}, {3}, DType::f32, "a.h5");
                         }),
                         "data.std holds 0"));
}

}  // namespace
}  // namespace lockstep
