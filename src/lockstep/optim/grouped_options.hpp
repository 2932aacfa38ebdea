#pragma once
#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace lockstep::optim {

/// An optimizer's options for each of its parameter groups and, last, for parameters in no group.
template <class Options>
class GroupedOptions {
 public:
  explicit GroupedOptions(std::vector<Options> all) : all_(std::move(all)) {}

  [[nodiscard]] const Options& operator[](std::size_t group) const { return all_[group]; }
  [[nodiscard]] const Options& usual() const { return all_.back(); }
  [[nodiscard]] bool any(bool (*holds)(const Options&)) const {
    return std::ranges::any_of(all_, holds);
  }
  template <class F>
  void change_all(const F& f) {
    for (Options& options : all_) f(options);
  }

 private:
  std::vector<Options> all_;
};

}  // namespace lockstep::optim
