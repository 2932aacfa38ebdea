#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>

#include <lockstep/autograd/functional/gated.hpp>
#include <lockstep/autograd/functional/order.hpp>
#include <lockstep/autograd/functional/where.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "../weighted_sum.hpp"
#include "checks.hpp"

namespace lockstep::test {
namespace {

template <Variable function(const Variable&)>
void plain_case(Case& c) {
  c.expect_output_and_gradients(function(c.input("x")));
}

/// A function with one number, by its attribute.
template <Variable function(const Variable&, double)>
void number_case(Case& c, const char* attribute) {
  c.expect_output_and_gradients(function(c.input("x"), c.number(attribute)));
}

void order_case(Case& c, const OrderResult& result) {
  EXPECT_EQ(max_difference(result.indices, c.tensor("indices")), 0.0) << c.name();
  c.expect_output_and_gradients(result.values);
}

void where_case(Case& c) {
  const Variable a = c.input("a"), b = c.input("b");
  c.expect_output_and_gradients(where(c.tensor("condition").to(DType::boolean), a, b));
}

void prelu_case(Case& c) {
  const Variable x = c.input("x"), weight = c.input("weight");
  c.expect_output_and_gradients(prelu(x, weight));
}

// PyTorch takes a sixth in single precision, also for gradients in double.
void hardsigmoid_case(Case& c) {
  const Variable x = c.input("x"), y = hardsigmoid(x);
  c.expect(y.data(), "out_f64");
  weighted_sum(y, c.tensor("grad_out")).backward();
  scale(x.grad(), 6.0 * static_cast<double>(1.0F / 6.0F));
  c.expect_gradients();
}

int dim_of(const Case& c) { return static_cast<int>(c.integer("dim")); }

}  // namespace

Checks breadth_element_checks() {
  return {
      {"abs", plain_case<abs>},
      {"exp", plain_case<exp>},
      {"log", plain_case<log>},
      {"sqrt", plain_case<sqrt>},
      {"rsqrt", plain_case<rsqrt>},
      {"sin", plain_case<sin>},
      {"cos", plain_case<cos>},
      {"selu", plain_case<selu>},
      {"softsign", plain_case<softsign>},
      {"relu6", plain_case<relu6>},
      {"hardsigmoid", hardsigmoid_case},
      {"hardswish", plain_case<hardswish>},
      {"mish", plain_case<mish>},
      {"log_sigmoid", plain_case<logsigmoid>},
      {"pow", [](Case& c) { number_case<pow>(c, "exponent"); }},
      {"leaky_relu", [](Case& c) { number_case<leaky_relu>(c, "negative_slope"); }},
      {"elu", [](Case& c) { number_case<elu>(c, "alpha"); }},
      {"hardtanh", [](Case& c) { c.expect_output_and_gradients(hardtanh(c.input("x"))); }},
      {"clamp",
       [](Case& c) {
         c.expect_output_and_gradients(clamp(c.input("x"), c.number("min"), c.number("max")));
       }},
      {"softplus",
       [](Case& c) {
         c.expect_output_and_gradients(
             softplus(c.input("x"), c.number("beta"), c.number("threshold")));
       }},
      {"prelu", prelu_case},
      {"glu", [](Case& c) { c.expect_output_and_gradients(glu(c.input("x"), dim_of(c))); }},
      {"cumsum", [](Case& c) { c.expect_output_and_gradients(cumsum(c.input("x"), dim_of(c))); }},
      {"where", where_case},
      {"sort",
       [](Case& c) { order_case(c, sort(c.input("x"), dim_of(c), c.integer("descending") != 0)); }},
      {"topk", [](Case& c) { order_case(c, topk(c.input("x"), c.integer("k"), dim_of(c))); }},
  };
}

}  // namespace lockstep::test
