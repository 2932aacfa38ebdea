#include <lockstep/nn/models/mlp.hpp>

#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {
namespace {

void add_norm(Sequential& model, MlpLayers::Norm norm, std::int64_t width, const std::string& at) {
  using Norm = MlpLayers::Norm;
  if (norm == Norm::batch) model.push_back("norm" + at, std::make_shared<BatchNorm1d>(width));
  if (norm == Norm::layer) model.push_back("norm" + at, std::make_shared<LayerNorm>(width));
}

}  // namespace

void push_activation(Sequential& model, MlpLayers::Activation activation, const std::string& at) {
  using Activation = MlpLayers::Activation;
  switch (activation) {
    case Activation::relu:
      return model.push_back("relu" + at, std::make_shared<ReLU>());
    case Activation::gelu:
      return model.push_back("gelu" + at, std::make_shared<GELU>());
    case Activation::silu:
      return model.push_back("silu" + at, std::make_shared<SiLU>());
    case Activation::tanh:
      return model.push_back("tanh" + at, std::make_shared<Tanh>());
    case Activation::sigmoid:
      return model.push_back("sigmoid" + at, std::make_shared<Sigmoid>());
  }
  throw Error("internal error: unknown activation");
}

std::shared_ptr<Sequential> mlp(const Shape& sample, std::int64_t outputs,
                                const std::vector<std::int64_t>& hidden, Head head,
                                const MlpLayers& layers) {
  constexpr std::size_t most_layers = 10'000;
  if (hidden.size() > most_layers) {
    throw InputError("model mlp has " + std::to_string(hidden.size()) +
                     " hidden layers, but at most " + std::to_string(most_layers) +
                     " are possible. Shorten model.hidden.");
  }
  auto model = std::make_shared<Sequential>();
  model->push_back("flatten", std::make_shared<Flatten>());
  std::int64_t features = sample.numel();
  int layer = 0;
  const auto add_linear = [&](std::int64_t width) {
    model->push_back("fc" + std::to_string(++layer), std::make_shared<Linear>(features, width));
    features = width;
  };
  for (const std::int64_t width : hidden) {
    add_linear(width);
    const std::string at = std::to_string(layer);
    add_norm(*model, layers.norm, width, at);
    push_activation(*model, layers.activation, at);
    if (layers.dropout > 0.0)
      model->push_back("dropout" + at, std::make_shared<Dropout>(layers.dropout));
  }
  add_linear(outputs);
  if (head == Head::log_probabilities)
    model->push_back("log_softmax", std::make_shared<LogSoftmax>());
  return model;
}

std::shared_ptr<Module> MlpOptions::make(const ModelFit& fit) const {
  fit.expect_numbers();
  return mlp(fit.sample, fit.outputs(), hidden, fit.head, layers);
}

void declare_norm_and_activation(DeckTable& table, MlpLayers& layers, std::string_view norm_doc) {
  using Norm = MlpLayers::Norm;
  using Activation = MlpLayers::Activation;
  table.choice("norm", layers.norm,
               {{"none", Norm::none}, {"batch", Norm::batch}, {"layer", Norm::layer}}, norm_doc);
  table.choice("activation", layers.activation,
               {{"relu", Activation::relu},
                {"gelu", Activation::gelu},
                {"silu", Activation::silu},
                {"tanh", Activation::tanh},
                {"sigmoid", Activation::sigmoid}},
               "activation after each hidden layer");
}

void declare(DeckTable& table, MlpOptions& options) {
  table.key("hidden", options.hidden,
            {.doc = "features of each hidden layer; at most 10,000 layers", .min = 1, .max = 1e6});
  declare_norm_and_activation(table, options.layers, "normalisation behind each hidden layer");
  table.key("hidden_dropout", options.layers.dropout,
            {.doc = "dropout probability after each hidden layer", .min = 0.0, .max = 0.99});
}

}  // namespace lockstep::nn
