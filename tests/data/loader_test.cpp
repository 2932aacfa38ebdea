#include <lockstep/data/batches/loader.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <stdexcept>
#include <thread>
#include <vector>

#include <lockstep/base/failure.hpp>
#include <lockstep/data/batches/sampler.hpp>
#include <lockstep/data/files/joined_array.hpp>
#include <lockstep/data/stacked_dataset.hpp>
#include <lockstep/data/streamed_dataset.hpp>
#include <lockstep/data/subset.hpp>
#include <lockstep/data/synthetic_dataset.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using List = std::vector<std::int64_t>;

// Sample i is the number i. Loading can be made to fail or to wait.
class NumberDataset final : public Dataset {
 public:
  explicit NumberDataset(std::int64_t n) : n_(n) {}
  [[nodiscard]] std::int64_t size() const noexcept override { return n_; }
  [[nodiscard]] Shape sample_shape() const override { return {1}; }
  [[nodiscard]] std::int64_t classes() const noexcept override { return n_; }
  void load(std::span<const std::int64_t> indices, Batch& batch) const override {
    while (!open.load()) std::this_thread::yield();
    for (const auto i : indices) {
      if (i == bad_input_at) throw InputError("sample is unreadable");
      if (i == throws_at) throw std::runtime_error("unexpected");
      if (i == no_memory_at) throw std::bad_alloc();
    }
    batch.reset(indices);
    batch.targets().copy_from_host(indices);
    std::vector<float> values(indices.begin(), indices.end());
    batch.inputs().copy_from_host(std::span<const float>(values));
    ++loaded;
  }

  std::int64_t bad_input_at = -1, throws_at = -1, no_memory_at = -1;
  std::atomic<bool> open{true};
  mutable std::atomic<int> loaded{0};

 private:
  std::int64_t n_;
};

std::unique_ptr<BatchSource> in_order(std::int64_t n, std::int64_t batch, int world = 1,
                                      int rank = 0) {
  return std::make_unique<TrainBatches>(BatchPlan(n, batch, world), rank, 1, Shuffle{.on = false});
}

List rest_of_epoch(Loader& loader) {
  List all;
  while (loader.has_next()) {
    const Batch& batch = loader.next();
    const auto targets = batch.targets().to_vector<std::int64_t>();
    const auto inputs = batch.inputs().to_vector<float>();
    EXPECT_EQ(inputs, std::vector<float>(targets.begin(), targets.end()));
    all.insert(all.end(), targets.begin(), targets.end());
  }
  return all;
}

List numbers(std::int64_t begin, std::int64_t end) {
  List list;
  for (auto i = begin; i < end; ++i) list.push_back(i);
  return list;
}

class AnyPrefetch : public testing::TestWithParam<int> {};

TEST_P(AnyPrefetch, EpochBringsEveryStepInOrder) {
  Loader loader(std::make_shared<NumberDataset>(103), in_order(103, 10), GetParam());
  EXPECT_EQ(loader.steps(), 11);
  for (int epoch = 0; epoch < 3; ++epoch) {
    loader.start_epoch(epoch);
    EXPECT_EQ(rest_of_epoch(loader), numbers(0, 103));
  }
}

TEST_P(AnyPrefetch, BatchStaysUntouchedUntilTheNextCall) {
  Loader loader(std::make_shared<NumberDataset>(100), in_order(100, 10), GetParam());
  loader.start_epoch(0);
  while (loader.has_next()) {
    const std::int64_t step = loader.next_step();
    const Batch& batch = loader.next();
    for (int i = 0; i < 20; ++i) std::this_thread::yield();  // the thread may run far ahead
    EXPECT_EQ(batch.targets().to_vector<std::int64_t>(), numbers(step * 10, step * 10 + 10));
  }
}

INSTANTIATE_TEST_SUITE_P(Prefetch, AnyPrefetch, testing::Values(1, 2, 3, 16));

TEST(Loader, StartsInTheMiddleOfAnEpoch) {
  const auto source = [] { return std::make_unique<TrainBatches>(BatchPlan(100, 10, 2), 1, 1234); };
  const auto data = std::make_shared<NumberDataset>(100);
  Loader whole(data, source()), resumed(data, source());
  whole.start_epoch(4);
  for (int step = 0; step < 6; ++step) static_cast<void>(whole.next());
  resumed.start_epoch(4, 6);
  EXPECT_EQ(resumed.next_step(), 6);
  EXPECT_EQ(rest_of_epoch(resumed), rest_of_epoch(whole));
}

