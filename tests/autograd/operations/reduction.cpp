#include <lockstep/autograd/functional/reduction.hpp>

#include "operations.hpp"

#include <lockstep/autograd/functional/order.hpp>
#include <lockstep/autograd/functional/vector_norm.hpp>

namespace lockstep::test {

Operations reduction_operations() {
  return {{"cumsum", {{16, 51}}, [](const Inputs& v) { return cumsum(v[0], 1); }},
          {"sort", {{16, 251}}, [](const Inputs& v) { return sort(v[0]).values; }},
          {"topk", {{16, 51}}, [](const Inputs& v) { return topk(v[0], 3).values; }},
          {"sum_all", {{7, 4099}}, [](const Inputs& v) { return sum(v[0]); }},
          {"sum_leading", {{640, 51}}, [](const Inputs& v) { return sum(v[0], {0}); }},
          {"mean_last", {{64, 768}}, [](const Inputs& v) { return mean(v[0], {-1}, true); }},
          {"mean_outer_and_inner",
           {{8, 20, 12, 12}},
           [](const Inputs& v) {
             return mean(v[0], {0, 2, 3});
           }},
          {"amax",
           {{8, 20, 33}},
           [](const Inputs& v) {
             return amax(v[0], {0, 2});
           }},
          {"prod", {{8, 20, 7}}, [](const Inputs& v) { return prod(v[0] + 2.0, {2}); }},
          {"norm",
           {{8, 20, 33}},
           [](const Inputs& v) {
             return norm(v[0], 2.0, {0, 2});
           }},
          {"norm_3", {{64, 51}}, [](const Inputs& v) { return norm(v[0], 3.0, {1}); }},
          {"var", {{64, 51}}, [](const Inputs& v) { return var(v[0], {1}); }},
          {"std", {{64, 51}}, [](const Inputs& v) { return lockstep::std(v[0], {1}); }},
          {"max", {{64, 51}}, [](const Inputs& v) { return max(v[0], 1).values; }},
          {"logsumexp", {{64, 51, 3}}, [](const Inputs& v) { return logsumexp(v[0], 1); }}};
}

}  // namespace lockstep::test
