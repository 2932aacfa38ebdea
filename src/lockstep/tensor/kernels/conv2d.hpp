#pragma once
#include <array>
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Pairs are (vertical, horizontal).
struct Conv2dOptions {
  std::array<std::int64_t, 2> stride{1, 1};
  std::array<std::int64_t, 2> padding{0, 0};
  std::array<std::int64_t, 2> dilation{1, 1};
  std::int64_t groups = 1;
};

}  // namespace lockstep
