#include <gtest/gtest.h>

#include <lockstep/autograd/functional/linear.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void linear_case(Case& c) {
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  ASSERT_EQ(bias.defined(), c.number("has_bias") != 0);
  c.expect_output_and_gradients(linear(x, weight, bias));
}

}  // namespace

Checks linear_checks() { return {{"linear", linear_case}}; }

}  // namespace lockstep::test
