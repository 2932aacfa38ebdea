#pragma once
#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "small_models.hpp"

// Gradients as plain numbers: the expected result of a sum over ranks, written without one.

namespace lockstep::test {

/// Of each parameter; of one without a gradient there are none.
using Numbers = std::vector<std::vector<double>>;

inline Numbers gradients_in(const nn::Module& module) {
  Numbers numbers;
  for (const Variable& parameter : module.parameters()) {
    numbers.push_back(parameter.grad().defined()
                          ? parameter.grad().to(DType::f64).to_vector<double>()
                          : std::vector<double>());
  }
  return numbers;
}

/// The gradients of a pass over this batch on one rank alone, of Mlp(seed).
inline Numbers alone(const Batch& batch, double seed = 1.0) {
  Mlp model(seed);
  mean_loss(model, batch).backward();
  return gradients_in(model);
}

inline void add(Numbers& to, const Numbers& numbers, double factor) {
  to.resize(numbers.size());
  for (std::size_t p = 0; p < numbers.size(); ++p) {
    to[p].resize(std::max(to[p].size(), numbers[p].size()));
    for (std::size_t i = 0; i < numbers[p].size(); ++i) to[p][i] += factor * numbers[p][i];
  }
}

inline void expect_near(const Numbers& actual, const Numbers& expected, const std::string& what) {
  ASSERT_EQ(actual.size(), expected.size()) << what;
  for (std::size_t p = 0; p < expected.size(); ++p) {
    ASSERT_EQ(actual[p].size(), expected[p].size()) << "parameter " << p << " " << what;
    for (std::size_t i = 0; i < expected[p].size(); ++i) {
      ASSERT_NEAR(actual[p][i], expected[p][i], 1e-13) << "parameter " << p << " " << what;
    }
  }
}

}  // namespace lockstep::test
