#include <lockstep/autograd/functional/activation.hpp>

#include "operations.hpp"

#include <lockstep/autograd/functional/gated.hpp>

namespace lockstep::test {

Operations activation_operations() {
  return {{"relu", {{64, 1440}}, [](const Inputs& v) { return relu(v[0]); }},
          {"gelu_exact", {{64, 1441}}, [](const Inputs& v) { return gelu(v[0]); }},
          {"gelu_tanh", {{64, 1441}}, [](const Inputs& v) { return gelu(v[0], Gelu::tanh); }},
          {"silu", {{64, 51}}, [](const Inputs& v) { return silu(v[0]); }},
          {"sigmoid", {{64, 51}}, [](const Inputs& v) { return sigmoid(v[0]); }},
          {"tanh", {{64, 51}}, [](const Inputs& v) { return lockstep::tanh(v[0]); }},
          {"leaky_relu", {{64, 51}}, [](const Inputs& v) { return leaky_relu(v[0]); }},
          {"elu", {{64, 51}}, [](const Inputs& v) { return elu(v[0]); }},
          {"softplus", {{64, 51}}, [](const Inputs& v) { return softplus(v[0]); }},
          {"mish", {{64, 51}}, [](const Inputs& v) { return mish(v[0]); }},
          {"prelu", {{64, 51, 3}, {51}}, [](const Inputs& v) { return prelu(v[0], v[1]); }},
          {"glu", {{64, 50, 3}}, [](const Inputs& v) { return glu(v[0], 1); }},
          {"softmax_rows", {{64, 197}}, [](const Inputs& v) { return softmax(v[0]); }},
          {"softmax_columns", {{64, 10, 3}}, [](const Inputs& v) { return softmax(v[0], 1); }},
          {"log_softmax_rows", {{64, 197}}, [](const Inputs& v) { return log_softmax(v[0]); }},
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
