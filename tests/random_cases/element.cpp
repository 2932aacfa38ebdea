#include <lockstep/autograd/functional.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

using Case = RandomCase;

template <Variable function(const Variable&)>
Variable of_x(const Case& c) {
  return function(c.input("x"));
}

template <Variable function(const Variable&, const Variable&)>
Variable of_two(const Case& c) {
  return function(c.input("a"), c.input("b"));
}

Dims dims_of(const Case& c) {
  const auto dims = c.list<int>("dims");
  return Dims(std::span<const int>(dims));
}

int dim_of(const Case& c) { return static_cast<int>(c.whole("dim")); }

template <auto function>
Variable reduced(const Case& c) {
  return function(c.input("x"), dims_of(c), c.flag("keepdim"));
}

}  // namespace

RandomOperations random_element_operations() {
  return {
      {"abs", of_x<abs>},
      {"exp", of_x<exp>},
      {"log", of_x<log>},
      {"sqrt", of_x<sqrt>},
      {"rsqrt", of_x<rsqrt>},
      {"reciprocal", of_x<reciprocal>},
      {"sin", of_x<sin>},
      {"cos", of_x<cos>},
      {"erf", of_x<erf>},
      {"erfc", of_x<erfc>},
      {"relu", of_x<relu>},
      {"silu", of_x<silu>},
      {"sigmoid", of_x<sigmoid>},
      {"tanh", of_x<tanh>},
      {"selu", of_x<selu>},
      {"softsign", of_x<softsign>},
      {"relu6", of_x<relu6>},
      {"hardsigmoid", of_x<hardsigmoid>},
      {"hardswish", of_x<hardswish>},
      {"mish", of_x<mish>},
      {"logsigmoid", of_x<logsigmoid>},
      {"add", of_two<add>},
      {"sub", of_two<sub>},
      {"mul", of_two<mul>},
      {"div", of_two<div>},
      {"atan2", [](const Case& c) { return atan2(c.input("a"), c.input("b")); }},
      {"prelu", [](const Case& c) { return prelu(c.input("x"), c.input("weight")); }},
      {"add_number", [](const Case& c) { return c.input("x") + c.number("number"); }},
      {"mul_number", [](const Case& c) { return c.input("x") * c.number("number"); }},
      {"div_number", [](const Case& c) { return c.input("x") / c.number("number"); }},
      {"number_div", [](const Case& c) { return c.number("number") / c.input("x"); }},
      {"pow", [](const Case& c) { return pow(c.input("x"), c.number("p")); }},
      {"clamp",
       [](const Case& c) { return clamp(c.input("x"), c.number("min"), c.number("max")); }},
      {"leaky_relu", [](const Case& c) { return leaky_relu(c.input("x"), c.number("slope")); }},
      {"elu", [](const Case& c) { return elu(c.input("x"), c.number("alpha")); }},
      {"celu", [](const Case& c) { return celu(c.input("x"), c.number("alpha")); }},
      {"hardtanh",
       [](const Case& c) { return hardtanh(c.input("x"), c.number("min"), c.number("max")); }},
      {"softplus",
       [](const Case& c) {
         return softplus(c.input("x"), c.number("beta"), c.number("threshold"));
       }},
      {"gelu",
       [](const Case& c) { return gelu(c.input("x"), c.flag("tanh") ? Gelu::tanh : Gelu::exact); }},
      {"glu", [](const Case& c) { return glu(c.input("x"), dim_of(c)); }},
      {"softmax", [](const Case& c) { return softmax(c.input("x"), dim_of(c)); }},
      {"log_softmax", [](const Case& c) { return log_softmax(c.input("x"), dim_of(c)); }},
      {"logsumexp",
       [](const Case& c) { return logsumexp(c.input("x"), dim_of(c), c.flag("keepdim")); }},
      {"cumsum", [](const Case& c) { return cumsum(c.input("x"), dim_of(c)); }},
      {"sum", reduced<sum>},
      {"mean", reduced<mean>},
      {"amax", reduced<amax>},
      {"prod", reduced<prod>},
      {"max", [](const Case& c) { return max(c.input("x"), dim_of(c), c.flag("keepdim")).values; }},
      {"sort",
       [](const Case& c) { return sort(c.input("x"), dim_of(c), c.flag("descending")).values; }},
      {"norm",
       [](const Case& c) {
         return norm(c.input("x"), c.number("p"), dims_of(c), c.flag("keepdim"));
       }},
      {"var",
       [](const Case& c) {
         return var(c.input("x"), dims_of(c), c.number("correction"), c.flag("keepdim"));
       }},
      {"std",
       [](const Case& c) {
         return lockstep::std(c.input("x"), dims_of(c), c.number("correction"), c.flag("keepdim"));
       }},
      {"argmax",
       [](const Case& c) {
         return Variable(argmax(c.input("x"), dim_of(c), c.flag("keepdim")).to(DType::f64));
       }},
      {"where",
       [](const Case& c) { return where(c.constant("condition"), c.input("a"), c.input("b")); }},
      {"masked_fill",
       [](const Case& c) {
         return masked_fill(c.input("x"), c.constant("mask"), c.number("value"));
       }},
      {"gather",
       [](const Case& c) { return gather(c.input("x"), dim_of(c), c.constant("index")); }},
      {"matmul", [](const Case& c) { return matmul(c.input("a"), c.input("b")); }},
      {"cosine_similarity",
       [](const Case& c) {
         return cosine_similarity(c.input("a"), c.input("b"), dim_of(c), c.number("eps"));
       }},
      {"pairwise_distance",
       [](const Case& c) {
         return pairwise_distance(c.input("a"), c.input("b"), c.number("p"), c.number("eps"),
                                  c.flag("keepdim"));
       }},
      {"normalize",
       [](const Case& c) {
         return normalize(c.input("x"), c.number("p"), dim_of(c), c.number("eps"));
       }},
  };
}

}  // namespace lockstep::test
