#pragma once
#include <string>

namespace lockstep {

/// This machine's name, for messages; "unknown host" if it has none.
[[nodiscard]] std::string host_name();

}  // namespace lockstep
