#include <string>
#include <utility>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/parallel/comm_hook.hpp>
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

TEST(DdpDeck, EveryHookHasItsName) {
  EXPECT_EQ(read("").comm_hook, CommHookKind::all_reduce);
  for (const auto& [name, kind] : {std::pair{"all_reduce", CommHookKind::all_reduce},
                                   std::pair{"fp16_compress", CommHookKind::fp16_compress},
                                   std::pair{"bf16_compress", CommHookKind::bf16_compress},
                                   std::pair{"power_sgd", CommHookKind::power_sgd}}) {
    const DdpOptions options = read((std::string("[ddp]\ncomm_hook = \"") + name + "\"\n").c_str());
    EXPECT_EQ(options.comm_hook, kind);
    EXPECT_EQ(make_comm_hook(options)->name().rfind(name, 0), 0U);
  }
}

TEST(DdpDeck, EveryKeyOfPowerSgdReachesItsOption) {
  const PowerSgdOptions unset = read("").power_sgd;
  EXPECT_EQ(unset.matrix_approximation_rank, 1);
  EXPECT_EQ(unset.start_step, 1000);
  EXPECT_EQ(unset.min_compression_rate, 2.0);
  EXPECT_TRUE(unset.use_error_feedback);
  EXPECT_TRUE(unset.warm_start);
  const PowerSgdOptions options =
      read(
          "[ddp]\npower_sgd_rank = 3\npower_sgd_start_step = 0\n"
          "power_sgd_min_compression_rate = 1.5\npower_sgd_error_feedback = false\n"
          "power_sgd_warm_start = false\n")
          .power_sgd;
  EXPECT_EQ(options.matrix_approximation_rank, 3);
  EXPECT_EQ(options.start_step, 0);
  EXPECT_EQ(options.min_compression_rate, 1.5);
  EXPECT_FALSE(options.use_error_feedback);
  EXPECT_FALSE(options.warm_start);
  for (const char* wrong : {"rank = 0", "start_step = -1", "min_compression_rate = 0"}) {
    EXPECT_THROW(read((std::string("[ddp]\npower_sgd_") + wrong + "\n").c_str()), InputError);
  }
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
