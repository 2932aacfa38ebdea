#include <gtest/gtest.h>

#include <lockstep/autograd/functional/batch_norm.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void batch_norm_case(Case& c) {
  const Variable x = c.input("x"), weight = c.input("weight"), bias = c.input("bias");
  const BatchNormStatistics statistics{c.tensor("running_mean").clone(),
                                       c.tensor("running_var").clone()};
  c.expect_output_and_gradients(batch_norm(x, weight, bias, statistics, c.number("training") != 0,
                                           c.number("momentum"), c.number("eps")));
  c.expect(statistics.running_mean, "running_mean_after_f64");
  c.expect(statistics.running_var, "running_var_after_f64");
}

}  // namespace

Checks batch_norm_checks() { return {{"batch_norm", batch_norm_case}}; }

}  // namespace lockstep::test
