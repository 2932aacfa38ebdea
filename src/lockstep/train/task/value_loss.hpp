#pragma once
#include <concepts>
#include <string>
#include <utility>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/deck/kinds.hpp>

namespace lockstep::train {

/// Options of a kind of loss, with the function that computes it: loss(output, targets) is one
/// number, the mean over the elements. Output and targets are f32 and have one shape.
template <class Options>
concept ValueLoss = DeclaredOptions<Options> &&
    requires(const Options& options, const Variable& output, const Tensor& targets) {
  { options.loss(output, targets) } -> std::convertible_to<Variable>;
};

/// Losses of values by their names in decks; make(output, targets) computes the loss.
using LossKinds = Kinds<Variable(const Variable& output, const Tensor& targets)>;

/// All values of `[loss] kind`: Lockstep's own, then those of register_loss.
[[nodiscard]] LossKinds& loss_kinds();

/// The options of one kind: a HuberLoss ... By default the mean square error.
using LossKind = KindOf<loss_kinds>;

template <ValueLoss Options>
void add_loss(LossKinds& kinds, std::string name, std::string doc) {
  kinds.add<Options>(std::move(name), std::move(doc),
                     [](const Options& options, const Variable& output, const Tensor& targets) {
                       return options.loss(output, targets);
                     });
}

/// Adds a loss of your own to decks, as `kind = "name"`, and so to Regression:
///   train::register_loss<LogCosh>("log_cosh", "the logarithm of the errors' cosh");
/// Call once per process, before decks are read or options used. `doc` is one line for the
/// reference. Throws Error if the name, or the options, are another kind's.
template <ValueLoss Options>
void register_loss(std::string name, std::string doc) {
  add_loss<Options>(loss_kinds(), std::move(name), std::move(doc));
}

/// The mean of the squared errors.
struct MseLoss {
  [[nodiscard]] static Variable loss(const Variable& output, const Tensor& targets);
};
inline void declare(DeckTable& /*table*/, MseLoss& /*options*/) {}

/// The mean of the absolute errors.
struct MaeLoss {
  [[nodiscard]] static Variable loss(const Variable& output, const Tensor& targets);
};
inline void declare(DeckTable& /*table*/, MaeLoss& /*options*/) {}

/// Squares of errors below `delta`, absolute values of larger ones.
struct HuberLoss {
  double delta = 1.0;  ///< error at which the loss becomes linear

  [[nodiscard]] Variable loss(const Variable& output, const Tensor& targets) const;
};
void declare(DeckTable& table, HuberLoss& options);

/// HuberLoss, divided by `delta`.
struct SmoothL1Loss {
  double delta = 1.0;  ///< PyTorch's beta

  [[nodiscard]] Variable loss(const Variable& output, const Tensor& targets) const;
};
void declare(DeckTable& table, SmoothL1Loss& options);

/// For models that output a mean and a variance of each value (ModelSignature::Output::gaussian),
/// [N, 2 K, ...] for targets [N, K, ...].
struct GaussianNllLoss {
  [[nodiscard]] static Variable loss(const Variable& output, const Tensor& targets);
  [[nodiscard]] static Variable means(const Variable& output);
};
inline void declare(DeckTable& /*table*/, GaussianNllLoss& /*options*/) {}

}  // namespace lockstep::train
