#include "heat_equation.hpp"

#include <cmath>
#include <numbers>

#include <lockstep/base/philox.hpp>

namespace lockstep::heat {

Source random_source(std::uint64_t seed, std::uint32_t stream, std::int64_t sample) {
  const auto number = static_cast<std::uint64_t>(sample);
  const auto words = Philox(seed)(static_cast<std::uint32_t>(number),
                                  static_cast<std::uint32_t>(number >> 32U), stream, 0);
  const auto within = [&](std::size_t word, double low, double high) {
    return low + (high - low) * static_cast<double>(Philox::uniform(words[word]));
  };
  return {within(0, 0.35, 0.65), within(1, 0.35, 0.65), within(2, 0.06, 0.12),
          within(3, 0.02, 0.2)};
}

HeatSolver::HeatSolver(std::int64_t points)
    : n_(points), sines_(static_cast<std::size_t>(points * points)) {
  const double scale = std::sqrt(2.0 / static_cast<double>(n_ + 1));
  for (std::int64_t a = 0; a < n_; ++a) {
    for (std::int64_t i = 0; i < n_; ++i) {
      sines_[static_cast<std::size_t>(a * n_ + i)] =
          scale * std::sin(std::numbers::pi * static_cast<double>(a + 1) * position(i));
    }
  }
}

double HeatSolver::position(std::int64_t i) const {
  return static_cast<double>(i + 1) / static_cast<double>(n_ + 1);
}

std::vector<double> HeatSolver::initial(const Source& source) const {
  const auto bell = [&](double distance) {
    return std::exp(-distance * distance / (2 * source.width * source.width));
  };
  std::vector<double> field;
  field.reserve(sines_.size());
  for (std::int64_t j = 0; j < n_; ++j) {
    for (std::int64_t i = 0; i < n_; ++i)
      field.push_back(bell(position(j) - source.y) * bell(position(i) - source.x));
  }
  return field;
}

void HeatSolver::transform(std::vector<double>& field) const {
  const auto n = static_cast<std::size_t>(n_);
  std::vector<double> half(field.size());
  // half = field S, field = S half; S is its own transpose.
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i)
        half[row * n + i] += field[row * n + k] * sines_[k * n + i];
    }
  }
  std::fill(field.begin(), field.end(), 0.0);
  for (std::size_t row = 0; row < n; ++row) {
    for (std::size_t k = 0; k < n; ++k) {
      for (std::size_t i = 0; i < n; ++i)
        field[row * n + i] += sines_[row * n + k] * half[k * n + i];
    }
  }
}

void HeatSolver::advance(std::vector<double>& field, double k_time) const {
  transform(field);
  for (std::int64_t b = 0; b < n_; ++b) {
    for (std::int64_t a = 0; a < n_; ++a) {
      const auto square = static_cast<double>((a + 1) * (a + 1) + (b + 1) * (b + 1));
      field[static_cast<std::size_t>(b * n_ + a)] *=
          std::exp(-k_time * std::numbers::pi * std::numbers::pi * square);
    }
  }
  transform(field);
}

}  // namespace lockstep::heat
