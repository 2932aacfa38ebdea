#include <lockstep/autograd/functional.hpp>

#include "case.hpp"

namespace lockstep::test {

using Case = RandomCase;

RandomOperations random_layer_operations() {
  return {
      {"linear",
       [](const Case& c) { return linear(c.input("x"), c.input("weight"), c.input("bias")); }},
      {"layer_norm",
       [](const Case& c) {
         return layer_norm(c.input("x"), c.input("weight"), c.input("bias"), c.number("eps"));
       }},
      {"rms_norm",
       [](const Case& c) { return rms_norm(c.input("x"), c.input("weight"), c.number("eps")); }},
      {"group_norm",
       [](const Case& c) {
         return group_norm(c.input("x"), c.whole("groups"), c.input("weight"), c.input("bias"),
                           c.number("eps"));
       }},
      {"instance_norm",
       [](const Case& c) {
         return instance_norm(c.input("x"), c.input("weight"), c.input("bias"), c.number("eps"));
       }},
      {"batch_norm",
       [](const Case& c) {
         BatchNormStatistics statistics;
         statistics.running_mean = c.constant("mean").clone();
         statistics.running_var = c.constant("var").clone();
         return batch_norm(c.input("x"), c.input("weight"), c.input("bias"), statistics,
                           c.flag("training"), 0.1, c.number("eps"));
       }},
      {"local_response_norm",
       [](const Case& c) {
         return local_response_norm(c.input("x"), c.whole("size"), c.number("alpha"),
                                    c.number("beta"), c.number("k"));
       }},
      {"attention",
       [](const Case& c) {
         return scaled_dot_product_attention(c.input("q"), c.input("k"), c.input("v"),
                                             {.causal = c.flag("causal")});
       }},
  };
}

}  // namespace lockstep::test
