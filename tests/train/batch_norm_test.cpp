// A model with buffers on several ranks: each rank's running statistics see only its own samples,
// but every rank evaluates and saves the same bits, rank 0's. With ddp.sync_batch_norm they see the
// samples of all ranks.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include <lockstep/checkpoint/folder_of_checkpoints.hpp>
#include <lockstep/checkpoint/reader.hpp>
#include <lockstep/comm/threads_group.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/math_libraries.hpp>
#include <lockstep/train/report/console.hpp>
#include <lockstep/train/report/metrics.hpp>
#include <lockstep/train/run/run_folder.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/batch_norm_check.hpp>
#include <lockstep/train/task/classification.hpp>
#include <lockstep/train/trainer.hpp>
#include <mutex>
#include <support/process.hpp>

namespace lockstep::train {
namespace {

/// Its statistics are near the end of its state, which the last rank writes to a checkpoint.
class BatchNormTask : public Classification {
 public:
  using Classification::Classification;
  [[nodiscard]] std::shared_ptr<nn::Module> make_model() const override {
    return std::make_shared<nn::Sequential>(std::initializer_list<nn::Sequential::NamedModule>{
        {"conv1", std::make_shared<nn::Conv2d>(1, 16, 3)},
        {"conv2", std::make_shared<nn::Conv2d>(16, 16, 3)},
        {"bn", std::make_shared<nn::BatchNorm2d>(16)},
        {"relu", std::make_shared<nn::ReLU>()},
        {"pool", std::make_shared<nn::AdaptiveAvgPool2d>(1)},
        {"flatten", std::make_shared<nn::Flatten>()},
        {"fc", std::make_shared<nn::Linear>(16, 10)},
        {"log_softmax", std::make_shared<nn::LogSoftmax>()}});
  }
};

using Bits = std::vector<std::pair<std::string, std::vector<double>>>;

Bits bits_of(const StateDict& state) {
  Bits bits;
  for (const auto& entry : state)
    bits.emplace_back(entry.name, entry.tensor.to(DType::f64).to_vector<double>());
  return bits;
}

/// One rank's states.
struct Seen {
  Bits step_4;     ///< the model's state after four steps
  Bits trained;    ///< the state after the last step of the first epoch
  Bits evaluated;  ///< the state used by the evaluation after it
  Bits end;        ///< the state at the end of a whole run, whose checkpoint was saved
  Evaluation evaluation;
};

/// Two epochs in `folder`, each ending in a batch of one sample: only the first rank has one.
std::vector<Seen> train(int ranks, const std::string& folder, bool sync_batch_norm = false) {
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  std::mutex reading;
  Console console(0);
  run_ranks_as_threads(ranks, [&](ProcessGroup& group) {
    set_math_threads(1);
    std::unique_lock lock(reading);
    auto deck =
        Deck::parse(R"(
      data = {kind = "synthetic", synthetic_samples = 121, synthetic_test_samples = 50, synthetic_image_size = 8}
      train = {epochs = 2, batch_size = 24, check_replicas_every = 1}
      eval = {batch_size = 16}
      checkpoint = {every_steps = 4, keep = 0}
      optimizer = {lr = 0.1}
    )",
                    "batch_norm_test", {fmt::format("ddp.sync_batch_norm={}", sync_batch_norm)});
    const RunPlan plan = read_run_plan(deck);
    const BatchNormTask task(deck);
    lock.unlock();
    const std::shared_ptr<ProcessGroup> shared(&group, [](ProcessGroup*) {});
    Seen& mine = seen[static_cast<std::size_t>(group.rank())];
    {
      Trainer trainer(shared, task, plan);
      trainer.start_epoch(0);
      for (std::int64_t step = 0; step < trainer.steps_an_epoch(); ++step) {
        trainer.step();
        if (step == 3) mine.step_4 = bits_of(trainer.model().state_dict());
      }
      mine.trained = bits_of(trainer.model().state_dict());
      mine.evaluation = trainer.evaluate();
      mine.evaluated = bits_of(trainer.model().state_dict());
    }
    Trainer trainer(shared, task, plan);
    const auto run_folder = RunFolder::open(group, {.dir = folder}, false);
    MetricsFile metrics;
    if (group.rank() == 0) metrics = MetricsFile(run_folder.file("metrics.jsonl"));
    trainer.run(run_folder, metrics, console, deck.resolved());
    mine.end = bits_of(trainer.model().state_dict());
  });
  return seen;
}

class BatchNormOnRanks : public testing::TestWithParam<int> {};

TEST_P(BatchNormOnRanks, AllEvaluateWithTheStatisticsOfRankZero) {
  const test::ScratchFolder scratch;
  const auto seen = train(GetParam(), scratch.file("run"));
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    if (rank > 0) {
      EXPECT_NE(seen[rank].trained, seen[0].trained) << "ranks saw the same samples: no test";
    }
    EXPECT_EQ(seen[rank].evaluated, seen[0].trained) << "rank " << rank;
    EXPECT_EQ(seen[rank].evaluation.loss, seen[0].evaluation.loss) << "rank " << rank;
    EXPECT_EQ(seen[rank].evaluation.metrics, seen[0].evaluation.metrics) << "rank " << rank;
  }
}

