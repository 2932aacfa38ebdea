#include <lockstep/data/normalisation.hpp>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

constexpr float byte_range = 255.0F;

Tensor per_channel(const char* key, const std::vector<double>& values, const Shape& sample,
                   const std::string& name) {
  const std::int64_t channels = sample[0];
  if (std::ssize(values) != 1 && std::ssize(values) != channels) {
    throw InputError(fmt::format(
        "{}: samples {} have {} channels, but data.{} has {} numbers. Give one, or one a channel.",
        name, to_string(sample), channels, key, values.size()));
  }
  return Tensor::from(std::vector<float>(values.begin(), values.end()), {std::ssize(values)});
}

}  // namespace

ChannelScale channel_scale(const Normalisation& normalisation, const Shape& sample, DType stored,
                           const std::string& name) {
  for (const double std : normalisation.std) {
    if (!(std > 0)) {
      throw InputError(fmt::format(
          "{}: data.std holds {}; inputs are divided by it, so it must be above 0.", name, std));
    }
  }
  return {.divisor = stored == DType::u8 ? byte_range : 1.0F,
          .mean = per_channel("mean", normalisation.mean, sample, name),
          .std = per_channel("std", normalisation.std, sample, name)};
}

}  // namespace lockstep
