#include <lockstep/autograd/functional/embedding.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void embedding_case(Case& c) {
  const std::int64_t padding_idx = c.has_attribute("padding_idx") ? c.integer("padding_idx") : -1;
  const Variable y = embedding(c.tensor("index"), c.input("weight"), padding_idx);
  c.expect_exact(y.data(), "out_f64");
  c.expect_output_and_gradients(y);
}

}  // namespace

Checks embedding_checks() { return {{"embedding", embedding_case}}; }

}  // namespace lockstep::test
