#include <lockstep/tensor/shape.hpp>

#include <vector>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

TEST(Shape, CountsAndPrints) {
  const Shape shape{128, 1, 28, 28};
  EXPECT_EQ(shape.dims(), 4);
  EXPECT_EQ(shape.numel(), 128 * 28 * 28);
  EXPECT_EQ(to_string(shape), "[128, 1, 28, 28]");
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ(to_string(Shape{}), "[]");
  EXPECT_EQ((Shape{4, 0, 3}.numel()), 0);
}

TEST(Shape, NegativeDimensionsCountFromTheEnd) {
  const Shape shape{2, 3, 4};
  EXPECT_EQ(shape[-1], 4);
  EXPECT_EQ(shape[-3], 2);
  EXPECT_EQ(shape[1], 3);
  EXPECT_THROW(static_cast<void>(shape[3]), ShapeError);
  EXPECT_THROW(static_cast<void>(shape[-4]), ShapeError);
}

TEST(Shape, RefusesNegativeExtentsAndTooManyDimensions) {
  EXPECT_THROW((Shape{2, -1}), ShapeError);
  EXPECT_EQ((Shape{1, 1, 1, 1, 1, 1, 1, 1}.dims()), 8);
  EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), ShapeError);
}

TEST(Shape, EqualityLooksAtUsedExtentsOnly) {
  EXPECT_EQ((Shape{2, 3}), (Shape{2, 3}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{2, 3, 1}));
  EXPECT_FALSE((Shape{2, 3}) == (Shape{3, 2}));
  EXPECT_EQ((Shape{7, 3}.with_leading(2)), (Shape{2, 3}));
  EXPECT_THROW(static_cast<void>(Shape{}.with_leading(2)), ShapeError);
}

}  // namespace
}  // namespace lockstep
