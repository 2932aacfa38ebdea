#include <lockstep/data/batches/permutation.hpp>

#include <algorithm>
#include <limits>
#include <numeric>
#include <string>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/base/philox.hpp>

namespace lockstep {
namespace {

// Separates shuffles from other uses of the same seed: "SHUF" in the stream's upper half.
constexpr std::uint64_t shuffle_stream = std::uint64_t{0x53485546} << 32U;

std::size_t checked(std::int64_t n) {
  if (n < 0 || n > std::numeric_limits<std::uint32_t>::max()) {
    throw InputError("a data set of " + std::to_string(n) +
                     " samples cannot be shuffled: the number must be from 0 to 4294967295");
  }
  return static_cast<std::size_t>(n);
}

constexpr std::int64_t pieces_a_window = 8;

void shuffle_all(std::span<std::int64_t> values, PhiloxSequence& random) {
  for (auto i = static_cast<std::uint32_t>(values.size()); i > 1; --i)
    std::swap(values[i - 1], values[random.below(i)]);
}

}  // namespace

Permutation::Permutation(std::int64_t n, std::uint64_t seed, const Shuffle& shuffle)
    : indices_(checked(n)), seed_(seed), shuffle_(shuffle) {
  if (shuffle.window < 0) {
    throw InputError("data.shuffle_window is " + std::to_string(shuffle.window) +
                     "; it counts samples, and 0 shuffles everything");
  }
  if (shuffle.on && shuffle.window > 0)
    pieces_.resize(static_cast<std::size_t>((n + piece_size() - 1) / piece_size()));
  set_epoch(0);
}

std::int64_t Permutation::piece_size() const noexcept {
  return std::max<std::int64_t>(1, shuffle_.window / pieces_a_window);
}

void Permutation::set_epoch(std::int64_t epoch) {
  std::iota(indices_.begin(), indices_.end(), std::int64_t{0});
  if (!shuffle_.on) return;
  PhiloxSequence random(seed_, shuffle_stream ^ static_cast<std::uint64_t>(epoch));
  if (shuffle_.window == 0) return shuffle_all(indices_, random);
  lay_out_pieces(random);
  const auto window = static_cast<std::size_t>(shuffle_.window);
  for (std::size_t at = 0; at < indices_.size(); at += window)
    shuffle_all(std::span(indices_).subspan(at, std::min(window, indices_.size() - at)), random);
}

void Permutation::lay_out_pieces(PhiloxSequence& random) {
  std::iota(pieces_.begin(), pieces_.end(), std::int64_t{0});
  shuffle_all(pieces_, random);
  auto out = indices_.begin();
  for (const std::int64_t piece : pieces_) {
    const std::int64_t begin = piece * piece_size();
    const std::int64_t end = std::min(begin + piece_size(), std::ssize(indices_));
    for (std::int64_t i = begin; i < end; ++i) *out++ = i;
  }
}

}  // namespace lockstep
