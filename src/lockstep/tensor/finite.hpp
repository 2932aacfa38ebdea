#pragma once
#include <cstdint>

#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// True if none of `count` elements at `data`, on the host, is an infinity or not a number. Always
/// true of a dtype that is not floating.
[[nodiscard]] bool all_finite(const void* data, std::int64_t count, DType dtype) noexcept;

/// The same of a tensor on any device, which looks for them itself: the host waits, and reads one
/// number.
[[nodiscard]] bool all_finite(const Tensor& tensor);

}  // namespace lockstep
