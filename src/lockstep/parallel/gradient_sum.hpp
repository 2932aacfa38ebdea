#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/parallel/reducer.hpp>

namespace lockstep {

/// How DistributedDataParallel sums the gradients of a batch. The batch is a number of parts, each
/// of which has a backward pass; every rank has as many. Here a rank has one part, and the sum is
/// over ranks, bucket by bucket. With several parts a rank (ShardedGradientSum) all but the rank's
/// last are kept here, and the sum is over parts.
class GradientSum {
 public:
  explicit GradientSum(std::shared_ptr<ProcessGroup> group) : group_(std::move(group)) {}
  virtual ~GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// Collective. `observer` is told of passes that come to the parameters.
  void prepare(std::vector<Bucket> buckets, std::shared_ptr<CommHook> hook,
               PassObserver* observer) {
    reducer_ = std::make_unique<Reducer>(group_, std::move(buckets), std::move(hook), observer);
  }
  [[nodiscard]] Reducer& reducer() const noexcept { return *reducer_; }

  /// Of this rank; they are numbered over all ranks from its first_part().
  [[nodiscard]] virtual std::int64_t parts() const noexcept { return 1; }
  [[nodiscard]] virtual std::int64_t first_part() const noexcept { return group_->rank(); }
  /// Of a part in the sum, where all weigh the same.
  [[nodiscard]] virtual double equal_share() const {
    return reducer_->comm_hook().weight_factor() / group_->size();
  }
  /// No part of the step is over.
  [[nodiscard]] virtual bool at_first_part() const noexcept { return true; }
  /// The gradients of the part at hand are kept here when its pass is over; else they are the
  /// parameters', and finish() sums.
  [[nodiscard]] virtual bool keeps_part() const noexcept { return false; }
  /// Throws Error where gradients in the context of a dist_autograd cannot be summed.
  virtual void expect_context() const {}
  /// The last step's sum over all parts of weight x loss; throws Error where none is made.
  [[nodiscard]] virtual double loss() const;

  /// Forward of the part at hand begins, in training.
  virtual void forward_begins() {}
  /// A pass of the part at hand begins, which is part of the sum; arguments as in
  /// PassObserver::pass_begins, `weighted` if the seed has the part's share in it. Returns what
  /// takes its gradients, or null: the parameters do.
  [[nodiscard]] virtual GradSink* pass_begins(std::span<const Variable> /*roots*/,
                                              std::span<const Tensor> /*gradients*/,
                                              double /*seed*/, bool /*weighted*/) {
    return nullptr;
  }
  /// Multiplies the gradients of the part at hand.
  virtual void scale_part(double factor) { reducer_->scale_held(factor); }
  /// The part at hand, which keeps_part(), is over; its gradients count `factor` times.
  virtual void keep_part(double /*factor*/) {}
  /// Its pass has failed.
  virtual void forget_part() noexcept {}
  /// The rank's last part is over: returns when all sums are there. Collective.
  virtual void finish() { reducer_->finish(); }
  /// The step has failed. Local.
  virtual void give_up() { reducer_->give_up(); }
  /// What runs the parts has failed. True if the step ends with it. Local.
  [[nodiscard]] virtual bool give_up_parts() { return false; }
  virtual void zero_grad() { reducer_->zero_grad(); }

  /// Runs body(part) for all of this rank's parts so that they wait for one another in layers that
  /// take statistics of the whole batch; afterwards the last part's gradients are the parameters'.
  /// False, and nothing, where there is no need. `before_turns` is called first.
  [[nodiscard]] virtual bool run_in_turns(const std::function<void(std::int64_t)>& /*body*/,
                                          const std::function<void()>& /*before_turns*/) {
    return false;
  }
  [[nodiscard]] virtual GradientSumStats stats() const noexcept { return reducer_->stats(); }

 protected:
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<Reducer> reducer_;
};

}  // namespace lockstep
