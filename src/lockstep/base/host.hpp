#pragma once
#include <string>

namespace lockstep {

/// This machine's name, for messages; "unknown host" if it has none.
[[nodiscard]] std::string host_name();

/// An environment variable; empty where it is not set.
[[nodiscard]] std::string environment(const char* name);

}  // namespace lockstep
