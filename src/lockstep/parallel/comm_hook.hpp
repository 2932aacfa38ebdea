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

/// A hook's state is named "<parameter>/comm_hook_<what>", as an optimizer's is
/// "<parameter>/<slot>".
inline constexpr std::string_view comm_hook_slot = "/comm_hook_";

/// For a tensor [then, ...] with one row for each of `then` ranks: the rows [first, last) with
/// which `rank` of `now` continues. Each row belongs to one rank.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> rows_to_take_over(std::int64_t then, int rank,
                                                                      int now);

/// Sums the gradients of a bucket over the ranks of a group: PyTorch's communication hook. One hook
/// serves one DistributedDataParallel. Bucket::notes are part of the gradients; exactly those that
/// are 0 on all ranks must end as 0.
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;

  /// For messages, and for comparison between ranks: includes all numbers that must be equal.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Called once, before all other calls. Collective over the group.
  virtual void prepare(ProcessGroup& group, std::span<const Bucket> buckets);
  /// Launches bucket number `index`: this rank's gradients in it are final. Called within backward,
  /// for the same buckets in the same order on every rank. May start collectives, the same on every
  /// rank, but must not wait.
  [[nodiscard]] virtual Work start(ProcessGroup& group, const Bucket& bucket,
                                   std::size_t index) = 0;
  /// Number of collectives that a bucket takes in this step, one after the other, including the one
  /// begun by start(). The same on every rank.
  [[nodiscard]] virtual int rounds() const { return 1; }
  /// Begins `round` (1 for the first after start()): the bucket's Work of the round before is
  /// complete. Called at the end of backward, for a round's buckets in the same order on every
  /// rank. Must not wait.
  [[nodiscard]] virtual Work next_round(ProcessGroup& group, const Bucket& bucket,
                                        std::size_t index, int round);
  /// Bytes that this rank has sent for the bucket in this step, counted as arguments of
  /// collectives; called before finish(). By default the bytes of all its gradients.
  [[nodiscard]] virtual std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const;
  /// The last Work is complete: finishes the bucket, so that its gradients are the sum.
  virtual void finish(const Bucket& bucket, std::size_t index);

  /// Factor on the weights of the next gradients, for a hook that sums over some of the ranks only.
  [[nodiscard]] virtual double weight_factor() const { return 1.0; }
  /// Whether the sums of the current step are over all ranks of the group. The same on every rank.
  [[nodiscard]] virtual bool sums_over_all() const { return true; }

  /// Number of completed sums; a resumed run sets it before its first.
  [[nodiscard]] std::int64_t step() const noexcept { return step_; }
  void set_step(std::int64_t step) noexcept { step_ = step; }
  /// State other than step() on which the next step depends; empty: none. `trained` are the model's
  /// parameters with a gradient. A rank's own state is its row of a tensor [ranks, ...]. The
  /// tensors are handles: writing to one writes the hook's state. Local.
  [[nodiscard]] virtual StateDict state_dict(std::span<const nn::NamedParameter> trained) const;
  /// Restores such a state, saved by any number of ranks, after set_step(). Tensors [ranks, ...]
  /// have all rows, or those of rows_to_take_over() with their placement. Returns a sentence on
  /// what changed, the same on every rank; empty if the next steps have the same bits. State that
  /// does not fit is dropped. Local.
  [[nodiscard]] virtual std::string load_state_dict(std::span<const nn::NamedParameter> trained,
                                                    const StateDict& state) const;

 private:
  std::int64_t step_ = 0;
};

/// Sends the gradients unchanged.
class AllReduceHook final : public CommHook {
 public:
  [[nodiscard]] std::string name() const override { return "all_reduce"; }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
};

/// Sends gradients as f16 or bf16, half of the bytes of f32. Each rank's gradients are rounded, and
/// so is their sum; within shared memory the sum is made in f32. Buckets of 16-bit floats are sent
/// unchanged.
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
  std::vector<Tensor> halves_;  // data sent for each bucket; undefined: the gradients themselves
};

}  // namespace lockstep
