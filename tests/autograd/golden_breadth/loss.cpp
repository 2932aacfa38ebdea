#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/ctc_loss.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>

#include "checks.hpp"

namespace lockstep::test {
namespace {

Reduction reduction_of(const Case& c) {
  const std::string name = c.text("reduction");
  return name == "mean" ? Reduction::mean : (name == "sum" ? Reduction::sum : Reduction::none);
}

void l1_case(Case& c) {
  c.expect_output_and_gradients(l1_loss(c.input("x"), c.tensor("target"), reduction_of(c)));
}

void smooth_l1_case(Case& c) {
  c.expect_output_and_gradients(
      smooth_l1_loss(c.input("x"), c.tensor("target"), reduction_of(c), c.number("beta")));
}

void huber_case(Case& c) {
  c.expect_output_and_gradients(
      huber_loss(c.input("x"), c.tensor("target"), reduction_of(c), c.number("delta")));
}

void kl_div_case(Case& c) {
  c.expect_output_and_gradients(
      kl_div(log_softmax(c.input("x"), 1), c.tensor("target"), KlDivReduction::batchmean));
}

void gaussian_nll_case(Case& c) {
  const Variable x = c.input("x"), var = c.input("var");
  c.expect_output_and_gradients(gaussian_nll_loss(x, c.tensor("target"), var));
}

void poisson_nll_case(Case& c) {
  c.expect_output_and_gradients(poisson_nll_loss(c.input("x"), c.tensor("target")));
}

void triplet_margin_case(Case& c) {
  const Variable anchor = c.input("anchor"), positive = c.input("positive"),
                 negative = c.input("negative");
  c.expect_output_and_gradients(triplet_margin_loss(
      anchor, positive, negative,
      {.margin = c.number("margin"), .p = c.number("p"), .eps = c.number("eps")}));
}

void cosine_embedding_case(Case& c) {
  const Variable x1 = c.input("x1"), x2 = c.input("x2");
  c.expect_output_and_gradients(
      cosine_embedding_loss(x1, x2, c.tensor("target"), c.number("margin")));
}

void ctc_case(Case& c) {
  c.expect_output_and_gradients(ctc_loss(log_softmax(c.input("x"), 2), c.tensor("targets"),
                                         c.tensor("input_lengths"), c.tensor("target_lengths"),
                                         c.integer("blank"), reduction_of(c)));
}

}  // namespace

Checks breadth_loss_checks() {
  return {{"l1_loss", l1_case},
          {"smooth_l1_loss", smooth_l1_case},
          {"huber_loss", huber_case},
          {"kl_div", kl_div_case},
          {"gaussian_nll_loss", gaussian_nll_case},
          {"poisson_nll_loss", poisson_nll_case},
          {"triplet_margin_loss", triplet_margin_case},
          {"cosine_embedding_loss", cosine_embedding_case},
          {"ctc_loss", ctc_case}};
}

}  // namespace lockstep::test
