#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

struct Pool2dOptions {
  std::int64_t kernel = 2;
  std::int64_t stride = 2;
  std::int64_t padding = 0;
};

}  // namespace lockstep
