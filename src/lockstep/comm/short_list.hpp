#pragma once
#include <array>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep {

/// A list whose first `few` elements need no allocation.
template <class T, std::size_t few>
class ShortList {
 public:
  [[nodiscard]] T& add() {
    if (count_ < few) return few_[count_++];
    if (many_.empty()) {
      for (T& element : few_) many_.push_back(std::move(element));
    }
    ++count_;
    return many_.emplace_back();
  }
  [[nodiscard]] T* begin() noexcept { return many_.empty() ? few_.data() : many_.data(); }
  [[nodiscard]] T* end() noexcept { return begin() + count_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }

 private:
  std::array<T, few> few_{};
  std::vector<T> many_;  // all elements, once there are more than `few`
  std::size_t count_ = 0;
};

}  // namespace lockstep
