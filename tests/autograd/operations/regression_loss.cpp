#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/distance.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/autograd/functional/regression_loss.hpp>

#include "operations.hpp"

namespace lockstep::test {
namespace {

/// A target of ones in the dtype that x is calculated with, made once for each.
Tensor target_for(const Variable& x) {
  static const Tensor single = Tensor::full({64, 51}, 1, DType::f32);
  static const Tensor dual = Tensor::full({64, 51}, 1, DType::f64);
  return (x.data().dtype() == DType::f64 ? dual : single).to(x.data().device());
}

}  // namespace

Operations regression_loss_operations() {
  return {
      {"mse_loss", {{64, 51}}, [](const Inputs& v) { return mse_loss(v[0], target_for(v[0])); }},
      {"huber_loss",
       {{64, 51}},
       [](const Inputs& v) { return huber_loss(v[0], target_for(v[0])); }},
      {"gaussian_nll_loss",
       {{64, 51}, {64, 51}},
       [](const Inputs& v) { return gaussian_nll_loss(v[0], target_for(v[0]), v[1] + 2.0); }},
      {"binary_cross_entropy",
       {{64, 51}},
       [](const Inputs& v) {
         return binary_cross_entropy(sigmoid(v[0]), target_for(v[0]), Reduction::mean,
                                     target_for(v[0]));
       }},
      {"weighted_binary_cross_entropy",
       {{64, 51}},
       [](const Inputs& v) {
         const Tensor one = target_for(v[0]);
         return binary_cross_entropy_with_logits(v[0], one, Reduction::mean, one, one);
       }},
      {"cosine_similarity",
       {{64, 51}, {64, 51}},
       [](const Inputs& v) { return cosine_similarity(v[0], v[1]); }},
      {"normalize", {{64, 51}}, [](const Inputs& v) { return normalize(v[0]); }},
      {"triplet_margin_loss",
       {{64, 51}, {64, 51}, {64, 51}},
       [](const Inputs& v) { return triplet_margin_loss(v[0], v[1], v[2]); }},
      {"binary_cross_entropy_with_logits", {{64, 51}}, [](const Inputs& v) {
         return binary_cross_entropy_with_logits(v[0], target_for(v[0]), Reduction::none);
       }}};
}

}  // namespace lockstep::test
