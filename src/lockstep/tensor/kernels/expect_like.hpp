#pragma once
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// Throws ShapeError unless `t`, the `what` ("gradient") of a parameter, has the parameter's shape
/// and dtype.
inline void expect_like(const char* operation, const char* what, const Tensor& parameter,
                        const Tensor& t) {
  if (t.defined() && t.shape() == parameter.shape() && t.dtype() == parameter.dtype()) return;
  throw ShapeError(std::string(operation) + ": the parameter is " + describe(parameter) +
                   ", but its " + what + " is " + (t.defined() ? describe(t) : "undefined"));
}

}  // namespace lockstep
