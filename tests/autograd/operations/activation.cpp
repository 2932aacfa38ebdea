#include <lockstep/autograd/functional/activation.hpp>

#include "operations.hpp"

namespace lockstep::test {

Operations activation_operations() {
  return {{"relu", {{64, 1440}}, [](const Inputs& v) { return relu(v[0]); }},
          {"dropout",
           {{64, 51}},
           [](const Inputs& v) {
             return dropout(v[0], 0.5, {1, 2, 3, 4});
           }},
          {"dropout2d",
           {{8, 20, 8, 8}},
           [](const Inputs& v) {
             return dropout2d(v[0], 0.5, {1, 2, 3, 4});
           }},
          {"log_softmax", {{64, 10, 3}}, [](const Inputs& v) { return log_softmax(v[0], 1); }}};
}

}  // namespace lockstep::test
