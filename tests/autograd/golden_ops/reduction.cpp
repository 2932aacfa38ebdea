#include <lockstep/autograd/functional/reduction.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

Dims dims_of(const Case& c) {
  std::vector<int> dims;
  for (const auto d : c.integers("dim")) dims.push_back(static_cast<int>(d));
  return Dims(dims);
}

template <auto operation>
void reduction_case(Case& c) {
  c.expect_output_and_gradients(operation(c.input("x"), dims_of(c), c.number("keepdim") != 0));
}

void max_case(Case& c) {
  const auto result =
      max(c.input("x"), static_cast<int>(c.integer("dim")), c.number("keepdim") != 0);
  c.expect_exact(result.indices, "indices");
  c.expect_output_and_gradients(result.values);
}

void logsumexp_case(Case& c) {
  c.expect_output_and_gradients(
      logsumexp(c.input("x"), static_cast<int>(c.integer("dim")), c.number("keepdim") != 0));
}

}  // namespace

Checks reduction_checks() {
  return {{"sum", reduction_case<sum>},
          {"mean", reduction_case<mean>},
          {"amax", reduction_case<amax>},
          {"max", max_case},
          {"logsumexp", logsumexp_case}};
}

}  // namespace lockstep::test
