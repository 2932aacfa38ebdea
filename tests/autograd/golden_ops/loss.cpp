#include <lockstep/autograd/functional/loss.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

LossOptions loss_options(const Case& c) {
  LossOptions options;
  const std::string reduction = c.text("reduction");
  options.reduction = reduction == "none"  ? Reduction::none
                      : reduction == "sum" ? Reduction::sum
                                           : Reduction::mean;
  options.ignore_index = c.integer("ignore_index");
  if (c.number("has_weight") != 0) options.class_weight = c.tensor("class_weight");
  return options;
}

void nll_loss_case(Case& c) {
  c.expect_output_and_gradients(nll_loss(c.input("x"), c.tensor("target"), loss_options(c)));
}

void cross_entropy_case(Case& c) {
  LossOptions options = loss_options(c);
  options.label_smoothing = c.number("label_smoothing");
  c.expect_output_and_gradients(cross_entropy(c.input("x"), c.tensor("target"), options));
}

}  // namespace

Checks loss_checks() {
  return {{"nll_loss", nll_loss_case}, {"cross_entropy", cross_entropy_case}};
}

}  // namespace lockstep::test
