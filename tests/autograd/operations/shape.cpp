#include <lockstep/autograd/functional/shape.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations shape_operations() {
  return {{"flatten", {{8, 20, 4, 4}}, [](const Inputs& v) { return flatten(v[0]); }}};
}

}  // namespace lockstep::test
