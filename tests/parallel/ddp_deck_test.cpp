#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

namespace lockstep {
namespace {

DdpOptions read(const char* toml) { return Deck::parse(toml, "test.toml").read<DdpOptions>("ddp"); }

TEST(DdpDeck, EveryKeyReachesItsOption) {
  const DdpOptions options = read(
      "[ddp]\nfirst_bucket_bytes = 5\nbucket_bytes = 7\ncomm_hook = \"fp16_compress\"\n"
      "sync_batch_norm = true\n");
  EXPECT_EQ(options.buckets.first_bucket_bytes, 5);
  EXPECT_EQ(options.buckets.bucket_bytes, 7);
  EXPECT_EQ(options.comm_hook, CommHookKind::fp16_compress);
  EXPECT_TRUE(options.sync_batch_norm);
  EXPECT_FALSE(read("").sync_batch_norm);
}

TEST(DdpDeck, LimitsBelowOneAreRefused) {
  EXPECT_THROW(read("[ddp]\nfirst_bucket_bytes = 0\n"), InputError);
  EXPECT_THROW(read("[ddp]\nbucket_bytes = 0\n"), InputError);
}

}  // namespace
}  // namespace lockstep
