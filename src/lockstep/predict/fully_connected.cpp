#include <lockstep/predict/fully_connected.hpp>

#include <typeinfo>

#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep {
namespace {

// A class derived from a layer may compute something else, so exact types are compared.
template <class Layer>
const Layer* as(const nn::Module& module) {
  return typeid(module) == typeid(Layer) ? static_cast<const Layer*>(&module) : nullptr;
}

/// Appends the layers of `module`; false if it has any other layer.
bool append(const nn::Module& module, FullyConnected& network) {
  if (network.log_softmax) return false;  // no layer may follow it
  if (as<nn::Sequential>(module)) {
    for (const auto& [name, child] : module.children())
      if (!append(*child, network)) return false;
    return true;
  }
  if (const auto* linear = as<nn::Linear>(module)) {
    const Tensor bias = linear->bias().defined() ? linear->bias().data() : Tensor();
    network.layers.push_back({linear->weight().data(), bias, false});
    return linear->weight().data().dtype() == DType::f32;
  }
  if (as<nn::Flatten>(module)) {
    network.flattens = true;
    return network.layers.empty();
  }
  if (as<nn::Identity>(module) || as<nn::Dropout>(module)) return true;
  if (as<nn::ReLU>(module)) {
    if (network.layers.empty()) return false;
    network.layers.back().relu = true;
    return true;
  }
  if (const auto* last = as<nn::LogSoftmax>(module)) {
    network.log_softmax = true;
    return !network.layers.empty() && (last->dim() == -1 || last->dim() == 1);
  }
  return false;
}

}  // namespace

std::optional<FullyConnected> fully_connected(const nn::Module& model) {
  FullyConnected network;
  if (!append(model, network) || network.layers.empty()) return std::nullopt;
  return network;
}

}  // namespace lockstep
