#include <lockstep/data/normalisation.hpp>

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

constexpr float byte_range = 255.0F;

/// Checks for one number per channel.
Tensor per_channel(const std::vector<double>& values, std::size_t channels) {
  std::vector<float> all(values.begin(), values.end());
  all.resize(channels, all.front());
  return Tensor::from(all, {std::ssize(all)});
}

void expect_count(const std::string& key, const std::vector<double>& values, const Shape& sample,
                  const std::string& name) {
  const std::int64_t channels = sample.dims() > 0 ? sample[0] : 1;
  if (std::ssize(values) == 1 || std::ssize(values) == channels) return;
  throw InputError(fmt::format(
      "{}: samples {} have {} channels, but data.{} has {} numbers. Give one, or one per channel.",
      name, to_string(sample), channels, key, values.size()));
}

}  // namespace

ChannelScale channel_scale(const Normalisation& normalisation, const Shape& sample, DType stored,
                           const std::string& name, const std::string& prefix) {
  const auto& [mean, std] = normalisation;
  expect_count(prefix + "mean", mean, sample, name);
  expect_count(prefix + "std", std, sample, name);
  for (const double s : std) {
    if (!(s > 0)) {
      throw InputError(fmt::format(
          "{}: data.{}std holds {}; it is divided by, so it must be above 0.", name, prefix, s));
    }
  }
  const std::size_t channels = std::max(mean.size(), std.size());
  return {.divisor = stored == DType::u8 ? byte_range : 1.0F,
          .mean = per_channel(mean, channels),
          .std = per_channel(std, channels)};
}

}  // namespace lockstep
