#include <gtest/gtest.h>
#include <lockstep/comm/node/slot_table.hpp>

namespace lockstep {
namespace {

TEST(SlotTable, CollectivesThatFindTheRingFullArePostedInTheirOrder) {
  const auto segment = Segment::in_this_process(2, SlotTable::bytes());
  SlotTable mine(segment, 2, 0), other(segment, 2, 1);
  for (std::uint64_t sequence = 1; sequence <= SlotTable::slots; ++sequence) {
    ASSERT_TRUE(mine.may_post(sequence));
    mine.post(sequence);
  }
  const std::uint64_t next = SlotTable::slots + 1;
  EXPECT_FALSE(mine.may_post(next)) << "the other rank may still read its slot";
  mine.retire(10);
  other.retire(10);
  EXPECT_FALSE(mine.may_post(next + 1)) << "the one before is not posted";
  EXPECT_TRUE(mine.may_post(next));
  mine.post(next);
  EXPECT_TRUE(mine.may_post(next + 1));
  EXPECT_FALSE(mine.may_post(next + 10));
}

}  // namespace
}  // namespace lockstep
