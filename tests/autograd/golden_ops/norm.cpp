#include <gtest/gtest.h>

#include <lockstep/autograd/functional/norm.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void layer_norm_case(Case& c) {
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  const auto normalized = c.integers("normalized_shape");
  ASSERT_EQ(weight.shape(), Shape(std::span<const std::int64_t>(normalized)));
  c.expect_output_and_gradients(layer_norm(x, weight, bias, c.number("eps")));
}

}  // namespace

Checks norm_checks() { return {{"layer_norm", layer_norm_case}}; }

}  // namespace lockstep::test
