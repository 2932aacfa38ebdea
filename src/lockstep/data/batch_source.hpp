#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/data/batch_plan.hpp>
#include <lockstep/data/permutation.hpp>

namespace lockstep {

/// Tells a Loader which samples this rank needs, step by step. One thread at a time.
class BatchSource {
 public:
  virtual ~BatchSource() = default;
  /// Steps of an epoch on this rank; the same in every epoch.
  [[nodiscard]] virtual std::int64_t steps() const = 0;
  /// The most samples that a step has.
  [[nodiscard]] virtual std::int64_t largest_batch() const = 0;
  /// Must allocate nothing.
  virtual void start_epoch(std::int64_t epoch) = 0;
  /// Sample numbers of `step` in [0, steps()) of the epoch; valid until the next call of either.
  [[nodiscard]] virtual std::span<const std::int64_t> indices(std::int64_t step) = 0;
};

/// One rank's shares of the Trainer's global batches, in the epoch's order.
class TrainBatches final : public BatchSource {
 public:
  TrainBatches(const BatchPlan& plan, int rank, std::unique_ptr<EpochOrder> order)
      : plan_(plan), rank_(rank), order_(std::move(order)) {}
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
  void start_epoch(std::int64_t) override {}
  [[nodiscard]] std::span<const std::int64_t> indices(std::int64_t step) override;

 private:
  EvalPlan plan_;
  int rank_;
  std::vector<std::int64_t> indices_;
};

}  // namespace lockstep
