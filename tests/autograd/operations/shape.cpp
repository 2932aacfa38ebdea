#include <lockstep/autograd/functional/shape.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations shape_operations() {
  return {
      {"flatten", {{8, 20, 4, 4}}, [](const Inputs& v) { return flatten(v[0]); }},
      {"transpose_last", {{4, 70, 45}}, [](const Inputs& v) { return transpose(v[0], 1, 2); }},
      {"transpose_heads", {{4, 49, 6, 32}}, [](const Inputs& v) { return transpose(v[0], 1, 2); }},
      {"permute",
       {{4, 7, 6, 5}},
       [](const Inputs& v) {
         return permute(v[0], {2, 0, 3, 1});
       }},
      {"narrow", {{8, 20, 16}}, [](const Inputs& v) { return narrow(v[0], 1, 3, 9); }},
      {"concat", {{8, 5, 16}, {8, 1, 16}, {8, 7, 16}}, [](const Inputs& v) {
         return concat(v, 1);
       }}};
}

}  // namespace lockstep::test
