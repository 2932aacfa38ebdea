#pragma once
#include <cstdint>

namespace lockstep::math {

/// c[n] = b[n,k] x[k] + beta c, rows of b at a stride, on the host by one thread. Reads b once, at
/// the speed of memory.
void gemv(std::int64_t n, std::int64_t k, const float* b, std::int64_t b_stride, const float* x,
          float beta, float* c);

}  // namespace lockstep::math
