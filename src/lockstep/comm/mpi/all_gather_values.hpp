#pragma once
#include <cstddef>
#include <type_traits>
#include <vector>

#include <lockstep/comm/mpi/ranks.hpp>

namespace lockstep {

/// All-gathers `bytes` from every rank of `ranks`, in rank order. Collective over them; ends at the
/// deadline of `wait`. In ceil(log2 size) rounds (Bruck et al., Efficient algorithms for all-to-all
/// communications, 1997: concatenation).
void all_gather_bytes(const void* mine, std::size_t bytes, void* all, const MpiRanks& ranks,
                      int tag, const MpiWait& wait);

/// All-gathers one number or record a rank, for set-up.
template <class T>
[[nodiscard]] std::vector<T> all_gather_values(const T& mine, const MpiRanks& ranks,
                                               const MpiWait& wait) {
  static_assert(std::is_trivially_copyable_v<T>);
  std::vector<T> all(static_cast<std::size_t>(ranks.size()));
  all_gather_bytes(&mine, sizeof mine, all.data(), ranks, ranks.tag(MpiRanks::Purpose::set_up),
                   wait);
  return all;
}

}  // namespace lockstep
