#pragma once
#include <cstddef>
#include <functional>

namespace lockstep::detail {

/// Calls work(0) to work(count - 1) in up to `threads` threads, this one among them, and throws
/// what the least of them throws.
void in_threads(std::size_t count, std::size_t threads,
                const std::function<void(std::size_t)>& work);

}  // namespace lockstep::detail
