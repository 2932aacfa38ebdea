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

/// Sums the gradients of a batch for DistributedDataParallel. A batch has a number of parts, each
/// with a backward pass; every rank has the same number. Here a rank has one part, and the sum is
/// over ranks, bucket by bucket. ShardedGradientSum has several parts per rank: it keeps the
/// gradients of all but the rank's last part, and sums over parts.
class GradientSum {
 public:
  GradientSum(std::shared_ptr<ProcessGroup> group, std::shared_ptr<CommHook> hook)
      : group_(std::move(group)), hook_(std::move(hook)) {}
  virtual ~GradientSum() = default;
  GradientSum(const GradientSum&) = delete;
  GradientSum& operator=(const GradientSum&) = delete;

  /// Called once, before everything else. `observer` is notified of passes that reach the
  /// parameters. Collective.
  virtual void prepare(std::vector<Bucket> buckets, PassObserver* observer) {
    reducer_ = std::make_unique<Reducer>(group_, std::move(buckets), std::move(hook_), observer);
  }
  [[nodiscard]] Reducer& reducer() const noexcept { return *reducer_; }

  /// Number of this rank's parts, numbered over all ranks from its first_part().
  [[nodiscard]] virtual std::int64_t parts() const noexcept { return 1; }
  [[nodiscard]] virtual std::int64_t first_part() const noexcept { return group_->rank(); }
  /// The weight of a part in the sum if all weigh the same.
  [[nodiscard]] virtual double equal_share() const {
    return reducer_->comm_hook().weight_factor() / group_->size();
  }
  /// Whether no part of the step is complete.
  [[nodiscard]] virtual bool at_first_part() const noexcept { return true; }
  /// Whether the gradients of the current part are kept here after its pass, for keep_part().
  /// Otherwise they are the parameters', and finish() sums them.
  [[nodiscard]] virtual bool keeps_part() const noexcept { return false; }
  /// Throws Error if gradients in the context of a dist_autograd cannot be summed.
  virtual void expect_context() const {}

  /// The forward pass of the current part begins, in training.
  virtual void forward_begins() {}
  /// A pass of the current part begins that belongs to the sum. Arguments as in
  /// PassObserver::pass_begins; `weighted` if the seed includes the part's weight. Returns the
  /// object that takes its gradients, or null: the parameters do.
  [[nodiscard]] virtual GradSink* pass_begins(std::span<const Variable> /*roots*/,
                                              std::span<const Tensor> /*gradients*/,
                                              double /*seed*/, bool /*weighted*/) {
    return nullptr;
  }
  /// Multiplies the gradients of the current part.
  virtual void scale_part(double factor) { reducer_->scale_held(factor); }
  /// The current part, for which keeps_part() is true, is complete; its gradients are multiplied by
  /// `factor`.
  virtual void keep_part(double /*factor*/) {}
  /// Its pass has failed.
  virtual void forget_part() noexcept {}
  /// The rank's last part is complete: returns when all sums are there. Collective.
  virtual void finish() { reducer_->finish(); }
  /// The step has failed. Local.
  virtual void give_up() { reducer_->give_up(); }
  /// Another failure between two parts. True if the step ends with it. Local.
  [[nodiscard]] virtual bool give_up_parts() { return false; }
  virtual void zero_grad() { reducer_->zero_grad(); }
  [[nodiscard]] virtual GradientSumStats stats() const noexcept { return reducer_->stats(); }

 protected:
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }

 private:
  std::shared_ptr<ProcessGroup> group_;
  std::shared_ptr<CommHook> hook_;  ///< null until prepare()
  std::unique_ptr<Reducer> reducer_;
};

/// A sum over ranks by `hook`, or by the options' hook if it is null; with DdpOptions::shards a sum
/// over shards. `buffers` are the model's, which is on `device`. Throws InputError for shards with
/// a hook of the caller's, and as ShardTree::of_rank does. Collective.
[[nodiscard]] std::unique_ptr<GradientSum> make_gradient_sum(std::shared_ptr<ProcessGroup> group,
                                                             const DdpOptions& options,
                                                             std::shared_ptr<CommHook> hook,
                                                             std::vector<Tensor> buffers,
                                                             Device device);

}  // namespace lockstep
