#include <lockstep/autograd/functional/activation.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void relu_case(Case& c) { c.expect_output_and_gradients(relu(c.input("x"))); }

void gelu_case(Case& c) {
  const Gelu approximation = c.name() == "gelu.tanh" ? Gelu::tanh : Gelu::exact;
  c.expect_output_and_gradients(gelu(c.input("x"), approximation));
}

void silu_case(Case& c) { c.expect_output_and_gradients(silu(c.input("x"))); }

void sigmoid_case(Case& c) { c.expect_output_and_gradients(sigmoid(c.input("x"))); }

void tanh_case(Case& c) { c.expect_output_and_gradients(tanh(c.input("x"))); }

void softmax_case(Case& c) {
  c.expect_output_and_gradients(softmax(c.input("x"), static_cast<int>(c.integer("dim"))));
}

void log_softmax_case(Case& c) {
  const int dim = static_cast<int>(c.integer("dim"));
  c.expect_output_and_gradients(log_softmax(c.input("x"), dim));
}

// The mask comes from the file: the test covers only the multiplication of dropout.
void dropout_case(Case& c) {
  const Tensor scale = c.tensor("mask").clone();
  const double p = c.number("p");
  std::vector<double> values = scale.to(DType::f64).to_vector<double>();
  for (double& value : values) value /= 1 - p;
  const Tensor x = c.tensor("x");
  const Tensor factor = Tensor::from(values, x.shape()).to(c.dtype()).to(c.device());
  const Tensor y = Tensor::empty(x.shape(), c.dtype(), c.device()),
               grad_x = Tensor::zeros(x.shape(), c.dtype(), c.device());
  apply_scale(x, factor, false, y);
  c.expect(y, "out_f64");
  apply_scale(c.tensor("grad_out"), factor, true, grad_x);
  c.expect(grad_x, "grad_x_f64");
}

}  // namespace

Checks activation_checks() {
  return {{"relu", relu_case},
          {"gelu", gelu_case},
          {"silu", silu_case},
          {"sigmoid", sigmoid_case},
          {"tanh", tanh_case},
          {"softmax", softmax_case},
          {"log_softmax", log_softmax_case},
          {"dropout", dropout_case}};
}

}  // namespace lockstep::test
