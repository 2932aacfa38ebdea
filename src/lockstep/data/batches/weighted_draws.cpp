#include <lockstep/data/batches/weighted_draws.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

// Separates draws from other uses of the same seed: "DRAW" in the stream's upper half.
constexpr std::uint64_t draw_stream = std::uint64_t{0x44524157} << 32U;

/// In [0, 1).
double uniform(PhiloxSequence& random) {
  const std::uint64_t high = random.next_u32();
  return static_cast<double>((high << 32U | random.next_u32()) >> 11U) * 0x1.0p-53;
}

}  // namespace

WeightedDraws::WeightedDraws(std::span<const double> weights, std::int64_t draws,
                             std::uint64_t seed)
    : indices_(static_cast<std::size_t>(draws)), seed_(seed) {
  double sum = 0;
  cumulative_.reserve(weights.size());
  for (const double weight : weights) {
    if (!std::isfinite(weight) || weight < 0) {
      throw InputError(fmt::format("the weight of sample {} is {}: a weight must be 0 or positive.",
                                   cumulative_.size(), weight));
    }
    cumulative_.push_back(sum += weight);
  }
  if (!(sum > 0) || !std::isfinite(sum))
    throw InputError("the weights of the samples are all 0, so none can be drawn.");
  set_epoch(0);
}

void WeightedDraws::set_epoch(std::int64_t epoch) {
  PhiloxSequence random(seed_, draw_stream ^ static_cast<std::uint64_t>(epoch));
  const double sum = cumulative_.back();
  for (std::int64_t& index : indices_) {
    // Rounding may reach the sum itself; then the last sample with a weight is drawn.
    const double at = std::min(uniform(random) * sum, std::nextafter(sum, 0.0));
    index = std::ranges::upper_bound(cumulative_, at) - cumulative_.begin();
  }
}

std::vector<std::int64_t> count_labels(std::span<const std::int64_t> labels, std::int64_t classes) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(classes));
  for (const std::int64_t label : labels) ++counts.at(static_cast<std::size_t>(label));
  return counts;
}

std::vector<double> weights_that_balance(std::span<const std::int64_t> labels,
                                         std::int64_t classes) {
  const auto counts = count_labels(labels, classes);
  std::vector<double> weights;
  weights.reserve(labels.size());
  for (const std::int64_t label : labels)
    weights.push_back(1.0 / static_cast<double>(counts[static_cast<std::size_t>(label)]));
  return weights;
}

}  // namespace lockstep
