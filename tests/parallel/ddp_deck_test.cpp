#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>

namespace lockstep {
namespace {

DdpOptions read(const char* toml) { return Deck::parse(toml, "test.toml").read<DdpOptions>("ddp"); }

TEST(DdpDeck, EveryKeyReachesItsOption) {
  const DdpOptions options = read("[ddp]\nfirst_bucket_bytes = 5\nbucket_bytes = 7\n");
  EXPECT_EQ(options.buckets.first_bucket_bytes, 5);
  EXPECT_EQ(options.buckets.bucket_bytes, 7);
}

TEST(DdpDeck, PostLocalSgdHasItsStepAndItsPeriod) {
  const DdpOptions options =
      read("[ddp]\ncomm_hook = 'post_local_sgd'\nlocal_sgd_start_step = 0\nlocal_sgd_period = 9\n");
  EXPECT_EQ(options.comm_hook, CommHookKind::post_local_sgd);
  EXPECT_EQ(options.local_sgd.start_step, 0);
  EXPECT_EQ(options.local_sgd.period, 9);
  EXPECT_EQ(make_comm_hook(options)->name(), "post_local_sgd from step 0");
  EXPECT_THROW(read("[ddp]\nlocal_sgd_start_step = -1\n"), InputError);
  EXPECT_THROW(read("[ddp]\nlocal_sgd_period = 0\n"), InputError);
}

TEST(DdpDeck, LimitsBelowOneAreRefused) {
  EXPECT_THROW(read("[ddp]\nfirst_bucket_bytes = 0\n"), InputError);
  EXPECT_THROW(read("[ddp]\nbucket_bytes = 0\n"), InputError);
}

}  // namespace
}  // namespace lockstep
