#pragma once
// The numbers of ranks, as threads, on which a claim is tested.
#include <algorithm>
#include <vector>

namespace lockstep::test {

/// 1 to `most`. A sanitizer checks each line of code, not each size: at most 3 under
/// AddressSanitizer, 2 and 4 under ThreadSanitizer (cmake/LockstepTest.cmake does the same for
/// MPI's).
inline std::vector<int> counts_of_threads(int most) {
#ifdef __SANITIZE_THREAD__
  return {2, std::min(most, 4)};
#else
#ifdef __SANITIZE_ADDRESS__
  most = 3;
#endif
  std::vector<int> counts;
  for (int ranks = 1; ranks <= most; ++ranks) counts.push_back(ranks);
  return counts;
#endif
}

}  // namespace lockstep::test
