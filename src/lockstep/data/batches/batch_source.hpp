#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/data/batches/permutation.hpp>
#include <lockstep/data/batches/sampler.hpp>

namespace lockstep {

/// Gives a Loader the samples that this rank needs, step by step. One thread at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Steps of an epoch on this rank; the same in every epoch.
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  /// The largest number of samples in a step.
  [[nodiscard]] virtual std::int64_t largest_batch() const = 0;
  /// Whether samples are loaded as they are (Dataset::load), and not as an epoch of training varies
  /// them (Dataset::load_varied).
  [[nodiscard]] virtual bool evaluates() const noexcept { return false; }
  /// Must allocate nothing.
  virtual void start_epoch(std::int64_t epoch) = 0;
  /// Sample numbers of `step` in [0, steps()) of the epoch; valid until the next call of either.
  [[nodiscard]] virtual std::span<const std::int64_t> indices(std::int64_t step) = 0;
};

/// One rank's shares of the Trainer's global batches, in the epoch's order.
class TrainBatches final : public BatchSource {
 public:
  TrainBatches(const BatchPlan& plan, int rank, std::unique_ptr<EpochOrder> order)
      : plan_(plan),
        rank_(rank),
        order_(expect_given("TrainBatches", "the epoch's order", std::move(order))) {}
  TrainBatches(const BatchPlan& plan, int rank, std::uint64_t seed, const Shuffle& shuffle = {})
      : TrainBatches(plan, rank, std::make_unique<Permutation>(plan.samples(), seed, shuffle)) {}

  [[nodiscard]] std::int64_t steps() const override { return plan_.steps(); }
  [[nodiscard]] std::int64_t largest_batch() const override { return plan_.largest_share(rank_); }
  void start_epoch(std::int64_t epoch) override { order_->set_epoch(epoch); }
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) override;

 private:
  BatchPlan plan_;
  int rank_;
  std::unique_ptr<EpochOrder> order_;
};

/// One rank's evaluation batches, in the data set's own order.
class EvalBatches final : public BatchSource {
 public:
  EvalBatches(const EvalPlan& plan, int rank);

  [[nodiscard]] std::int64_t steps() const override { return plan_.batches_of(rank_); }
  [[nodiscard]] std::int64_t largest_batch() const override;
  [[nodiscard]] bool evaluates() const noexcept override { return true; }
  void start_epoch(std::int64_t) override {}
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) override;

 private:
  EvalPlan plan_;
  int rank_;
  std::vector<std::int64_t> indices_;
};

/// The samples of a DistributedSampler for this rank, in batches: like torch.utils.data.DataLoader
/// with `batch_size`, `sampler` and `drop_last`. A rank's last batch is smaller, or dropped with
/// `drop_last`. Loader::start_epoch sets the sampler's epoch.
///
///   Loader loader(dataset, std::make_unique<SampledBatches>(
///       DistributedSampler(dataset->size(), group->size(), group->rank()), 64));
class SampledBatches final : public BatchSource {
 public:
  /// Throws InputError if batch_size is below 1.
  SampledBatches(DistributedSampler sampler, std::int64_t batch_size, bool drop_last = false);

  [[nodiscard]] std::int64_t steps() const override;
  [[nodiscard]] std::int64_t largest_batch() const override;
  void start_epoch(std::int64_t epoch) override { sampler_.set_epoch(epoch); }
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) override;

 private:
  DistributedSampler sampler_;
  std::int64_t batch_size_;
  bool drop_last_;
};

}  // namespace lockstep
