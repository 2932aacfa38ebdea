#include <lockstep/data/batches/mt19937.hpp>

#include <algorithm>
#include <bit>
#include <limits>
#include <span>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

constexpr std::size_t middle = 397;

std::uint32_t scrambled(std::uint32_t before) { return before ^ (before >> 30U); }

}  // namespace

PythonRandom::PythonRandom(std::uint64_t seed) {
  // Python splits the seed into 32-bit words, least significant first.
  const std::array<std::uint32_t, 2> all{static_cast<std::uint32_t>(seed),
                                         static_cast<std::uint32_t>(seed >> 32U)};
  const auto key = std::span(all).first(all[1] == 0 ? 1 : 2);

  state_[0] = 19650218U;
  for (std::uint32_t i = 1; i < words; ++i) state_[i] = 1812433253U * scrambled(state_[i - 1]) + i;

  std::size_t i = 1;
  const auto step = [&] {
    if (++i == words) {
      state_[0] = state_[words - 1];
      i = 1;
    }
  };
  std::uint32_t j = 0;
  for (std::size_t k = 0; k < words; ++k) {
    state_[i] = (state_[i] ^ (scrambled(state_[i - 1]) * 1664525U)) + key[j] + j;
    j = (j + 1) % static_cast<std::uint32_t>(key.size());
    step();
  }
  for (std::size_t k = 0; k + 1 < words; ++k) {
    state_[i] =
        (state_[i] ^ (scrambled(state_[i - 1]) * 1566083941U)) - static_cast<std::uint32_t>(i);
    step();
  }
  state_[0] = 0x80000000U;
}

void PythonRandom::refill() {
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % words] & 0x7fffffffU);
    state_[i] = state_[(i + middle) % words] ^ (y >> 1U) ^ ((y & 1U) != 0 ? 0x9908b0dfU : 0U);
  }
  used_ = 0;
}

std::uint32_t PythonRandom::next_u32() {
  if (used_ == words) refill();
  std::uint32_t y = state_[used_++];
  y ^= y >> 11U;
  y ^= (y << 7U) & 0x9d2c5680U;
  y ^= (y << 15U) & 0xefc60000U;
  return y ^ (y >> 18U);
}

std::uint32_t PythonRandom::below(std::uint32_t n) {
  const int bits = std::bit_width(n);
  std::uint32_t r = next_u32() >> (32 - bits);
  while (r >= n) r = next_u32() >> (32 - bits);
  return r;
}

void PythonRandom::shuffle(std::vector<std::int64_t>& values) {
  if (values.size() > std::numeric_limits<std::uint32_t>::max()) {
    throw Error("PythonRandom::shuffle takes fewer than 2^32 values, not " +
                std::to_string(values.size()));
  }
  for (auto i = static_cast<std::uint32_t>(values.size()); i > 1; --i) {
    std::swap(values[i - 1], values[below(i)]);
  }
}

}  // namespace lockstep
