#pragma once
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

/// Keeps the gradients of all leaves that passes come to, and these leaves. One thread at a time.
class GradStore : public GradSink {
 public:
  [[nodiscard]] GradTarget target(const Variable& leaf) override;

  /// The store's own memory; undefined if no pass has come to the leaf.
  [[nodiscard]] Tensor gradient(const Variable& leaf) const;
  /// All of them, in no order.
  [[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients() const;

 private:
  std::unordered_map<const void*, std::pair<Variable, Tensor>> gradients_;  ///< by record
};

}  // namespace lockstep
