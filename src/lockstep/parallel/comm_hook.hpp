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

/// [first, last) of the rows that `then` ranks have left of a tensor [then, ...], one each: those
/// which `rank` of `now` goes on with. Each row goes to one rank.
[[nodiscard]] std::pair<std::int64_t, std::int64_t> rows_to_take_over(std::int64_t then, int rank,
                                                                      int now);

/// How the gradients of a bucket become their sum over the ranks of a group: PyTorch's
/// communication hook. One hook serves one DistributedDataParallel. Bucket::notes are part of the
/// gradients, and what becomes of them must tell which are 0 on all ranks.
class CommHook {
 public:
  CommHook() = default;
  virtual ~CommHook() = default;
  CommHook(const CommHook&) = delete;
  CommHook& operator=(const CommHook&) = delete;

  /// For messages, and compared between ranks: with all numbers that must be equal.
  [[nodiscard]] virtual std::string name() const = 0;
  /// Once, before everything else: these are the buckets. Collective over the group.
  virtual void prepare(ProcessGroup& group, std::span<const Bucket> buckets);
  /// This rank's gradients in `bucket`, the index-th, are final: starts to replace them. Called
  /// within backward, for the same buckets in the same order on every rank; may start collectives,
  /// the same on every rank, but not wait.
  [[nodiscard]] virtual Work start(ProcessGroup& group, const Bucket& bucket,
                                   std::size_t index) = 0;
  /// How many collectives a bucket takes in this step, one after the other, with the one that
  /// start() has begun: the same on every rank.
  [[nodiscard]] virtual int rounds() const { return 1; }
  /// The bucket's Work of the round before is over: begins `round`, 1 for the first after start().
  /// Called at the end of backward, for a round's buckets in the same order on every rank; must not
  /// wait.
  [[nodiscard]] virtual Work next_round(ProcessGroup& group, const Bucket& bucket,
                                        std::size_t index, int round);
  /// Bytes that this rank has given to collectives for the bucket in this step; asked before
  /// finish(). Those of all its gradients, unless a hook says otherwise.
  [[nodiscard]] virtual std::int64_t bytes_sent(const Bucket& bucket, std::size_t index) const;
  /// The last Work is over: what is left to do until the bucket's gradients are the sum.
  virtual void finish(const Bucket& bucket, std::size_t index);

  /// What the weights of the next gradients are multiplied by: of a hook that sums over some of the
  /// ranks only.
  [[nodiscard]] virtual double weight_factor() const { return 1.0; }
  /// Whether the sums of the step at hand are over all ranks of the group: the same on every rank.
  [[nodiscard]] virtual bool sums_over_all() const { return true; }
  /// So many steps are behind the next one: told after each, and where a resumed run goes on.
  virtual void set_step(std::int64_t step);

  /// What the next step goes on from beside its number; empty: nothing. `trained` are the model's
  /// parameters with a gradient. What a rank has for itself is its row of a tensor [ranks, ...].
  /// The tensors are handles: writing into one writes the hook. Local.
  [[nodiscard]] virtual StateDict state_dict(std::span<const nn::NamedParameter> trained) const;
  /// Takes over such a state after set_step(), saved by any number of ranks; of tensors [ranks,
  /// ...] it has all rows, or those of rows_to_take_over() with their placement. Returns a sentence
  /// about what is not as it was, the same on every rank; empty if the next steps are the same to
  /// the bit. A state that does not fit is left out. Local.
  [[nodiscard]] virtual std::string load_state_dict(std::span<const nn::NamedParameter> trained,
                                                    const StateDict& state) const;
};

/// The gradients as they are.
class AllReduceHook final : public CommHook {
 public:
  [[nodiscard]] std::string name() const override { return "all_reduce"; }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override;
};

/// Gradients travel as f16 or bf16, half of the bytes of f32. Each rank's are rounded, and so is
/// their sum; where ranks share memory the sum is made in f32. Buckets of 16-bit floats travel as
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
  std::vector<Tensor> halves_;  // what travels of each bucket; undefined: the gradients themselves
};

}  // namespace lockstep
