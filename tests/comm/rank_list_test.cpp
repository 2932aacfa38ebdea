#include <gtest/gtest.h>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/flight/rank_list.hpp>

namespace lockstep {
namespace {

using Ranks = std::vector<int>;

TEST(RankList, ShortensRunsAndReadsItselfBack) {
  const std::vector<std::pair<Ranks, std::string>> lists = {
      {{3}, "3"},
      {{0, 1}, "0-1"},
      {{0, 5}, "0,5"},
      {{0, 1, 2, 4, 5, 6, 7}, "0-2,4-7"},
      {{0, 2, 4, 6}, "0-6/2"},
      {{3, 2, 1, 0}, "3-0/-1"},
      {{8, 0, 1, 2}, "8,0-2"},
  };
  for (const auto& [ranks, text] : lists) {
    EXPECT_EQ(format_rank_list(ranks), text);
    EXPECT_EQ(parse_rank_list(text), ranks) << text;
  }
}

TEST(RankList, InSentencesIsSingularOrPlural) {
  EXPECT_EQ(ranks_in_words(Ranks{3}), "rank 3");
  EXPECT_EQ(ranks_in_words(Ranks{0, 1, 2, 4, 5, 6, 7}), "ranks 0-2, 4-7");
}

TEST(RankList, RefusesInvalidLists) {
  for (const char* text : {"", "a", "1-", "1,", "0-3/0", "0-3/2", "3-1", "1 2", "-1"}) {
    EXPECT_THROW(static_cast<void>(parse_rank_list(text)), InputError) << text;
  }
}

}  // namespace
}  // namespace lockstep
