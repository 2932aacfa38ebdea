#pragma once
#include <cstddef>
#include <type_traits>
#include <vector>

#include <lockstep/comm/mpi/ranks.hpp>

namespace lockstep {

/// What every rank of `ranks` gives, `bytes` each, in rank order. Collective over them; ends at the
/// deadline of `wait`. In ceil(log2 size) rounds (Bruck et al., Efficient algorithms for all-to-all
/// communications, 1997: concatenation).
void gather_from_all(const void* mine, std::size_t bytes, void* all, const MpiRanks& ranks, int tag,
                     const MpiWait& wait);

/// The same of one number or record a rank, for set-up.
template <class T>
[[nodiscard]] std::vector<T> given_by_all(const T& mine, const MpiRanks& ranks,
                                          const MpiWait& wait) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(ranks.size()));
  gather_from_all(&mine, sizeof mine, all.data(), ranks, ranks.tag(MpiRanks::Purpose::set_up),
                  wait);
  return all;
}

}  // namespace lockstep
