#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/train/task/confusion.hpp>

namespace lockstep::train {
namespace {

TEST(Confusion, RecallIsOfRowsAndPrecisionOfColumns) {
  const Confusion confusion(3, {6, 2, 0,  //
                                1, 3, 0,  //
                                0, 0, 0});
  EXPECT_EQ(confusion.recall(0), 0.75);
  EXPECT_EQ(confusion.precision(0), 6.0 / 7);
  EXPECT_EQ(confusion.recall(1), 0.75);
  EXPECT_EQ(confusion.precision(1), 0.6);
  EXPECT_TRUE(std::isnan(confusion.recall(2)) && std::isnan(confusion.precision(2)));
  EXPECT_EQ(confusion.samples_of(1), 4);
}

TEST(Confusion, TheTableHasALineAClassWithItsNameAndItsRow) {
  const Confusion confusion(2, {6, 2, 10, 3});
  EXPECT_EQ(confusion.table({"cat", "dog"}),
            "class    recall  precision  samples  predicted as class 0, 1, ...\n"
            " 0  cat  0.7500     0.3750        8   6   2\n"
            " 1  dog  0.2308     0.6000       13  10   3\n");
}

}  // namespace
}  // namespace lockstep::train
