#include <gtest/gtest.h>

#include <array>

#include <lockstep/deck/did_you_mean.hpp>

namespace lockstep {
namespace {

constexpr std::array<std::string_view, 5> known{"lr", "momentum", "batch_size", "epochs",
                                                "weight_decay"};

TEST(DidYouMean, FindsOneSlip) {
  EXPECT_EQ(nearest_name("momentun", known), "momentum");   // changed
  EXPECT_EQ(nearest_name("momentumm", known), "momentum");  // added
  EXPECT_EQ(nearest_name("momntum", known), "momentum");    // dropped
  EXPECT_EQ(nearest_name("mometnum", known), "momentum");   // swapped
  EXPECT_EQ(nearest_name("l", known), "lr");
}

TEST(DidYouMean, CaseAndHyphensDoNotCount) {
  EXPECT_EQ(nearest_name("Batch-Size", known), "batch_size");
  EXPECT_EQ(nearest_name("WEIGHT_DECAY", known), "weight_decay");
}

TEST(DidYouMean, TheNearestWins) {
  constexpr std::array<std::string_view, 3> names{"epoch_size", "epochs", "epoch"};
  EXPECT_EQ(nearest_name("epoch", names), "epoch");
  EXPECT_EQ(nearest_name("epochss", names), "epochs");
}

TEST(DidYouMean, ASwapCostsOneEdit) {
  constexpr std::array<std::string_view, 1> two{"ab"};  // one edit is the limit here
  EXPECT_EQ(nearest_name("ba", two), "ab");
}

TEST(DidYouMean, NothingIsNearANameWithNothingInCommon) {
  EXPECT_EQ(nearest_name("quantum", known), std::nullopt);
  EXPECT_EQ(nearest_name("", known), std::nullopt);
  EXPECT_EQ(nearest_name("x", {}), std::nullopt);
  EXPECT_EQ(nearest_name(std::string(1 << 24, 'x'), known), std::nullopt);
}

TEST(DidYouMean, TheSentenceFallsBackToAList) {
  EXPECT_EQ(did_you_mean("epoch", known), "Did you mean epochs?");
  EXPECT_EQ(did_you_mean("quantum", known),
            "Known are: lr, momentum, batch_size, epochs, weight_decay.");
  EXPECT_EQ(did_you_mean("x", {}), "None are known.");
}

}  // namespace
}  // namespace lockstep
