#include <lockstep/autograd/functional/matmul.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations matmul_operations() {
  return {
      {"matmul", {{64, 96}, {96, 50}}, [](const Inputs& v) { return matmul(v[0], v[1]); }},
      {"matmul_tall", {{8, 49, 32}, {32, 24}}, [](const Inputs& v) { return matmul(v[0], v[1]); }},
      {"matmul_broadcast",
       {{4, 1, 17, 8}, {3, 8, 5}},
       [](const Inputs& v) { return matmul(v[0], v[1]); }},
      {"matmul_vector", {{8, 49, 32}, {32}}, [](const Inputs& v) { return matmul(v[0], v[1]); }},
      {"bmm", {{24, 49, 32}, {24, 32, 49}}, [](const Inputs& v) { return bmm(v[0], v[1]); }}};
}

}  // namespace lockstep::test
