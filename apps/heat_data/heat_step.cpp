#include "heat_step.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

#include <lockstep/base/philox.hpp>

namespace lockstep::heat {

StepSolver::StepSolver(std::int64_t points, int dims) : points_(points) {
  for (int d = 0; d < dims; ++d) {
    strides_.push_back(size_);
    size_ *= points_;
  }
}

State StepSolver::random_state(std::uint64_t seed, std::uint32_t stream,
                               std::int64_t sample) const {
  PhiloxSequence random(
      seed, (static_cast<std::uint64_t>(stream) << 40U) + static_cast<std::uint64_t>(sample));
  const auto within = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(Philox::uniform(random.next_u32()));
  };
  struct Bell {
    double height, width;
    std::array<double, 3> centre;
  };
  struct Wave {
    double phase;
    std::array<double, 3> number;
  };
  std::array<Bell, 3> bells{};
  for (Bell& bell : bells) {
    bell = {within(-1, 1), within(0.08, 0.2), {}};
    for (double& c : bell.centre) c = within(0.2, 0.8);
  }
  std::array<Wave, 2> waves{};
  for (Wave& wave : waves) {
    wave.phase = within(0, 2 * std::numbers::pi);
    for (double& k : wave.number) k = within(-1.5, 1.5);
  }
  State state;
  for (std::int64_t at = 0; at < size_; ++at) {
    std::array<double, 3> x{};
    for (std::size_t d = 0; d < strides_.size(); ++d)
      x[d] =
          static_cast<double>(coordinate(at, strides_[d]) + 1) / static_cast<double>(points_ + 1);
    double field = 0, s = 0.5;
    for (const Bell& bell : bells) {
      double square = 0;
      for (std::size_t d = 0; d < strides_.size(); ++d)
        square += (x[d] - bell.centre[d]) * (x[d] - bell.centre[d]);
      field += bell.height * std::exp(-square / (2 * bell.width * bell.width));
    }
    for (const Wave& wave : waves) {
      double angle = wave.phase;
      for (std::size_t d = 0; d < strides_.size(); ++d)
        angle += 2 * std::numbers::pi * wave.number[d] * x[d];
      s += 0.25 * std::sin(angle);
    }
    state.field.push_back(field);
    state.conductivity.push_back(0.02 * std::pow(10.0, s));
  }
  return state;
}

std::vector<double> StepSolver::advance(const State& state, double time) const {
  const double h = 1.0 / static_cast<double>(points_ + 1),
               most = *std::ranges::max_element(state.conductivity),
               limit = h * h / (2 * static_cast<double>(strides_.size()) * most);
  const double steps = std::max(1.0, std::ceil(2 * time / limit)), dt = time / steps;
  std::vector<double> now = state.field, next(now.size());
  const auto& k = state.conductivity;
  for (double step = 0; step < steps; ++step) {
    for (std::int64_t at = 0; at < size_; ++at) {
      const auto i = static_cast<std::size_t>(at);
      double flow = 0;
      for (const std::int64_t stride : strides_) {
        for (const std::int64_t side : {-1, 1}) {
          const std::int64_t c = coordinate(at, stride) + side;
          const bool inside = c >= 0 && c < points_;
          const auto other = inside ? static_cast<std::size_t>(at + side * stride) : i;
          flow += (k[i] + k[other]) / 2 * ((inside ? now[other] : 0.0) - now[i]);
        }
      }
      next[i] = now[i] + dt / (h * h) * flow;
    }
    std::swap(now, next);
  }
  return now;
}

}  // namespace lockstep::heat
