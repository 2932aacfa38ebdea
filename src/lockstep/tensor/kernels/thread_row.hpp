#pragma once
#include <cstdint>
#include <vector>

namespace lockstep::detail {

/// Memory for one row of a kernel, of this thread; it stays for the next one.
template <class T>
T* thread_row(std::int64_t width) {
  thread_local std::vector<T> row;
  row.resize(static_cast<std::size_t>(width));
  return row.data();
}

}  // namespace lockstep::detail
