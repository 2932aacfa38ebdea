#include <lockstep/nn/layers/shape.hpp>

#include <lockstep/autograd/functional/shape.hpp>

namespace lockstep::nn {

Variable Flatten::forward(const Variable& x) { return flatten(x); }

}  // namespace lockstep::nn