TEST(Loader, EpochsAreShuffledDifferentlyAndStartAgainAlike) {
  Loader loader(std::make_shared<NumberDataset>(100),
                std::make_unique<TrainBatches>(BatchPlan(100, 10, 1), 0, 1234));
  loader.start_epoch(0);
  const List first = rest_of_epoch(loader);
  loader.start_epoch(1);
  EXPECT_NE(rest_of_epoch(loader), first);
  loader.start_epoch(0);
  EXPECT_EQ(rest_of_epoch(loader), first);
}

TEST(Loader, EpochIsAbandonedInItsMiddle) {
  Loader loader(std::make_shared<NumberDataset>(1000), in_order(1000, 10));
  for (int epoch = 0; epoch < 200; ++epoch) {
    loader.start_epoch(epoch);
    for (int step = 0; step < epoch % 4; ++step) static_cast<void>(loader.next());
  }
  loader.start_epoch(0);
  EXPECT_EQ(rest_of_epoch(loader), numbers(0, 1000));
}

TEST(Loader, IsDestroyedAtAnyMoment) {
  const auto data = std::make_shared<NumberDataset>(1000);
  for (int i = 0; i < 200; ++i) {
    Loader loader(data, in_order(1000, 10), 1 + i % 3);
    if (i % 5 == 0) continue;
    loader.start_epoch(0);
    for (int step = 0; step < i % 7; ++step) static_cast<void>(loader.next());
  }
}

TEST(Loader, RanksWithoutSamplesGetEmptyBatches) {
  Loader loader(std::make_shared<NumberDataset>(10), in_order(10, 2, 4, 3));
  loader.start_epoch(0);
  int steps = 0;
  while (loader.has_next()) {
    const Batch& batch = loader.next();
    EXPECT_EQ(batch.size(), 0);
    EXPECT_EQ(batch.inputs().shape(), Shape({0, 1}));
    ++steps;
  }
  EXPECT_EQ(steps, 5);
}

TEST(Loader, ReadsEvaluationBatchesToo) {
  Loader loader(std::make_shared<NumberDataset>(25),
                std::make_unique<EvalBatches>(EvalPlan(25, 10, 2), 0));
  loader.start_epoch(0);
  List expected = numbers(0, 10);
  for (const auto i : numbers(20, 25)) expected.push_back(i);
  EXPECT_EQ(rest_of_epoch(loader), expected);
}

TEST(Loader, FailureSurfacesAtItsStepWithPlaceAndExitCode) {
  const auto data = std::make_shared<NumberDataset>(100);
  data->bad_input_at = 37;
  Loader loader(data, in_order(100, 10), 8);
  loader.start_epoch(2);
  for (int step = 0; step < 3; ++step) static_cast<void>(loader.next());
  for (int attempt = 0; attempt < 2; ++attempt) {
    try {
      static_cast<void>(loader.next());
      FAIL() << "step 3 cannot be loaded";
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "loading step 4 of epoch 3 failed: sample is unreadable");
      EXPECT_EQ(error.exit_code(), ExitCode::bad_input);
    }
  }
  data->bad_input_at = -1;
  loader.start_epoch(2, 3);
  EXPECT_EQ(rest_of_epoch(loader), numbers(30, 100));
}

TEST(Loader, ForeignExceptionsBecomeErrors) {
  const auto data = std::make_shared<NumberDataset>(10);
  data->throws_at = 0;
  Loader loader(data, in_order(10, 10));
  loader.start_epoch(0);
  try {
    static_cast<void>(loader.next());
    FAIL() << "step 0 cannot be loaded";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "loading step 1 of epoch 1 failed: unexpected");
    EXPECT_EQ(error.exit_code(), ExitCode::failure);
  }
}

TEST(Loader, WantOfMemoryStaysAKindOfItsOwn) {
  const auto data = std::make_shared<NumberDataset>(10);
  data->no_memory_at = 0;
  Loader loader(data, in_order(10, 10));
  loader.start_epoch(0);
  const auto failure = failure_of([&] { static_cast<void>(loader.next()); });
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->kind, FailureKind::out_of_memory);
  EXPECT_TRUE(failure->message.starts_with("loading step 1 of epoch 1 failed: out of memory"))
      << failure->message;
}

