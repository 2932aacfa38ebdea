#include <lockstep/autograd/functional/attention.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

void sdpa_case(Case& c) {
  AttentionOptions options;
  options.causal = c.number("is_causal") != 0;
  options.scale = c.number("scale");
  const Variable q = c.input("q"), k = c.input("k"), v = c.input("v");
  c.expect_output_and_gradients(scaled_dot_product_attention(q, k, v, options));
}

}  // namespace

Checks attention_checks() { return {{"sdpa", sdpa_case}}; }

}  // namespace lockstep::test
