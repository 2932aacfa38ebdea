#include <lockstep/data/permutation.hpp>

#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

// Sets shuffles apart from other consumers of the same seed: "SHUF" in the stream's upper half.
constexpr std::uint64_t shuffle_stream = std::uint64_t{0x53485546} << 32U;

std::size_t checked(std::int64_t n) {
  if (n < 0 || n > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("a data set of " + std::to_string(n) +
                     " samples cannot be shuffled: 0 to 4294967295 are possible");
  }
  return static_cast<std::size_t>(n);
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t seed, bool shuffle)
    : indices_(checked(n)), seed_(seed), shuffle_(shuffle) {
  set_epoch(0);
}

void Permutation::set_epoch(std::int64_t epoch) {
  std::iota(indices_.begin(), indices_.end(), std::int64_t{0});
  if (!shuffle_) return;
  PhiloxSequence random(seed_, shuffle_stream ^ static_cast<std::uint64_t>(epoch));
  for (auto i = static_cast<std::uint32_t>(indices_.size()); i > 1; --i) {
    std::swap(indices_[i - 1], indices_[random.below(i)]);
  }
}

}  // namespace lockstep
