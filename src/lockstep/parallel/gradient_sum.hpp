#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/parallel/reducer.hpp>

namespace lockstep {

struct DdpOptions;

/// How DistributedDataParallel sums the gradients of a batch. The batch is a number of parts, each
/// of which has a backward pass; every rank has as many. Here a rank has one part, and the sum is
/// over ranks, bucket by bucket. ShardedGradientSum has several parts a rank: it keeps the
/// gradients of all but the rank's last, and sums over parts.
class GradientSum {
 public:
  GradientSum(std::shared_ptr<ProcessGroup> group, std::shared_ptr<CommHook> hook)
      : group_(std::move(group)), hook_(std::move(hook)) {}
  virtual ~GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// Once, before everything else. `observer` is told of passes that reach the parameters.
  /// Collective.
  virtual void prepare(std::vector<Bucket> buckets, PassObserver* observer) {
    reducer_ = std::make_unique<Reducer>(group_, std::move(buckets), std::move(hook_), observer);
  }
  [[nodiscard]] Reducer& reducer() const noexcept { return *reducer_; }

  /// Parts of this rank; they are numbered over all ranks from its first_part().
  [[nodiscard]] virtual std::int64_t parts() const noexcept { return 1; }
  [[nodiscard]] virtual std::int64_t first_part() const noexcept { return group_->rank(); }
  /// The share of a part in the sum, where all weigh the same.
  [[nodiscard]] virtual double equal_share() const {
    return reducer_->comm_hook().weight_factor() / group_->size();
  }
  /// No part of the step is complete.
  [[nodiscard]] virtual bool at_first_part() const noexcept { return true; }
  /// The gradients of the current part are kept here after its pass, for keep_part(). Else they
  /// are the parameters', and finish() sums.
  [[nodiscard]] virtual bool keeps_part() const noexcept { return false; }
  /// Throws Error where gradients in the context of a dist_autograd cannot be summed.
  virtual void expect_context() const {}

  /// Forward of the current part begins, in training.
  virtual void forward_begins() {}
  /// A pass of the current part begins, which is part of the sum; arguments as in
  /// PassObserver::pass_begins, `weighted` if the seed has the part's share in it. Returns what
  /// takes its gradients, or null: the parameters do.
  [[nodiscard]] virtual GradSink* pass_begins(std::span<const Variable> /*roots*/,
                                              std::span<const Tensor> /*gradients*/,
                                              double /*seed*/, bool /*weighted*/) {
    return nullptr;
  }
  /// Multiplies the gradients of the current part.
  virtual void scale_part(double factor) { reducer_->scale_held(factor); }
  /// The current part, which keeps_part(), is complete; its gradients count `factor` times.
  virtual void keep_part(double /*factor*/) {}
  /// Its pass has failed.
  virtual void forget_part() noexcept {}
  /// The rank's last part is complete: returns when all sums are there. Collective.
  virtual void finish() { reducer_->finish(); }
  /// The step has failed. Local.
  virtual void give_up() { reducer_->give_up(); }
  /// Between two parts something else has failed. True if the step ends with it. Local.
  [[nodiscard]] virtual bool give_up_parts() { return false; }
  virtual void zero_grad() { reducer_->zero_grad(); }
  [[nodiscard]] virtual GradientSumStats stats() const noexcept { return reducer_->stats(); }

 protected:
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::shared_ptr<CommHook> hook_;  ///< until prepare()
  std::unique_ptr<Reducer> reducer_;
};

/// Over ranks, by `hook`, or if it is null by that of the options; with DdpOptions::shards over
/// these. `buffers` are the model's, which lies on `device`. Throws InputError for shards with a
/// hook of the caller's, and where ShardTree::of_rank does. Collective.
[[nodiscard]] std::unique_ptr<GradientSum> make_gradient_sum(std::shared_ptr<ProcessGroup> group,
                                                             const DdpOptions& options,
                                                             std::shared_ptr<CommHook> hook,
                                                             std::vector<Tensor> buffers,
                                                             Device device);

}  // namespace lockstep
