#pragma once
#include <cstdint>

namespace lockstep {

/// 64 bits from the system's generator: for names and tokens that no other process has. Numbers of
/// a computation come from Philox.
[[nodiscard]] std::uint64_t random_bits();

}  // namespace lockstep
