#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

// Twice: the loss itself, and the operations that it consists of, which also give the target a
// gradient.
void mse_loss_case(Case& c) {
  const bool mean_of = c.text("reduction") == "mean";
  Case of_x = c;
  of_x.expect_output_and_gradients(
      mse_loss(of_x.input("x"), c.tensor("target"), mean_of ? Reduction::mean : Reduction::sum));
  const Variable difference = c.input("x") - c.input("target");
  const Variable square = difference * difference;
  c.expect_output_and_gradients(mean_of ? mean(square) : sum(square));
}

}  // namespace

Checks regression_loss_checks() { return {{"mse_loss", mse_loss_case}}; }

}  // namespace lockstep::test
