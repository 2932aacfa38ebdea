#pragma once
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <random>

/// Position and velocity of a cart on a track, angle and angular velocity of the pole on it.
using State = std::array<float, 4>;

/// A pole hinged on a cart that is pushed to the left or to the right, 50 times a second: Barto,
/// Sutton and Anderson 1983, with the constants of OpenAI Gym's CartPole-v0. SI units, radians.
class CartPole {
 public:
  static constexpr int longest = 200;  // pushes

  explicit CartPole(std::uint64_t seed) : random_(seed) { reset(); }

  /// Nearly upright, nearly at rest.
  void reset() {
    std::uniform_real_distribution<double> little(-0.05, 0.05);
    for (double* value : {&x_, &x_dot_, &theta_, &theta_dot_}) *value = little(random_);
    pushes_ = 0;
  }

  /// Pushes to the left (0) or to the right (1); returns the reward.
  float push(std::int64_t action) {
    constexpr double gravity = 9.8, cart = 1.0, pole = 0.1, half_length = 0.5, force = 10.0,
                     seconds = 0.02;
    const double sine = std::sin(theta_), cosine = std::cos(theta_);
    const double thrust =
        ((action == 1 ? force : -force) + pole * half_length * theta_dot_ * theta_dot_ * sine) /
        (cart + pole);
    const double theta_acceleration =
        (gravity * sine - cosine * thrust) /
        (half_length * (4.0 / 3.0 - pole * cosine * cosine / (cart + pole)));
    const double x_acceleration =
        thrust - pole * half_length * theta_acceleration * cosine / (cart + pole);
    x_ += seconds * x_dot_;
    x_dot_ += seconds * x_acceleration;
    theta_ += seconds * theta_dot_;
    theta_dot_ += seconds * theta_acceleration;
    ++pushes_;
    return 1.0F;
  }

  [[nodiscard]] bool has_fallen() const {
    return std::abs(x_) > 2.4 || std::abs(theta_) > 12.0 * std::numbers::pi / 180.0;
  }
  [[nodiscard]] bool is_over() const { return has_fallen() || pushes_ == longest; }
  [[nodiscard]] State state() const {
    return {static_cast<float>(x_), static_cast<float>(x_dot_), static_cast<float>(theta_),
            static_cast<float>(theta_dot_)};
  }

 private:
  std::mt19937_64 random_;
  double x_ = 0, x_dot_ = 0, theta_ = 0, theta_dot_ = 0;
  int pushes_ = 0;
};
