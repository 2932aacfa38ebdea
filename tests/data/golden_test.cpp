// The lists of tests/golden/ddp.h5, and the labels of convnet.h5 against the real data set.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include <lockstep/data/batches/batch_source.hpp>
#include <lockstep/data/batches/mt19937.hpp>
#include <lockstep/data/batches/partitioner.hpp>
#include <lockstep/data/batches/sampler.hpp>
#include <lockstep/data/fashion_mnist.hpp>

#include <support/golden_file.hpp>

namespace lockstep {
namespace {

using List = std::vector<std::int64_t>;

List list(std::span<const std::int64_t> indices) { return {indices.begin(), indices.end()}; }

TEST(DataPartitionerGolden, PartsAreThoseOfThePythonTutorial) {
  const test::GoldenFile file("ddp.h5");
  const auto seed = static_cast<std::uint64_t>(file.number("partitioner", "seed"));
  PythonRandom random(seed);
  for (const auto word : file.tensor("partitioner/first_u32").to_vector<std::int64_t>()) {
    ASSERT_EQ(random.next_u32(), word);
  }
  const auto n = static_cast<std::int64_t>(file.number("partitioner", "n"));
  const DataPartitioner partitioner(n, file.numbers("partitioner", "sizes"), seed);
  ASSERT_GT(partitioner.size(), 0U);
  for (std::size_t i = 0; i < partitioner.size(); ++i) {
    EXPECT_EQ(list(partitioner.part(i)),
              file.tensor("partitioner/part" + std::to_string(i)).to_vector<std::int64_t>());
  }
  EXPECT_EQ(file.unread("partitioner"), std::vector<std::string>{});
}

struct SamplerCase {
  std::int64_t n;
  int world;
  SamplerOptions options;
  std::int64_t num_samples, total_size;
};

// Calls f(path, case) for every case of the file with the given `shuffle`; returns their number.
template <class F>
int for_each_case(const test::GoldenFile& file, bool shuffle, const F& f) {
  int cases = 0;
  for (const auto& group : file.groups("sampler")) {
    for (const auto& variant : file.groups("sampler/" + group)) {
      const std::string path = "sampler/" + group + "/" + variant;
      const auto whole = [&](const char* name) {
        return static_cast<std::int64_t>(file.number(path, name));
      };
      if ((whole("shuffle") != 0) != shuffle) continue;
      SCOPED_TRACE(path);
      f(path, SamplerCase{whole("n"),
                          static_cast<int>(whole("world")),
                          {.shuffle = shuffle, .drop_last = whole("drop_last") != 0},
                          whole("num_samples"),
                          whole("total_size")});
      ++cases;
    }
  }
  return cases;
}

TEST(DistributedSamplerGolden, UnshuffledListsAreThoseOfPyTorch) {
  const test::GoldenFile file("ddp.h5");
  const int cases = for_each_case(file, false, [&](const std::string& path, const SamplerCase& c) {
    EXPECT_FALSE(file.datasets(path).empty());
    for (const auto& epoch : file.datasets(path)) {
      List all;
      for (int rank = 0; rank < c.world; ++rank) {
        DistributedSampler sampler(c.n, c.world, rank, c.options);
        sampler.set_epoch(std::stoll(epoch.substr(5)));  // "epoch2"
        EXPECT_EQ(sampler.num_samples(), c.num_samples);
        EXPECT_EQ(sampler.total_size(), c.total_size);
        all.insert(all.end(), sampler.indices().begin(), sampler.indices().end());
      }
      EXPECT_EQ(all, file.tensor(path + "/" + epoch).to_vector<std::int64_t>()) << epoch;
    }
    EXPECT_EQ(file.unread(path), std::vector<std::string>{});
  });
  EXPECT_GT(cases, 0);
}

TEST(DistributedSamplerGolden, ShuffledListsHavePyTorchsProperties) {
  const test::GoldenFile file("ddp.h5");
  const int cases = for_each_case(file, true, [&](const std::string&, const SamplerCase& c) {
    // Entry j of rank k is entry j * world + k of one list: the order P, then its beginning again.
    const auto joined = [&](std::int64_t epoch) {
      List all(static_cast<std::size_t>(c.total_size));
      for (int rank = 0; rank < c.world; ++rank) {
        DistributedSampler sampler(c.n, c.world, rank, c.options);
        sampler.set_epoch(epoch);
        EXPECT_EQ(sampler.num_samples(), c.num_samples);
        EXPECT_EQ(std::ssize(sampler.indices()), c.num_samples);
        for (std::int64_t j = 0; j < c.num_samples; ++j) {
          all[static_cast<std::size_t>(j * c.world + rank)] =
              sampler.indices()[static_cast<std::size_t>(j)];
        }
      }
      return all;
    };
    const List all = joined(3);
    EXPECT_EQ(all, joined(3));
    EXPECT_TRUE(c.n < 20 || all != joined(4));
    const auto order = static_cast<std::size_t>(std::min(c.n, c.total_size));
    const std::set<std::int64_t> distinct(all.begin(),
                                          all.begin() + static_cast<std::ptrdiff_t>(order));
    EXPECT_EQ(distinct.size(), order) << "a sample comes twice before all came once";
    for (const auto i : all) EXPECT_TRUE(0 <= i && i < c.n) << i;
    for (std::size_t i = order; i < all.size(); ++i) EXPECT_EQ(all[i], all[i - order]);
  });
  EXPECT_GT(cases, 0);
}

TEST(FashionMnistGolden, BatchesInFileOrderHaveTheReferencesLabelsAndPixels) {
  const test::GoldenFile file("convnet.h5");
  const auto batch_size = static_cast<std::int64_t>(file.number("", "batch_size"));
  const auto first = static_cast<std::int64_t>(file.number("", "first_index"));
  const double mean = file.number("", "mean"), std = file.number("", "std");
  const auto train = load_fashion_mnist(find_fashion_mnist("auto"), Split::train, {{mean}, {std}});
  ASSERT_EQ(train->size(), 60000);
  ASSERT_EQ(train->sample_shape(), Shape({1, 28, 28}));

  const Tensor labels = file.tensor("labels").to(DType::i64);  // [steps, batch]
  ASSERT_EQ(labels.size(1), batch_size);
  Batch batch(*train, batch_size);
  List indices(static_cast<std::size_t>(batch_size));
  for (std::int64_t step = 0; step < labels.size(0); ++step) {
    std::iota(indices.begin(), indices.end(), first + step * batch_size);
    train->load(indices, batch);
    ASSERT_EQ(batch.targets().to_vector<std::int64_t>(),
              labels.slice(step, step + 1).to_vector<std::int64_t>())
        << "step " << step;
  }

  // Every tenth batch of the whole set: pixels have Fashion-MNIST's mean and deviation, widely
  // published as 0.2860 and 0.3530; 6,000 images leave 0.002 to chance.
  double sum = 0.0, squares = 0.0, n = 0.0;
  for (std::int64_t begin = 0; begin + batch_size <= train->size(); begin += 10 * batch_size) {
    std::iota(indices.begin(), indices.end(), begin);
    train->load(indices, batch);
    for (const float x : batch.inputs().to_vector<float>()) {
      const double pixel = x * std + mean;
      sum += pixel;
      squares += pixel * pixel;
      n += 1.0;
    }
  }
  EXPECT_NEAR(sum / n, 0.2860, 6e-3);
  EXPECT_NEAR(std::sqrt(squares / n - sum / n * sum / n), 0.3530, 6e-3);
}

}  // namespace
}  // namespace lockstep
