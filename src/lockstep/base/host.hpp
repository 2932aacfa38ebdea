#pragma once
#include <cstdint>
#include <string>

namespace lockstep {

/// This machine's name, for messages; "unknown host" if it has none.
[[nodiscard]] std::string host_name();

/// An id of this boot of this machine, unique among machines and boots; empty if /proc does not
/// have it.
[[nodiscard]] std::string boot_id();

/// An environment variable; empty if it is not set.
[[nodiscard]] std::string environment(const char* name);

/// Peak memory of this process in bytes, including its libraries.
[[nodiscard]] std::int64_t peak_resident_bytes() noexcept;

}  // namespace lockstep
