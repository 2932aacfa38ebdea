#include <gtest/gtest.h>

#include <lockstep/data/loader.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep {
namespace {

TEST(LoaderAllocations, EpochsAfterTheFirstAllocateNothing) {
  const auto data = make_synthetic({.samples = 1000}, Split::train);
  Loader loader(data, std::make_unique<TrainBatches>(BatchPlan(1000, 96, 3), 1, 1234));
  const auto run = [&](std::int64_t epoch) {
    loader.start_epoch(epoch);
    std::int64_t samples = 0;
    while (loader.has_next()) samples += loader.next().size();
    return samples;
  };
  ASSERT_GT(run(0), 0);
  const auto before = test::allocation_count();
  const auto tensors_before = memory_stats().system_allocations;
  ASSERT_GT(run(1), 0);
  ASSERT_GT(run(2), 0);
  EXPECT_EQ(test::allocation_count() - before, 0);
  EXPECT_EQ(memory_stats().system_allocations - tensors_before, 0);
}

}  // namespace
}  // namespace lockstep
