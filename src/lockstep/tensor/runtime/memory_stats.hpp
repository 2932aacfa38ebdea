#pragma once
#include <cstdint>

namespace lockstep {

/// What a caching allocator did so far, in bytes unless named otherwise.
struct MemoryStats {
  std::int64_t in_use = 0;
  std::int64_t peak_in_use = 0;
  std::int64_t cached = 0;              ///< held for reuse
  std::int64_t system_allocations = 0;  ///< calls that reached the system: zero in a steady loop
  // Of a device's only:
  std::int64_t awaiting = 0;  ///< freed, but other streams still use it; not in `cached`
  std::int64_t flushes = 0;   ///< times that all of `cached` was given back to get a block
  std::int64_t limit = 0;     ///< 0: what the device has
};

}  // namespace lockstep
