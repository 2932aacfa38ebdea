#include <lockstep/autograd/functional/linear.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations linear_operations() {
  return {{"linear", {{64, 320}, {50, 320}, {50}}, [](const Inputs& v) {
             return linear(v[0], v[1], v[2]);
           }}};
}

}  // namespace lockstep::test