TEST(Loader, LoadsAheadButNotBeyondItsBuffers) {
  const auto data = std::make_shared<NumberDataset>(100);
  Loader loader(data, in_order(100, 10), 3);
  loader.start_epoch(0);
  const auto wait_for = [&](int batches) {
    while (data->loaded < batches) std::this_thread::yield();
  };
  wait_for(3);
  static_cast<void>(loader.next());  // frees no buffer yet: the caller reads it
  static_cast<void>(loader.next());
  wait_for(4);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));  // time in which a fifth could arrive
  EXPECT_EQ(data->loaded, 4);
}

TEST(Loader, CountsTheSecondsTheCallerWaited) {
  const auto data = std::make_shared<NumberDataset>(100);
  data->open = false;
  Loader loader(data, in_order(100, 10));
  loader.start_epoch(0);
  EXPECT_EQ(loader.seconds_waited(), 0.0);
  std::atomic<bool> calling = false;
  std::thread opener([&] {
    while (!calling) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // the caller is waiting by then
    data->open = true;
  });
  const auto start = std::chrono::steady_clock::now();
  calling = true;
  static_cast<void>(loader.next());
  const double total =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  opener.join();
  EXPECT_GT(loader.seconds_waited(), 0.0);
  EXPECT_LE(loader.seconds_waited(), total);
}

TEST(Loader, WrongCallsAreErrors) {
  const auto data = std::make_shared<NumberDataset>(10);
  EXPECT_THROW(Loader(data, in_order(10, 5), 0), InputError);
  Loader loader(data, in_order(10, 5));
  EXPECT_FALSE(loader.has_next());
  EXPECT_THROW(static_cast<void>(loader.next()), Error);
  EXPECT_THROW(loader.start_epoch(0, 3), Error);
  EXPECT_THROW(loader.start_epoch(0, -1), Error);
  loader.start_epoch(0, 2);  // resumed exactly at an epoch's end
  EXPECT_FALSE(loader.has_next());
}

TEST(Loader, SeveralLoadersShareADataSet) {
  const auto data = make_synthetic({.samples = 200}, Split::train);
  const auto sum_of_targets = [&](int rank) {
    Loader loader(data, std::make_unique<TrainBatches>(BatchPlan(200, 32, 4), rank, 1));
    std::int64_t sum = 0;
    loader.start_epoch(0);
    while (loader.has_next()) {
      for (const auto t : loader.next().targets().to_vector<std::int64_t>()) sum += t;
    }
    return sum;
  };
  std::vector<std::int64_t> together(4), apart(4);
  for (int rank = 0; rank < 4; ++rank) apart[static_cast<std::size_t>(rank)] = sum_of_targets(rank);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < 4; ++rank) {
    threads.emplace_back(
        [&, rank] { together[static_cast<std::size_t>(rank)] = sum_of_targets(rank); });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(together, apart);
}

/// The contents of a rank's batches of `epoch`.
std::vector<List> batches_of(Loader& loader, std::int64_t epoch) {
  std::vector<List> batches;
  loader.start_epoch(epoch);
  while (loader.has_next()) batches.push_back(loader.next().targets().to_vector<std::int64_t>());
  return batches;
}

TEST(SampledBatches, FeedALoaderWithTheSamplersSamples) {
  constexpr std::int64_t n = 11;
  const auto data = std::make_shared<NumberDataset>(n);
  for (int rank = 0; rank < 2; ++rank) {
    DistributedSampler sampler(n, 2, rank, {.seed = 5});
    Loader loader(data, std::make_unique<SampledBatches>(sampler, 4));
    EXPECT_EQ(loader.steps(), 2);
    for (const std::int64_t epoch : {0, 1, 0}) {
      sampler.set_epoch(epoch);
      const auto mine = sampler.indices();
      const auto batches = batches_of(loader, epoch);
      ASSERT_EQ(batches.size(), 2U);
      EXPECT_EQ(batches[0], List(mine.begin(), mine.begin() + 4));
      EXPECT_EQ(batches[1], List(mine.begin() + 4, mine.end()));
    }
  }
}

TEST(SampledBatches, LeaveOutTheTailIfAsked) {
  const DistributedSampler sampler(11, 2, 0, {.shuffle = false});
  Loader loader(std::make_shared<NumberDataset>(11),
                std::make_unique<SampledBatches>(sampler, 4, true));
  EXPECT_EQ(batches_of(loader, 0), (std::vector<List>{{0, 2, 4, 6}}));
  Loader none(std::make_shared<NumberDataset>(11),
              std::make_unique<SampledBatches>(sampler, 7, true));
  EXPECT_EQ(none.steps(), 0);
  EXPECT_THROW(SampledBatches(sampler, 0), InputError);
}

