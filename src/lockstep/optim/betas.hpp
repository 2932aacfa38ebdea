#pragma once
#include <array>
#include <concepts>
#include <cstddef>

namespace lockstep::optim {

/// Shares that an optimizer's running means keep. All are given, as {0.9, 0.95}: with one number
/// alone the others would be 0, so that does not compile.
template <std::size_t count>
class BetaList {
 public:
  template <std::convertible_to<double>... Numbers>
  requires(sizeof...(Numbers) == count) constexpr BetaList(Numbers... numbers) noexcept
      : numbers_{static_cast<double>(numbers)...} {}

  [[nodiscard]] static constexpr std::size_t size() noexcept { return count; }
  [[nodiscard]] constexpr double operator[](std::size_t i) const noexcept { return numbers_[i]; }
  [[nodiscard]] constexpr double& operator[](std::size_t i) noexcept { return numbers_[i]; }

 private:
  std::array<double, count> numbers_;
};

using Betas = BetaList<2>;

}  // namespace lockstep::optim
