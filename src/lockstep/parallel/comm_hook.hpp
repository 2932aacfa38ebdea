#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/bucket.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// A hook's state has names "<parameter>/comm_hook_<what>", as an optimizer's has
/// "<parameter>/<slot>".
inline constexpr std::string_view comm_hook_slot = "/comm_hook_";

/// Rows [first, last) of a tensor [then, ...], which has one of each of `then` ranks: those that
/// `rank` of `now` continues with. Each row belongs to one rank.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> rows_to_take_over(std::int64_t then, int rank,
                                                                      int now);

/// How the gradients of a bucket are summed over the ranks of a group: PyTorch's communication
/// hook. One hook serves one DistributedDataParallel. Bucket::notes are part of the gradients;
/// those that are 0 on all ranks, and no others, must end as 0.
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;

  /// For messages, and compared between ranks: with all numbers that must be equal.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Once, before all other calls. Collective over the group.
  virtual void prepare(ProcessGroup& group, std::span<const Bucket> buckets);
  /// Launches `bucket`, the index-th: this rank's gradients in it are final. Called within
  /// backward, for the same buckets in the same order on every rank; may start collectives, the
  /// same on every rank, but not wait.
  [[nodiscard]] virtual Work start(ProcessGroup& group, const Bucket& bucket,
                                   std::size_t index) = 0;
  /// How many collectives a bucket takes in this step, one after the other, with the one that
  /// start() has begun: the same on every rank.
  [[nodiscard]] virtual int rounds() const { return 1; }
  /// The bucket's Work of the round before is complete: begins `round`, 1 for the first after
  /// start().
  /// Called at the end of backward, for a round's buckets in the same order on every rank; must not
  /// wait.
  [[nodiscard]] virtual Work next_round(ProcessGroup& group, const Bucket& bucket,
                                        std::size_t index, int round);
  /// Bytes that this rank has sent for the bucket in this step, in the arguments of collectives;
  /// called before finish(). By default those of all its gradients.
  [[nodiscard]] virtual std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const;
  /// The last Work is complete: computes what is left, so that the bucket's gradients are the sum.
  virtual void finish(const Bucket& bucket, std::size_t index);

  /// What the weights of the next gradients are multiplied by: of a hook that sums over some of the
  /// ranks only.
  [[nodiscard]] virtual double weight_factor() const { return 1.0; }
  /// Whether the sums of the current step are over all ranks of the group: the same on every rank.
  [[nodiscard]] virtual bool sums_over_all() const { return true; }

  /// Steps so far: of sums that are complete, or what a resumed run has set before its first.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  void set_step(std::int64_t step) noexcept { step_ = step; }
  /// What the next step depends on beside step(); empty: nothing. `trained` are the model's
  /// parameters with a gradient. What a rank has for itself is its row of a tensor [ranks, ...].
  /// The tensors are handles: writing into one writes the hook. Local.
  [[nodiscard]] virtual StateDict state_dict(std::span<const nn::NamedParameter> trained) const;
  /// Takes over such a state after set_step(), saved by any number of ranks; of tensors [ranks,
  /// ...] it has all rows, or those of rows_to_take_over() with their placement. Returns a sentence
  /// about what is not as it was, the same on every rank; empty if the next steps are the same to
  /// the bit. A state that does not fit is left out. Local.
  [[nodiscard]] virtual std::string load_state_dict(std::span<const nn::NamedParameter> trained,
                                                    const StateDict& state) const;

 private:
  std::int64_t step_ = 0;
};

/// The gradients as they are.
class AllReduceHook final : public CommHook {
 public:
  [[nodiscard]] std::string name() const override { return "all_reduce"; }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
};

/// Gradients are sent as f16 or bf16, half of the bytes of f32. Each rank's are rounded, and so is
/// their sum; where ranks share memory the sum is made in f32. Buckets of 16-bit floats are sent as
/// they are.
class CompressHook final : public CommHook {
 public:
  /// Throws InputError unless `wire` is f16 or bf16.
  explicit CompressHook(DType wire);

  [[nodiscard]] std::string name() const override;
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override;
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
  [[nodiscard]] std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const override;
  void finish(const Bucket& bucket, std::size_t index) override;

 private:
  DType wire_;
  std::vector<Tensor> halves_;  // what is sent of each bucket; undefined: the gradients themselves
};

}  // namespace lockstep
