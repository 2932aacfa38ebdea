#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

/// Keeps the gradients of all leaves that passes come to, and these leaves. One thread at a time.
///
/// Leaves that have observers (PassObserver) may be replicas of which the ranks' gradients are
/// summed after a pass. Of these the store can tell what a pass adds from what there was before,
/// and whether that is alike on all ranks, as sums leave it, or this rank's own.
class GradStore : public GradSink {
 public:
  [[nodiscard]] GradTarget target(const Variable& leaf) override;

  /// The store's own memory; undefined if no pass has come to the leaf.
  [[nodiscard]] Tensor gradient(const Variable& leaf) const;
  /// All of them, in no order.
  [[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients() const;

  /// What comes from now on is of another pass than what came before. With `keeps_apart`, until
  /// end_pass(), gradient() of a leaf that has observers is what this pass adds.
  void begin_pass(bool keeps_apart);
  void end_pass();
  /// That the pass, or the last one, has come to, in no order.
  [[nodiscard]] std::vector<Variable> leaves_of_pass() const;

  // In a pass whose gradients are kept apart, at its end:

  /// This rank's part of a sum over ranks: what the pass adds, and `factor_before` x what there was
  /// before and is this rank's own. Undefined if there is none.
  [[nodiscard]] Tensor part_of_sum(const Variable& leaf, double factor_before) const;
  /// The sum takes the place of the ranks' parts.
  void put_sum(const Variable& leaf, const Tensor& sum);
  /// What the pass has added counts `factor` times, and is this rank's own.
  void keep_own(const Variable& leaf, double factor);

 private:
  struct Entry {
    Variable leaf;
    Tensor gradient;         ///< what the pass adds, where `before` is defined; else all
    Tensor before;           ///< what there was when the pass came
    std::uint64_t pass = 0;  ///< the last one that came
    bool is_own = false;     ///< of what `before` has, or else all
  };
  static void join(Entry& entry);

  std::unordered_map<const void*, Entry> entries_;  ///< by record
  std::uint64_t pass_ = 1;
  bool keeps_apart_ = false;
};

}  // namespace lockstep
