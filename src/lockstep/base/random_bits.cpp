#include <lockstep/base/random_bits.hpp>

#include <random>

namespace lockstep {

std::uint64_t random_bits() {
  std::random_device random;
  return std::uint64_t{random()} << 32U | random();
}

}  // namespace lockstep
