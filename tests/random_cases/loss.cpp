#include <lockstep/autograd/functional.hpp>

#include "case.hpp"

namespace lockstep::test {
namespace {

using Case = RandomCase;

Reduction reduction_of(const Case& c) {
  constexpr std::array all{Reduction::none, Reduction::mean, Reduction::sum};
  return all.at(static_cast<std::size_t>(c.whole("reduction")));
}

LossOptions options_of(const Case& c) {
  return {.reduction = reduction_of(c),
          .class_weight = c.constant("weight"),
          .ignore_index = c.whole("ignore_index"),
          .label_smoothing = c.number("smoothing")};
}

}  // namespace

RandomOperations random_loss_operations() {
  return {
      {"mse_loss",
       [](const Case& c) { return mse_loss(c.input("x"), c.constant("t"), reduction_of(c)); }},
      {"l1_loss",
       [](const Case& c) { return l1_loss(c.input("x"), c.constant("t"), reduction_of(c)); }},
      {"smooth_l1_loss",
       [](const Case& c) {
         return smooth_l1_loss(c.input("x"), c.constant("t"), reduction_of(c), c.number("beta"));
       }},
      {"huber_loss",
       [](const Case& c) {
         return huber_loss(c.input("x"), c.constant("t"), reduction_of(c), c.number("delta"));
       }},
      {"kl_div",
       [](const Case& c) {
         constexpr std::array all{KlDivReduction::none, KlDivReduction::mean, KlDivReduction::sum,
                                  KlDivReduction::batchmean};
         return kl_div(c.input("x"), c.constant("t"),
                       all.at(static_cast<std::size_t>(c.whole("reduction"))), c.flag("log"));
       }},
      {"gaussian_nll_loss",
       [](const Case& c) {
         return gaussian_nll_loss(c.input("x"), c.constant("t"), c.input("var"), c.flag("full"),
                                  c.number("eps"), reduction_of(c));
       }},
      {"poisson_nll_loss",
       [](const Case& c) {
         return poisson_nll_loss(c.input("x"), c.constant("t"), c.flag("log"), c.flag("full"), 1e-8,
                                 reduction_of(c));
       }},
      {"bce_with_logits",
       [](const Case& c) {
         return binary_cross_entropy_with_logits(c.input("x"), c.constant("t"), reduction_of(c),
                                                 c.constant("weight"), c.constant("pos_weight"));
       }},
      {"bce",
       [](const Case& c) {
         return binary_cross_entropy(c.input("x"), c.constant("t"), reduction_of(c),
                                     c.constant("weight"));
       }},
      {"nll_loss",
       [](const Case& c) { return nll_loss(c.input("x"), c.constant("t"), options_of(c)); }},
      {"cross_entropy",
       [](const Case& c) { return cross_entropy(c.input("x"), c.constant("t"), options_of(c)); }},
      {"ctc_loss",
       [](const Case& c) {
         return ctc_loss(log_softmax(c.input("x"), 2), c.constant("t"), c.constant("frames"),
                         c.constant("lengths"), c.whole("blank"), reduction_of(c),
                         c.flag("zero_infinity"));
       }},
      {"cosine_embedding_loss",
       [](const Case& c) {
         return cosine_embedding_loss(c.input("a"), c.input("b"), c.constant("t"),
                                      c.number("margin"), reduction_of(c));
       }},
      {"triplet_margin_loss",
       [](const Case& c) {
         return triplet_margin_loss(c.input("anchor"), c.input("positive"), c.input("negative"),
                                    {.margin = c.number("margin"),
                                     .p = c.number("p"),
                                     .swap = c.flag("swap"),
                                     .reduction = reduction_of(c)});
       }},
  };
}

}  // namespace lockstep::test
