#include <gtest/gtest.h>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "../weighted_sum.hpp"
#include "case.hpp"

namespace lockstep::test {
namespace {

void permute_case(Case& c) {
  std::vector<int> dims;
  for (const auto d : c.integers("dims")) dims.push_back(static_cast<int>(d));
  c.expect_output_and_gradients(permute(c.input("x"), Dims(dims)));
}

void transpose_case(Case& c) {
  c.expect_output_and_gradients(transpose(c.input("x"), static_cast<int>(c.integer("dim0")),
                                          static_cast<int>(c.integer("dim1"))));
}

void concat_case(Case& c) {
  const std::vector<Variable> parts{c.input("a"), c.input("b"), c.input("c")};
  c.expect_output_and_gradients(concat(parts, static_cast<int>(c.integer("dim"))));
}

void split_case(Case& c) {
  const auto sizes = c.integers("sizes");
  const auto parts = split(c.input("x"), sizes, static_cast<int>(c.integer("dim")));
  ASSERT_EQ(parts.size(), sizes.size());
  Variable total;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string number = std::to_string(i);
    c.expect(parts[i].data(), "out_" + number + "_f64");
    const Variable share = weighted_sum(parts[i], c.tensor("grad_out_" + number));
    total = total.defined() ? total + share : share;
  }
  total.backward();
  c.expect_gradients();
}

void gather_case(Case& c) {
  c.expect_output_and_gradients(
      gather(c.input("x"), static_cast<int>(c.integer("dim")), c.tensor("index")));
}

}  // namespace

Checks shape_checks() {
  return {{"permute", permute_case},
          {"transpose", transpose_case},
          {"concat", concat_case},
          {"split", split_case},
          {"gather", gather_case}};
}

}  // namespace lockstep::test
