#pragma once
#include <vector>

namespace lockstep {

/// The cores that the calling thread may run on (its affinity mask), ascending.
[[nodiscard]] std::vector<int> allowed_cores();

}  // namespace lockstep
