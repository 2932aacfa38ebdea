#pragma once
#include <cstdint>
#include <string>

namespace lockstep {

/// This machine's name, for messages; "unknown host" if it has none.
[[nodiscard]] std::string host_name();

/// What tells this start of this machine's system from any other; empty where /proc does not say.
[[nodiscard]] std::string boot_id();

/// An environment variable; empty where it is not set.
[[nodiscard]] std::string environment(const char* name);

/// Most bytes of memory that this process, its libraries included, has held at a time so far.
[[nodiscard]] std::int64_t peak_resident_bytes() noexcept;

}  // namespace lockstep
