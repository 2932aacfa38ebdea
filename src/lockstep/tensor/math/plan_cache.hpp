#pragma once
#include <cstddef>
#include <memory>
#include <vector>

namespace lockstep::detail {

/// Plans of problems, which are dear to make. The oldest of 256 makes way for a new one: a network
/// has some ten shapes, and its last batches in training and evaluation as many more.
template <class Plan>
class PlanCache {
 public:
  /// The plan for which `serves` is true, else the result of `make`.
  template <class Serves, class Make>
  Plan& find_or_make(const Serves& serves, const Make& make) {
    for (const auto& plan : plans_) {
      if (serves(*plan)) return *plan;
    }
    std::unique_ptr<Plan> made = make();
    if (plans_.size() < most) {
      plans_.push_back(std::move(made));
      return *plans_.back();
    }
    auto& slot = plans_[oldest_++ % most];
    slot = std::move(made);
    return *slot;
  }

 private:
  static constexpr std::size_t most = 256;
  std::vector<std::unique_ptr<Plan>> plans_;
  std::size_t oldest_ = 0;
};

}  // namespace lockstep::detail
