#pragma once
#include <cstdint>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

/// Keeps the gradients of all leaves that passes reach, and these leaves. One thread at a time.
///
/// Leaves with observers (PassObserver) may be replicas: the ranks' gradients are summed after a
/// pass. For these the store can separate a pass's contribution from earlier ones, and knows
/// whether each is equal on all ranks (a sum) or local to this rank.
class GradStore : public GradSink {
 public:
  [[nodiscard]] GradTarget target(const Variable& leaf) override;

  /// The store's own memory; undefined if no pass has reached the leaf.
  [[nodiscard]] Tensor gradient(const Variable& leaf) const;
  /// All of them, in no order.
  [[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients() const;

  /// Contributions from now on belong to a new pass. With `keeps_apart`, until end_pass(),
  /// gradient() of a leaf with observers is this pass's contribution.
  void begin_pass(bool keeps_apart);
  void end_pass();
  /// Leaves that the current or last pass has reached, in no order.
  [[nodiscard]] std::vector<Variable> leaves_of_pass() const;

  // At the end of a pass with separate gradients:

  /// This rank's part of a sum over ranks: the pass's contribution, plus `factor_before` times the
  /// earlier local gradient. Undefined if there is none.
  [[nodiscard]] Tensor part_of_sum(const Variable& leaf, double factor_before) const;
  /// The sum replaces the ranks' parts.
  void put_sum(const Variable& leaf, const Tensor& sum);
  /// Scales the pass's contribution by `factor` and marks it local to this rank.
  void keep_own(const Variable& leaf, double factor);

 private:
  struct Entry {
    Variable leaf;
    Tensor gradient;         ///< the pass's contribution if `before` is defined; else all
    Tensor before;           ///< the gradient before the pass
    std::uint64_t pass = 0;  ///< the last one that came
    bool is_own = false;     ///< of `before` if defined, else of all
  };
  static void join(Entry& entry);

  std::unordered_map<const void*, Entry> entries_;  ///< by record
  std::uint64_t pass_ = 1;
  bool keeps_apart_ = false;
};

}  // namespace lockstep
