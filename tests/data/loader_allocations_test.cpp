#include <gtest/gtest.h>
#include <data/hdf5_files.hpp>
#include <data/idx_files.hpp>

#include <functional>
#include <memory>
#include <vector>

#include <lockstep/data/batches/augment.hpp>
#include <lockstep/data/batches/loader.hpp>
#include <lockstep/data/streamed_dataset.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <support/allocation_counter.hpp>

namespace lockstep {
namespace {

constexpr std::int64_t samples = 1000;

/// Allocations, by operator new and of tensors, in the epochs after the first.
std::int64_t allocations_of_later_epochs(const std::shared_ptr<const Dataset>& data,
                                         const BatchTransforms& transforms = {},
                                         const Shuffle& shuffle = {}) {
  Loader loader(data, std::make_unique<TrainBatches>(BatchPlan(samples, 96, 3), 1, 1234, shuffle),
                2, transforms);
  const auto run = [&](std::int64_t epoch) {
    loader.start_epoch(epoch);
    std::int64_t loaded = 0;
    while (loader.has_next()) loaded += loader.next().size();
    EXPECT_GT(loaded, samples / 4);
  };
  run(0);
  const auto before = test::allocation_count() + memory_stats().system_allocations;
  run(1);
  run(2);
  return test::allocation_count() + memory_stats().system_allocations - before;
}

TEST(LoaderAllocations, EpochsAfterTheFirstAllocateNothing) {
  EXPECT_EQ(allocations_of_later_epochs(make_synthetic({.samples = samples}, Split::train)), 0);
}

TEST(LoaderAllocations, NeitherDoAugmentationAndWindowedShuffles) {
  const auto data = make_synthetic({.samples = samples, .channels = 3}, Split::train);
  const auto transforms =
      make_augmentation({.crop_padding = 4, .flip = true}, data->sample_shape(), {0.0F}, 1234);
  EXPECT_EQ(allocations_of_later_epochs(data, transforms, {.window = 64}), 0);
}

TEST(LoaderAllocations, NeitherDoesStreamingFromContiguousAndCompressedFiles) {
  const test::TemporaryFolder folder;
  const auto file = folder.path() / "data.h5";
  const std::vector<float> features(samples * 12, 1.5F);
  const std::vector<double> values(samples * 2, 2.5);
  test::write_hdf5(file, "flat", {samples, 12}, features);
  test::write_hdf5(file, "compressed", {samples, 12}, features,
                   {.chunk = {100, 12}, .compressed = true});
  test::write_hdf5(file, "values", {samples, 2}, values);
  for (const char* name : {"flat", "compressed"}) {
    const auto opened = test::open_samples(file, name, "values", TargetKind::values);
    EXPECT_EQ(allocations_of_later_epochs(
                  std::make_shared<const StreamedDataset>(opened, 0, Normalisation{})),
              0)
        << name;
  }
}

}  // namespace
}  // namespace lockstep
