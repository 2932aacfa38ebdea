#include <lockstep/autograd/functional/attention.hpp>
#include <lockstep/autograd/functional/in_projection.hpp>
#include <lockstep/autograd/functional/shape.hpp>

#include "operations.hpp"

namespace lockstep::test {
namespace {

AttentionOptions causal() {
  AttentionOptions options;
  options.causal = true;
  return options;
}

}  // namespace

Operations attention_operations() {
  return {
      {"scaled_dot_product_attention",
       {{2, 3, 49, 16}, {2, 3, 49, 16}, {2, 3, 49, 16}},
       [](const Inputs& v) { return scaled_dot_product_attention(v[0], v[1], v[2]); }},
      // Two blocks of queries.
      {"scaled_dot_product_attention, causal",
       {{1, 2, 70, 16}, {1, 2, 75, 16}, {1, 2, 75, 16}},
       [](const Inputs& v) { return scaled_dot_product_attention(v[0], v[1], v[2], causal()); }},
      {"scaled_dot_product_attention, fewer heads of keys",
       {{2, 6, 9, 8}, {2, 2, 11, 8}, {2, 2, 11, 8}},
       [](const Inputs& v) { return scaled_dot_product_attention(v[0], v[1], v[2]); }},
      {"self_attention",
       {{2, 21, 3 * 24}},
       [](const Inputs& v) { return self_attention(v[0], 3); }},
      {"multi_head_attention",
       {{2, 9, 24}, {2, 13, 24}, {2, 13, 24}},
       [](const Inputs& v) { return multi_head_attention(v[0], v[1], v[2], 3); }},
      {"multi_head_attention_with_weights",
       {{2, 9, 24}, {2, 13, 24}, {2, 13, 24}},
       [](const Inputs& v) {
         const auto y = multi_head_attention_with_weights(v[0], v[1], v[2], 3, causal());
         const auto flat = [](const Variable& x) { return reshape(x, {x.data().numel()}); };
         return concat({flat(y.output), flat(y.weights)});
       }},
      {"in_projection",
       {{2, 9, 24}, {2, 13, 24}, {2, 13, 24}, {72, 24}, {72}},
       [](const Inputs& v) { return concat(in_projection(v[0], v[1], v[2], v[3], v[4]), 1); }}};
}

}  // namespace lockstep::test
