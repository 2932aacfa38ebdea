#pragma once
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <lockstep/deck/kinds.hpp>
#include <lockstep/nn/models/head.hpp>
#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// The sizes that a model must fit.
struct ModelFit {
  Shape sample;  ///< without the batch dimension
  Shape output;  ///< [classes], of each token for gpt, or values of any shape
  Head head = Head::log_probabilities;
  std::optional<DType> input = {};  ///< numbers are f32, indices i64; none: not known

  /// Elements that the model gives for a sample, as most kinds do in one dimension.
  [[nodiscard]] std::int64_t outputs() const {
    return output.numel() * (head == Head::gaussian ? 2 : 1);
  }
  [[nodiscard]] bool has_numbers() const { return input && *input == DType::f32; }
  /// Throws InputError for indices.
  void expect_numbers() const;
};

/// The options of a kind of model, which make it: make(fit) throws InputError if they do not fit.
template <class Options>
concept ModelMaker = DeclaredOptions<Options> &&
    requires(const Options& options, const ModelFit& fit) {
  { options.make(fit) } -> std::convertible_to<std::shared_ptr<Module>>;
};

/// Models by their names in decks.
using ModelKinds = Kinds<std::shared_ptr<Module>(const ModelFit&)>;

/// All values of `[model] kind`: Lockstep's own, then those of register_model.
[[nodiscard]] ModelKinds& model_kinds();

/// The options of one of them: an MlpOptions, a UNetOptions ... By default the convnet's.
using ModelKind = KindOf<model_kinds>;

template <ModelMaker Options>
void add_model(ModelKinds& kinds, std::string name, std::string doc) {
  kinds.add<Options>(std::move(name), std::move(doc),
                     [](const Options& options, const ModelFit& fit) { return options.make(fit); });
}

/// Makes a user-defined model known to decks, as `kind = "name"`, and to make_model:
///   nn::register_model<HighwayOptions>("highway", "linear layers with gates");
/// Once a process, before a deck is read or options are used. `doc` is its line in the reference.
/// Throws Error if the name, or the options, are another kind's.
template <ModelMaker Options>
void register_model(std::string name, std::string doc) {
  add_model<Options>(model_kinds(), std::move(name), std::move(doc));
}

}  // namespace lockstep::nn
