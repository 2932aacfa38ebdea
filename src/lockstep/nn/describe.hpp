#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include <lockstep/nn/module.hpp>

namespace lockstep::nn {

/// The name of the module's class, such as "Conv2d".
[[nodiscard]] std::string class_name_of(const Module& module);

/// One layer, in the order in which forward runs it.
struct LayerDescription {
  std::string name;             ///< dotted, as in state_dict()
  std::string type;             ///< its class: "Conv2d"
  Shape output;                 ///< for one sample, without the batch dimension
  std::int64_t parameters = 0;  ///< elements of its own parameters, without its children's
  std::int64_t flops = 0;       ///< of the forward of one sample (FlopCounter), children's left out
  bool is_seen = true;  ///< false: never called as module(x), so output and flops are not known
};

/// The layers that hold parameters or have no children, found by running the forward on one sample
/// of zeros of shape `sample` (without the batch dimension) and that dtype. Modules with parameters
/// of their own that are called by forward(), not as module(x), are last. In evaluation mode; the
/// mode of each module is put back.
[[nodiscard]] std::vector<LayerDescription> describe_layers(Module& model, const Shape& sample,
                                                            DType dtype = DType::f32);
/// For a model whose forward takes other inputs: `forward` runs it on one sample and returns the
/// output.
[[nodiscard]] std::vector<LayerDescription> describe_layers(
    Module& model, const std::function<Variable()>& forward);

}  // namespace lockstep::nn