TEST_P(BatchNormOnRanks, AllSaveTheStatisticsOfRankZeroInWhichEveryBatchIsCounted) {
  const test::ScratchFolder scratch;
  const auto seen = train(GetParam(), scratch.file("run"));
  const auto checkpoint = [&](std::int64_t step) {
    return load_checkpoint(checkpoint_path(scratch.file("run/checkpoints"), step));
  };
  EXPECT_EQ(bits_of(checkpoint(4).model), seen[0].step_4) << "in the middle of an epoch";
  const auto saved = checkpoint(12);
  for (const Seen& rank : seen) EXPECT_EQ(rank.end, bits_of(saved.model));
  EXPECT_EQ(saved.model.at("bn.num_batches_tracked").to_vector<std::int64_t>().at(0), 12);
}

/// The largest difference of corresponding numbers; NaN if there is one.
double largest_difference(const Bits& a, const Bits& b) {
  double largest = 0;
  for (std::size_t t = 0; t < a.size(); ++t) {
    for (std::size_t i = 0; i < a[t].second.size(); ++i) {
      const double difference = std::abs(a[t].second[i] - b.at(t).second.at(i));
      if (!(difference <= largest)) largest = difference;
    }
  }
  return largest;
}

TEST_P(BatchNormOnRanks, WithStatisticsOfAllRanksTheyTrainAsOneRankAlsoWithoutSamples) {
  const test::ScratchFolder scratch;
  const auto seen = train(GetParam(), scratch.file("run"), true);
  const auto alone = train(1, scratch.file("alone"));
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    EXPECT_EQ(seen[rank].trained, seen[0].trained) << "rank " << rank;
    EXPECT_EQ(seen[rank].evaluated, seen[rank].trained) << "rank " << rank;
    EXPECT_LE(largest_difference(seen[rank].trained, alone[0].trained), 1e-5) << "rank " << rank;
    EXPECT_LE(largest_difference(seen[rank].end, alone[0].end), 1e-5) << "rank " << rank;
  }
  if (GetParam() == 1) return;
  const auto apart = train(GetParam(), scratch.file("apart"));
  EXPECT_GT(largest_difference(apart[0].trained, alone[0].trained), 1e-2) << "no test otherwise";
}

INSTANTIATE_TEST_SUITE_P(Ranks, BatchNormOnRanks, testing::Values(1, 2, 3));

// Against counting all parts of all shards.
TEST(BatchNormCheck, FindsThePartsOfOneSample) {
  for (std::int64_t batch = 1; batch <= 14; ++batch) {
    for (std::int64_t shards = 1; shards <= 5; ++shards) {
      for (std::int64_t accumulate = 1; accumulate <= 4; ++accumulate) {
        bool apart = false, joined = false;
        for (std::int64_t part = 0; part < accumulate; ++part) {
          std::int64_t together = 0;
          for (std::int64_t shard = 0; shard < shards; ++shard) {
            const std::int64_t samples =
                part_of(part_of(batch, shards, shard).size(), accumulate, part).size();
            apart = apart || samples == 1;
            together += samples;
          }
          joined = joined || together == 1;
        }
        EXPECT_EQ(has_part_of_one(batch, shards, accumulate, false), apart)
            << batch << " " << shards << " " << accumulate;
        EXPECT_EQ(has_part_of_one(batch, shards, accumulate, true), joined)
            << batch << " " << shards << " " << accumulate;
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::train