TEST(NullPointers, AreSentencesInEveryPartOfLoading) {
  const auto data = std::make_shared<NumberDataset>(3);
  const auto batches = [] {
    return std::make_unique<SampledBatches>(DistributedSampler(3, 1, 0), 1);
  };
  const std::vector<std::function<void()>> calls = {
      [&] { Loader(nullptr, batches()); },
      [&] { Loader(data, nullptr); },
      [&] { Loader(data, batches(), 2, {nullptr}); },
      [&] { TrainBatches(BatchPlan(3, 1, 1), 0, std::unique_ptr<EpochOrder>()); },
      [&] { Subset(nullptr, {0}); },
      [&] { StackedDataset(nullptr, {data}); },
      [&] { StackedDataset(data, {nullptr}); },
      [&] { JoinedArray({nullptr}); },
      [&] { static_cast<void>(pair_samples(nullptr, nullptr, TargetKind::values, 0)); },
      [&] { StreamedDataset(StoredSamples{}, 0, std::nullopt); }};
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto message = test::message_of<Error>(calls[i]);
    EXPECT_NE(message.find(" is null"), std::string::npos) << i << ": " << message;
  }
}

/// A device's view of two epochs, the second begun before the first has ended; the host never waits
/// in between.
List seen_by_device(std::int64_t buffers, Device device) {
  constexpr std::int64_t n = 40, batch = 4, first_steps = 7;
  const auto data = std::make_shared<const NumberDataset>(n);
  Loader loader(data, in_order(n, batch), buffers, {}, device);
  const Tensor seen = Tensor::zeros({n + first_steps * batch}, DType::i64, device);
  std::int64_t at = 0;
  const auto take = [&] {
    const Batch& now = loader.next();
    EXPECT_EQ(now.targets().device(), device);
    EXPECT_EQ(now.inputs().device(), device);
    seen.slice(at, at + now.size()).copy_from(now.indices());
    at += now.size();
  };
  loader.start_epoch(0);
  for (std::int64_t step = 0; step < first_steps; ++step) take();
  loader.start_epoch(1);
  while (loader.has_next()) take();
  return seen.to_vector<std::int64_t>();
}

TEST(Loader, BatchesAreOnTheDeviceWithoutAWaitOfTheHost) {
  const List host = seen_by_device(2, Device{});
  ASSERT_EQ(host.back(), 39);
  auto& runtime = SimulatedRuntime::instance();
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    runtime.set_seed(seed);
    for (const std::int64_t buffers : {1, 2, 3})
      ASSERT_EQ(seen_by_device(buffers, {DeviceType::sim, 2}), host) << "seed " << seed;
  }
}

#ifndef __SANITIZE_THREAD__  // a forgotten wait is a data race
TEST(Loader, EachOfItsWaitsForADeviceIsNeeded) {
  constexpr Device device{DeviceType::sim, 3};
  const List host = seen_by_device(2, Device{});
  auto& runtime = SimulatedRuntime::instance();
  // Four in the middle of a run: a copy's, its reader's, and the worker's. The first ones are the
  // allocator's.
  const std::int64_t before = runtime.counts(device.index).waits;
  EXPECT_EQ(seen_by_device(1, device), host);
  const std::int64_t middle = (runtime.counts(device.index).waits - before) / 2;
  int found = 0;
  for (std::int64_t lost = middle; lost < middle + 4; ++lost) {
    bool wrong = false;
    for (std::uint64_t seed = 1; seed <= 40 && !wrong; ++seed) {
      runtime.set_seed(seed);
      runtime.inject(device.index, {.lost_wait_at = lost});
      wrong = seen_by_device(1, device) != host;
      runtime.let_go(device.index);
    }
    found += wrong ? 1 : 0;
  }
  EXPECT_EQ(found, 4);
}
#endif

TEST(Loader, InputsBesideTheFirstGoToTheDevice) {
  constexpr Device device{DeviceType::sim, 0};
  const auto numbers = std::make_shared<const NumberDataset>(6);
  const auto data = std::make_shared<const StackedDataset>(
      numbers, std::vector<std::shared_ptr<const Dataset>>{numbers});
  Loader loader(data, in_order(6, 3), 2, {}, device);
  loader.start_epoch(0);
  static_cast<void>(loader.next());
  const Batch& batch = loader.next();
  EXPECT_EQ(batch.inputs(1).device(), device);
  EXPECT_EQ(batch.inputs(1).to_vector<float>(), (std::vector<float>{3, 4, 5}));
}

}  // namespace
}  // namespace lockstep
