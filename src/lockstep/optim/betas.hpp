#pragma once
#include <cstddef>

namespace lockstep::optim {

/// Shares that an optimizer's two running means keep. Both are given, as {0.9, 0.95}: with one
/// number alone the other would be 0, so that does not compile.
struct Betas {
  double first, second;

  constexpr Betas(double of_first, double of_second) noexcept
      : first(of_first), second(of_second) {}
  [[nodiscard]] constexpr double operator[](std::size_t i) const noexcept {
    return i == 0 ? first : second;
  }
  [[nodiscard]] constexpr double& operator[](std::size_t i) noexcept {
    return i == 0 ? first : second;
  }
};

}  // namespace lockstep::optim
