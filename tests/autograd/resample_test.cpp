// What interpolate gives, beside PyTorch 2.15's numbers: torch.nn.functional.interpolate in f64.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include <lockstep/autograd/functional/pool.hpp>
#include <lockstep/autograd/functional/resample.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep::test {
namespace {

struct Resampled {
  Interpolation mode;
  Shape shape;
  std::vector<std::int64_t> size;  ///< or
  std::vector<double> scale_factor;
  bool align_corners;
  std::vector<double> expected;
};

const std::vector<double> twelve{1, 3, 2, 5, 4, 8, 7, 6, 0, 9, -3, 2};

Variable interpolated(const Resampled& c, DType dtype) {
  const Variable x(Tensor::from(twelve, c.shape).to(dtype));
  return c.size.empty() ? interpolate_by(x, c.scale_factor, c.mode, c.align_corners)
                        : interpolate(x, c.size, c.mode, c.align_corners);
}

// Factors of 1.1 and 1.2 keep an extent of 2 or 4: linear modes leave it alone, bicubic does not.
TEST(Interpolate, EqualsPyTorch) {
  using enum Interpolation;
  const Resampled cases[] = {
      {bicubic,
       {1, 1, 3, 4},
       {4, 6},
       {},
       false,
       {0.6235182020399311, 1.806640625,         2.6016766583478024,  1.5315223976417833,
        3.19091796875,      5.213562011718751,   3.121420966254342,   4.7038421630859375,
        6.359060216833046,  6.3332513879846655,  6.2075347900390625,  6.06019761827257,
        2.36548529730903,   6.364288330078125,   8.707413284866899,   4.700016728153938,
        3.841766357421875,  4.7311876085069455,  -1.0995127360026025, 5.5913543701171875,
        7.954360961914063,  -2.1911671956380188, -2.2014617919921875, 2.184302435980904}},
      {bicubic,
       {1, 1, 3, 4},
       {2, 3},
       {},
       false,
       {2.1578007450810195, 3.8280029296875, 5.086321795428241, 2.3159631799768516, 4.611328125,
        2.2740252459490695}},
      {bicubic,
       {1, 1, 3, 4},
       {5, 3},
       {},
       true,
       {1.0, 2.40625, 5.0, 2.875, 5.6181640625, 5.875, 4.0, 7.96875, 6.0, 2.28125, 6.193359375,
        4.09375, 0.0, 3.375, 2.0}},
      {bicubic,
       {1, 1, 3, 4},
       {},
       {1.4, 1.2},
       false,
       {0.6670817136378365, 2.2944264759475232, 1.8004126005560934, 2.847701803935861,
        3.0219367508908337, 5.18250045553936, 6.082533186885865, 5.987017550075586,
        2.9817588121558147, 7.967389076166184, 6.899744433983908, 4.552464003954754,
        -0.47265625000000044, 8.2265625, 2.030381944444441, -2.2433449074074048}},
      {trilinear,
       {1, 1, 2, 3, 2},
       {3, 2, 4},
       {},
       false,
       {1.25,
        1.8125,
        2.9375,
        3.5,
        3.5,
        4.4375,
        6.3125,
        7.25,
        3.2499999999999996,
        3.7187499999999996,
        4.65625,
        5.125,
        0.6250000000000002,
        1.84375,
        4.28125,
        5.5,
        5.25,
        5.625,
        6.375,
        6.75,
        -2.25,
        -0.75,
        2.25,
        3.75}},
      {trilinear,
       {1, 1, 2, 3, 2},
       {3, 4, 3},
       {},
       true,
       {1.0,
        2.0,
        3.0,
        1.6666666666666665,
        3.0,
        4.333333333333333,
        2.6666666666666665,
        4.333333333333333,
        6.0,
        4.0,
        6.0,
        8.0,
        4.0,
        4.25,
        4.5,
        2.0,
        4.083333333333334,
        6.166666666666666,
        0.8333333333333334,
        3.5833333333333335,
        6.333333333333334,
        0.5,
        2.75,
        5.0,
        7.0,
        6.5,
        6.0,
        2.3333333333333335,
        5.166666666666667,
        8.0,
        -0.9999999999999998,
        2.833333333333334,
        6.666666666666667,
        -3.0,
        -0.5,
        2.0}},
      {trilinear,
       {1, 1, 2, 3, 2},
       {},
       {1.5, 1.1, 1.6},
       false,
       {1.0,
        1.875,
        3.0,
        2.0,
        3.3125,
        5.0,
        4.0,
        5.75,
        8.0,
        3.9999999999999996,
        4.21875,
        4.5,
        1.0,
        3.625,
        6.999999999999999,
        0.5000000000000002,
        2.46875,
        5.0,
        7.0,
        6.5625,
        6.0,
        0.0,
        3.9375,
        9.0,
        -3.0,
        -0.8125,
        2.0}},
      {area, {1, 1, 3, 4}, {2, 3}, {}, false, {4.0, 5.0, 5.0, 5.25, 5.25, 3.0}},
      {area, {1, 1, 12}, {5}, {}, false, {2.0, 3.6666666666666665, 6.25, 5.0, 2.6666666666666665}},
      {area, {1, 1, 3, 4}, {}, {0.7, 0.7}, false, {4.0, 5.0, 5.25, 3.0}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(testing::Message() << "mode " << static_cast<int>(c.mode) << " of "
                                    << to_string(c.shape) << ", corners " << c.align_corners);
    const auto in_double = interpolated(c, DType::f64).data().to_vector<double>();
    const auto in_single = interpolated(c, DType::f32).data().to_vector<float>();
    ASSERT_EQ(in_double.size(), c.expected.size());
    for (std::size_t i = 0; i < c.expected.size(); ++i) {
      EXPECT_NEAR(in_double[i], c.expected[i], 1e-14 * 16) << i;
      EXPECT_NEAR(in_single[i], c.expected[i], 0x1p-23 * 64) << i;
    }
  }
}

TEST(Interpolate, OneNumberIsForAllExtents) {
  const Variable image(Tensor::full({1, 2, 3, 4}, 0.5));
  EXPECT_EQ(interpolate(image, 6).shape(), (Shape{1, 2, 6, 6}));
  EXPECT_EQ(interpolate(image, {6}, Interpolation::bicubic).shape(), (Shape{1, 2, 6, 6}));
  EXPECT_EQ(interpolate_by(image, 2.0, Interpolation::area).shape(), (Shape{1, 2, 6, 8}));
}

TEST(Interpolate, ModesOfOtherExtentsAreRefused) {
  const Variable line(Tensor::full({1, 2, 3}, 0.5)), image(Tensor::full({1, 2, 3, 4}, 0.5));
  EXPECT_THROW(static_cast<void>(interpolate(line, 4, Interpolation::bicubic)), ShapeError);
  EXPECT_THROW(static_cast<void>(interpolate(image, 4, Interpolation::trilinear)), ShapeError);
  EXPECT_THROW(static_cast<void>(interpolate(image, {4, 4, 4}, Interpolation::bicubic)),
               ShapeError);
  EXPECT_THROW(static_cast<void>(interpolate(image, 4, Interpolation::area, true)), ShapeError);
}

}  // namespace
}  // namespace lockstep::test
