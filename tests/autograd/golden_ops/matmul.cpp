#include <lockstep/autograd/functional/matmul.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void matmul_case(Case& c) {
  const Variable a = c.input("a"), b = c.input("b");
  c.expect_output_and_gradients(matmul(a, b));
}

}  // namespace

Checks matmul_checks() { return {{"matmul", matmul_case}}; }

}  // namespace lockstep::test
