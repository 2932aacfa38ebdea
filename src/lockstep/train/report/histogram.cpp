#include <lockstep/train/report/histogram.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <span>

namespace lockstep::train {
namespace {

/// 0, 1e-12, 1.1e-12, ... 1e20, and infinity. A value's magnitude lies between two of them.
class Magnitudes {
 public:
  Magnitudes() {
    edges_.push_back(0);
    for (double edge = 1e-12; edge < 1e20; edge *= 1.1) edges_.push_back(edge);
    edges_.push_back(std::numeric_limits<double>::max());
    for (std::size_t cell = 0; cell < first_.size(); ++cell) {
      const double least = std::bit_cast<float>(static_cast<std::uint32_t>(cell << shift));
      const auto above = std::upper_bound(edges_.begin(), edges_.end() - 1, least);
      first_[cell] = static_cast<std::uint16_t>(above - edges_.begin() - 1);
    }
  }
  [[nodiscard]] std::size_t size() const noexcept { return edges_.size() - 1; }
  [[nodiscard]] double edge(std::size_t i) const noexcept { return edges_[i]; }
  /// The i with edge(i) <= value < edge(i + 1). Numbers with the same sign, exponent and first six
  /// bits of the fraction differ by less than a factor of 1.1, so there is at most one edge
  /// between.
  [[nodiscard]] std::size_t find(float value) const noexcept {
    const std::size_t i = first_[std::bit_cast<std::uint32_t>(value) >> shift];
    return static_cast<double>(value) >= edges_[i + 1] ? i + 1 : i;
  }

 private:
  static constexpr unsigned shift = 17;  // leaves the exponent and six bits
  std::vector<double> edges_;
  std::array<std::uint16_t, std::size_t{1} << 14U> first_{};
};

/// The same buckets on both sides of zero: values of a magnitude below 1e-12 have one a sign.
void fill_buckets(const Magnitudes& magnitudes, std::span<const std::int64_t> below,
                  std::span<const std::int64_t> above, Histogram& found) {
  struct Bucket {
    double limit;
    std::int64_t count;
  };
  std::vector<Bucket> all;
  all.reserve(2 * magnitudes.size() + 1);
  all.push_back({-magnitudes.edge(magnitudes.size()), 0});
  for (std::size_t i = magnitudes.size(); i-- > 0;)
    all.push_back({i == 0 ? 0.0 : -magnitudes.edge(i), below[i]});
  for (std::size_t i = 0; i < magnitudes.size(); ++i)
    all.push_back({magnitudes.edge(i + 1), above[i]});
  const auto counts = [&](std::size_t i) { return i < all.size() && all[i].count > 0; };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!counts(i) && !counts(i + 1) && !(i > 0 && counts(i - 1))) continue;
    found.limits.push_back(all[i].limit);
    found.counts.push_back(static_cast<double>(all[i].count));
  }
}

}  // namespace

Histogram histogram_of(const Tensor& values) {
  static const Magnitudes magnitudes;
  const Tensor here = values.to(Device{}).to(DType::f32);
  std::vector<std::int64_t> below(magnitudes.size()), above(magnitudes.size());
  Histogram found{.min = std::numeric_limits<double>::infinity(),
                  .max = -std::numeric_limits<double>::infinity()};
  const std::span elements(static_cast<const float*>(here.data()),
                           static_cast<std::size_t>(here.numel()));
  for (const float value : elements) {
    if (!std::isfinite(value)) continue;
    ++(value < 0 ? below : above)[magnitudes.find(std::abs(value))];
    const double wide = value;
    found.min = std::min(found.min, wide);
    found.max = std::max(found.max, wide);
    found.sum += wide;
    found.sum_squares += wide * wide;
    ++found.count;
  }
  if (found.count == 0) return {};
  fill_buckets(magnitudes, below, above, found);
  return found;
}

}  // namespace lockstep::train
