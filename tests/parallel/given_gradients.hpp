#pragma once
#include <cstddef>
#include <string>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/nn/module.hpp>

#include "small_models.hpp"

namespace lockstep::test {

/// A loss with given gradients: the sum over parameters of parameter x gradient.
struct GivenGradients : nn::Module {
  explicit GivenGradients(const std::vector<Shape>& shapes, DType dtype = DType::f64) {
    for (const Shape& shape : shapes) {
      parts.push_back(register_parameter("part" + std::to_string(parts.size()),
                                         Tensor::full(shape, 0.5, dtype, asked_for_device())));
    }
    gradients.resize(parts.size());
  }
  /// Undefined if no part has a gradient.
  Variable forward(const Variable& /*x*/) override {
    Variable loss;
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!gradients[i].defined()) continue;
      const Variable term = sum(parts[i] * Variable(gradients[i].to(asked_for_device())));
      loss = loss.defined() ? loss + term : term;
    }
    return loss;
  }
  std::vector<Variable> parts;
  std::vector<Tensor> gradients;  ///< by part; undefined: the loss does not reach it
};

}  // namespace lockstep::test
