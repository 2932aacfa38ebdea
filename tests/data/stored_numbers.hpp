#pragma once
#include <cstddef>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/data/data_options.hpp>
#include <lockstep/data/files/stored_array.hpp>

namespace lockstep {

inline void expect_says(const std::string& message, const std::string& part) {
  EXPECT_NE(message.find(part), std::string::npos) << message;
}

template <class T>
std::vector<T> all_of(const StoredArray& array) {
  std::vector<T> numbers(static_cast<std::size_t>(array.shape().numel()));
  array.read(0, array.rows(), std::span(numbers));
  return numbers;
}

inline DataOptions options_of(DataKind kind, std::vector<std::string> path) {
  DataOptions options;
  options.kind = kind;
  options.path = std::move(path);
  return options;
}

}  // namespace lockstep
