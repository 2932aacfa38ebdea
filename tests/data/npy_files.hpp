#pragma once
#include <cstdint>
#include <numeric>
#include <string>
#include <vector>

namespace lockstep::test {

/// The output of numpy.save for `numbers`.
template <class T>
std::string npy(const std::string& descr, const std::string& shape, const std::vector<T>& numbers,
                const std::string& fortran_order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + fortran_order +
                       ", 'shape': " + shape + ", }";
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string text = "\x93NUMPY\x01";
  text += '\0';
  text += static_cast<char>(header.size() & 0xffU);
  text += static_cast<char>(header.size() >> 8U);
  text += header;
  text.append(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T));
  return text;
}

/// 1, 2, ... n.
inline std::vector<float> counted(std::int64_t n) {
  std::vector<float> numbers(static_cast<std::size_t>(n));
  std::iota(numbers.begin(), numbers.end(), 1.0F);
  return numbers;
}

}  // namespace lockstep::test
