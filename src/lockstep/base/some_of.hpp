#pragma once
#include <span>
#include <string>

namespace lockstep {

/// "a, b, c": at most 8 names, for messages; of longer lists "a, ..., h and 92 more".
[[nodiscard]] std::string some_of(std::span<const std::string> names);

}  // namespace lockstep
