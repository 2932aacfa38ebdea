#include <lockstep/optim/make_optimizer.hpp>

#include <tuple>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/optim/sgd.hpp>

namespace lockstep::optim {
namespace {

std::vector<ParameterGroup> groups_of(const OptimizerOptions& options) {
  const auto& [patterns, factors, decays] =
      std::tie(options.group_pattern, options.group_lr_factor, options.group_weight_decay);
  for (const auto* list : {&factors, &decays}) {
    if (list->empty() || list->size() == patterns.size()) continue;
    throw InputError(fmt::format("{} parameter groups have {} learning rates or weight decays",
                                 patterns.size(), list->size()));
  }
  std::vector<ParameterGroup> groups;
  for (std::size_t i = 0; i < patterns.size(); ++i) {
    ParameterGroup& group = groups.emplace_back(ParameterGroup{patterns[i]});
    if (!factors.empty()) group.lr_factor = factors[i];
    if (!decays.empty()) group.weight_decay = decays[i];
  }
  return groups;
}

}  // namespace

std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                          std::vector<nn::NamedParameter> parameters) {
  using Kind = OptimizerOptions::Kind;
  if (options.betas.size() != 2) {
    throw InputError(fmt::format("betas are two numbers, not {}", options.betas.size()));
  }
  const Betas betas{options.betas[0], options.betas[1]};
  const auto groups = groups_of(options);
  switch (options.kind) {
    case Kind::sgd:
      return std::make_unique<SGD>(std::move(parameters),
                                   SgdOptions{.lr = options.lr,
                                              .momentum = options.momentum,
                                              .dampening = options.dampening,
                                              .nesterov = options.nesterov,
                                              .weight_decay = options.weight_decay},
                                   groups);
    case Kind::adam:
      return std::make_unique<Adam>(std::move(parameters),
                                    AdamOptions{.lr = options.lr,
                                                .betas = betas,
                                                .eps = options.eps,
                                                .weight_decay = options.weight_decay,
                                                .amsgrad = options.amsgrad},
                                    groups);
    case Kind::adamw:
      return std::make_unique<AdamW>(std::move(parameters),
                                     AdamWOptions{.lr = options.lr,
                                                  .betas = betas,
                                                  .eps = options.eps,
                                                  .weight_decay = options.weight_decay,
                                                  .amsgrad = options.amsgrad},
                                     groups);
    case Kind::lars:
      return std::make_unique<LARS>(std::move(parameters),
                                    LarsOptions{.lr = options.lr,
                                                .momentum = options.momentum,
                                                .weight_decay = options.weight_decay,
                                                .trust_coefficient = options.trust_coefficient,
                                                .not_adapted = options.not_adapted},
                                    groups);
    case Kind::lamb:
      return std::make_unique<LAMB>(std::move(parameters),
                                    LambOptions{.lr = options.lr,
                                                .betas = betas,
                                                .eps = options.eps,
                                                .weight_decay = options.weight_decay,
                                                .not_adapted = options.not_adapted},
                                    groups);
    case Kind::rmsprop:
      return std::make_unique<RMSprop>(std::move(parameters),
                                       RmspropOptions{.lr = options.lr,
                                                      .alpha = options.alpha,
                                                      .eps = options.eps,
                                                      .weight_decay = options.weight_decay,
                                                      .momentum = options.momentum,
                                                      .centered = options.centered},
                                       groups);
    case Kind::adagrad:
      return std::make_unique<Adagrad>(
          std::move(parameters),
          AdagradOptions{.lr = options.lr,
                         .lr_decay = options.lr_decay,
                         .weight_decay = options.weight_decay,
                         .initial_accumulator_value = options.initial_accumulator_value,
                         .eps = options.eps},
          groups);
    case Kind::adadelta:
      return std::make_unique<Adadelta>(std::move(parameters),
                                        AdadeltaOptions{.lr = options.lr,
                                                        .rho = options.rho,
                                                        .eps = options.eps,
                                                        .weight_decay = options.weight_decay},
                                        groups);
    case Kind::adamax:
      return std::make_unique<Adamax>(std::move(parameters),
                                      AdamaxOptions{.lr = options.lr,
                                                    .betas = betas,
                                                    .eps = options.eps,
                                                    .weight_decay = options.weight_decay},
                                      groups);
    case Kind::nadam:
      return std::make_unique<NAdam>(
          std::move(parameters),
          NAdamOptions{.lr = options.lr,
                       .betas = betas,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay,
                       .momentum_decay = options.momentum_decay,
                       .decoupled_weight_decay = options.decoupled_weight_decay},
          groups);
    case Kind::radam:
      return std::make_unique<RAdam>(
          std::move(parameters),
          RAdamOptions{.lr = options.lr,
                       .betas = betas,
                       .eps = options.eps,
                       .weight_decay = options.weight_decay,
                       .decoupled_weight_decay = options.decoupled_weight_decay},
          groups);
    case Kind::asgd:
      return std::make_unique<ASGD>(std::move(parameters),
                                    AsgdOptions{.lr = options.lr,
                                                .lambd = options.lambd,
                                                .alpha = options.alpha,
                                                .t0 = options.t0,
                                                .weight_decay = options.weight_decay},
                                    groups);
    case Kind::lion:
      return std::make_unique<Lion>(
          std::move(parameters),
          LionOptions{.lr = options.lr, .betas = betas, .weight_decay = options.weight_decay},
          groups);
  }
  throw Error("make_optimizer: this kind of optimizer is not known");
}

Clipping clip_gradients(const OptimizerOptions& options,
                        const std::vector<nn::NamedParameter>& parameters) {
  if (options.clip_value > 0.0) clip_grad_value(parameters, options.clip_value);
  if (options.clip_norm <= 0.0) return {};
  const double norm = grad_norm(parameters);
  return {.norm = norm, .factor = clip_factor(norm, options.clip_norm)};
}

}  // namespace lockstep::optim
