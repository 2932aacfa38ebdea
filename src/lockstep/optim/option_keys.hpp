#pragma once
#include <cstddef>
#include <string_view>
#include <vector>

#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/betas.hpp>

// Private to the optimizers' .cpp files: deck keys that several kinds have.

namespace lockstep::optim {

inline void declare_lr(DeckTable& table, double& lr) {
  table.key("lr", lr, {.doc = "learning rate", .min = 0.0});
}

inline constexpr std::string_view l2_decay =
    "factor of the parameter that is added to its gradient";
inline constexpr std::string_view decoupled_decay =
    "factor of the parameter that is subtracted from it in a step of rate 1";
inline constexpr std::string_view either_decay =
    "factor of the parameter that is added to its gradient or, with decoupled_weight_decay, "
    "subtracted from the parameter in a step of rate 1";

inline void declare_weight_decay(DeckTable& table, double& weight_decay, std::string_view doc) {
  table.key("weight_decay", weight_decay, {.doc = doc, .min = 0.0});
}

inline void declare_decoupled_weight_decay(DeckTable& table, bool& decoupled) {
  table.key("decoupled_weight_decay", decoupled,
            {.doc = "weight_decay shrinks the parameter, as adamw's"});
}

inline void declare_momentum(DeckTable& table, double& momentum) {
  table.key("momentum", momentum,
            {.doc = "factor of the last step that is kept", .min = 0.0, .max = 1.0});
}

inline constexpr std::string_view means_of_gradient_and_square =
    "decay of the running means of the gradient and of its square";

template <std::size_t count>
void declare_betas(DeckTable& table, BetaList<count>& betas,
                   std::string_view doc = means_of_gradient_and_square) {
  std::vector<double> list;
  for (std::size_t i = 0; i < count; ++i) list.push_back(betas[i]);
  table.key("betas", list, {.doc = doc, .min = 0.0, .max = 1.0, .count = count});
  for (std::size_t i = 0; i < count; ++i) betas[i] = list.at(i);
}

inline void declare_eps(DeckTable& table, double& eps,
                        std::string_view doc = "added to the root of the mean square") {
  table.key("eps", eps, {.doc = doc, .min = 0.0});
}

/// lr, betas, eps and weight_decay.
template <class Options>
void declare_adam_keys(DeckTable& table, Options& options, std::string_view decay_doc) {
  declare_lr(table, options.lr);
  declare_betas(table, options.betas);
  declare_eps(table, options.eps);
  declare_weight_decay(table, options.weight_decay, decay_doc);
}

inline void declare_amsgrad(DeckTable& table, bool& amsgrad) {
  table.key("amsgrad", amsgrad,
            {.doc = "divide by the root of the largest mean square seen so far"});
}

inline void declare_not_adapted(DeckTable& table, std::vector<std::string>& patterns) {
  table.key("not_adapted", patterns,
            {.doc = "name patterns of parameters that step without the layer's trust ratio, e.g. "
                    "[\"*.bias\"]"});
}

}  // namespace lockstep::optim
