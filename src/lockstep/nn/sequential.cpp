#include <lockstep/nn/sequential.hpp>

#include <type_traits>
#include <typeinfo>

#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {

const bool Sequential::takes_blocks =
    add_blocked_layer(typeid(Sequential), [](Module& module, const Variable& x) {
      return static_cast<Sequential&>(module).forward_stages(x);
    });

Sequential::Sequential(std::initializer_list<std::shared_ptr<Module>> modules) {
  for (const auto& module : modules) push_back(module);
}

Sequential::Sequential(std::initializer_list<NamedModule> modules) {
  for (const auto& [name, module] : modules) push_back(name, module);
}

void Sequential::push_back(std::shared_ptr<Module> module) {
  push_back(std::to_string(children().size()), std::move(module));
}

void Sequential::push_back(std::string name, std::shared_ptr<Module> module) {
  register_module(std::move(name), std::move(module));
  stages_.clear();
  for (std::size_t child = 0; child < children().size();) {
    stages_.push_back({child, fusion_at(child)});
    child += children_in(stages_.back().fusion);
  }
}

std::size_t Sequential::children_in(Fusion fusion) noexcept {
  switch (fusion) {
    case Fusion::none:
      return 1;
    case Fusion::batch_norm_relu:
      return 2;
    case Fusion::conv_max_pool_relu:
      return 3;
    case Fusion::conv_dropout_max_pool_relu:
      return 4;
  }
  return 1;
}

Sequential::Fusion Sequential::fusion_at(std::size_t child) const {
  // Exactly this class: a derived class may have another forward.
  const auto is = [&]<class Layer>(std::size_t i, std::type_identity<Layer>) {
    if (i >= children().size()) return false;
    const Module& child_there = *children()[i].second;
    return typeid(child_there) == typeid(Layer);
  };
  constexpr std::type_identity<ReLU> relu;
  constexpr std::type_identity<MaxPool2d> max_pool;
  if (is(child, std::type_identity<BatchNorm1d>()) ||
      is(child, std::type_identity<BatchNorm2d>())) {
    return is(child + 1, relu) ? Fusion::batch_norm_relu : Fusion::none;
  }
  if (!is(child, std::type_identity<Conv2d>())) return Fusion::none;
  if (is(child + 1, max_pool) && is(child + 2, relu)) return Fusion::conv_max_pool_relu;
  if (is(child + 1, std::type_identity<Dropout2d>()) && is(child + 2, max_pool) &&
      is(child + 3, relu)) {
    return Fusion::conv_dropout_max_pool_relu;
  }
  return Fusion::none;
}

Variable Sequential::forward_stage(const Stage& stage, const Variable& x) {
  const auto layer = [&](std::size_t i) -> Module& { return *children()[stage.first + i].second; };
  const auto conv_max_pool_relu = [&](const Module& pool, const Tensor& channel_scale) {
    const auto& conv = static_cast<const Conv2d&>(layer(0));
    return conv2d_max_pool2d_relu(from_channel_blocks(x), conv.weight(), conv.bias(),
                                  conv.options(), static_cast<const MaxPool2d&>(pool).options(),
                                  channel_scale);
  };
  const LayerScope scope(layer(0).trace_name());  // for a fused row, the first layer
  // Convolution and pool are fused on the host only; elsewhere images keep their layout.
  const bool is_on_host = x.data().device().type == DeviceType::host;
  const auto one_by_one = [&](std::size_t layers) {
    Variable y = x;
    for (std::size_t i = 0; i < layers; ++i) y = forward_blocked(layer(i), y);
    return y;
  };
  switch (stage.fusion) {
    case Fusion::none:
      break;
    case Fusion::batch_norm_relu:
      return static_cast<BatchNorm&>(layer(0)).forward(x, {}, true);
    case Fusion::conv_max_pool_relu:
      return is_on_host ? conv_max_pool_relu(layer(1), {}) : one_by_one(3);
    case Fusion::conv_dropout_max_pool_relu: {
      if (!is_on_host) return one_by_one(4);
      const std::int64_t channels = static_cast<const Conv2d&>(layer(0)).weight().shape()[0];
      const DType dtype = x.data().dtype();  // the operation widens 16-bit tensors itself
      return conv_max_pool_relu(
          layer(2),
          static_cast<Dropout2d&>(layer(1)).channel_scale(
              x.shape()[0], channels, is_half(dtype) ? DType::f32 : dtype, x.data().device()));
    }
  }
  return forward_blocked(layer(0), x);
}

Variable Sequential::forward(const Variable& x) { return from_channel_blocks(forward_stages(x)); }

Variable Sequential::forward_stages(const Variable& x) {
  Variable value = x;
  if (ForwardHook::is_on_parts_of(*this)) {
    for (const auto& [name, child] : children()) value = (*child)(value);
    return value;
  }
  for (const Stage& stage : stages_) value = forward_stage(stage, value);
  return value;
}

}  // namespace lockstep::nn
