#include <lockstep/autograd/functional/loss.hpp>

#include "operations.hpp"

#include <lockstep/autograd/functional/linear_cross_entropy.hpp>

namespace lockstep::test {

namespace {

/// Classes 0 to 9, fixed, so that a steady loop makes them once.
Tensor classes(const Variable& x) {
  static const Tensor targets = [] {
    std::vector<std::int64_t> values;
    for (std::int64_t r = 0; r < 128; ++r) values.push_back(r * 7 % 10);
    return Tensor::from(values, {128});
  }();
  return targets.to(x.data().device());
}

}  // namespace

Operations loss_operations() {
  return {{"nll_loss", {{128, 10}}, [](const Inputs& v) { return nll_loss(v[0], classes(v[0])); }},
          {"cross_entropy",
           {{128, 10}},
           [](const Inputs& v) {
             LossOptions options;
             options.label_smoothing = 0.1;
             return cross_entropy(v[0], classes(v[0]), options);
           }},
          {"linear_cross_entropy", {{128, 16}, {10, 16}}, [](const Inputs& v) {
             return linear_cross_entropy(v[0], v[1], classes(v[0]));
           }}};
}

}  // namespace lockstep::test
