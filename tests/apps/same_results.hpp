#pragma once
#include <gtest/gtest.h>

#include <apps/results.hpp>
#include <cstring>

#include <lockstep/checkpoint/reader.hpp>

namespace lockstep::test {

inline void expect_same_bits(const StateDict& a, const StateDict& b) {
  ASSERT_GT(a.size(), 0U);
  ASSERT_EQ(a.size(), b.size());
  for (const auto& [name, tensor, placement] : a) {
    const Tensor& other = b.at(name);
    ASSERT_EQ(tensor.bytes(), other.bytes()) << name;
    EXPECT_EQ(std::memcmp(tensor.data(), other.data(), tensor.bytes()), 0) << name;
  }
}

/// Of model and optimizer.
inline void expect_same_state(const CheckpointContents& a, const CheckpointContents& b) {
  expect_same_bits(a.model, b.model);
  expect_same_bits(a.optimizer, b.optimizer);
}

}  // namespace lockstep::test
