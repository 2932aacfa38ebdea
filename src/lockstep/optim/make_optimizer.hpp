#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/optim/optimizer.hpp>

namespace lockstep {
class Deck;
class DeckTable;
}  // namespace lockstep

namespace lockstep::optim {

/// The deck's [optimizer] table: which optimizer, and the hyper-parameters of all kinds. Each kind
/// takes those that its own options struct has (SgdOptions, AdamOptions ...).
struct OptimizerOptions {
  enum class Kind : std::uint8_t {
    sgd,
    adam,
    adamw,
    lars,
    lamb,
    rmsprop,
    adagrad,
    adadelta,
    adamax,
    nadam,
    radam,
    asgd,
    lion,
  };
  Kind kind = Kind::sgd;
  double lr = 1e-3;
  double momentum = 0.0;
  double dampening = 0.0;
  bool nesterov = false;
  double weight_decay = 0.0;
  std::vector<double> betas{0.9, 0.999};
  double eps = 1e-8;
  bool amsgrad = false;
  double alpha = 0.99;
  bool centered = false;
  double lr_decay = 0.0;
  double initial_accumulator_value = 0.0;
  double rho = 0.9;
  double momentum_decay = 4e-3;
  bool decoupled_weight_decay = false;
  double lambd = 1e-4;
  double t0 = 1e6;
  double trust_coefficient = 1e-3;
  std::vector<std::string> not_adapted;
  double clip_norm = 0.0;   ///< largest norm of all gradients together; 0: no limit
  double clip_value = 0.0;  ///< largest size of a gradient's element; 0: no limit
  /// Parameter groups, an entry a group; the other lists are as long, or empty for the optimizer's
  /// own values.
  std::vector<std::string> group_pattern;
  std::vector<double> group_lr_factor;
  std::vector<double> group_weight_decay;
};
/// Where the deck is silent, momentum, betas, alpha, eps and weight_decay are what the kind's own
/// options have, and so is lr of all kinds but sgd, adam, adamw, lars and lamb: 1e-3.
void declare(DeckTable& table, OptimizerOptions& options);

/// Reads [optimizer]. Throws InputError, naming file and line, also where lists do not fit
/// together.
[[nodiscard]] OptimizerOptions read_optimizer_options(Deck& deck);

/// The optimizer that `options` names, over `parameters` (model.named_parameters()).
/// Throws InputError if the options do not fit together or to the parameters.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const OptimizerOptions& options,
                                                        std::vector<nn::NamedParameter> parameters);

/// Between backward and step.
struct Clipping {
  double norm = -1.0;   ///< of the gradients; -1: not asked for
  double factor = 1.0;  ///< for Optimizer::step, which clips the norm
};

/// Clips the gradients' values as `options` say, and tells what clips their norm.
[[nodiscard]] Clipping clip_gradients(const OptimizerOptions& options,
                                      const std::vector<nn::NamedParameter>& parameters);

}  // namespace lockstep::optim
