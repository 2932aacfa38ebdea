#include <lockstep/autograd/functional/arithmetic.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

template <Variable (*operation)(const Variable&, const Variable&)>
void binary_case(Case& c) {
  const Variable x = c.input("x"), y = c.input("y");
  c.expect_output_and_gradients(operation(x, y));
}

}  // namespace

Checks arithmetic_checks() {
  return {{"add", binary_case<add>},
          {"sub", binary_case<sub>},
          {"mul", binary_case<mul>},
          {"div", binary_case<div>}};
}

}  // namespace lockstep::test
