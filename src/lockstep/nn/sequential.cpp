#include <lockstep/nn/sequential.hpp>

#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/nn/forward_hook.hpp>
#include <lockstep/nn/layers.hpp>

namespace lockstep::nn {

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
  for (std::size_t child = 0; child < children().size(); child += stages_.back()) {
    stages_.push_back(fusible_from(child));
  }
}

std::size_t Sequential::fusible_from(std::size_t child) const {
  const auto is = [&]<class Layer>(std::size_t i, const Layer*) {
    return i < children().size() && dynamic_cast<const Layer*>(children()[i].second.get());
  };
  if (is(child, static_cast<BatchNorm*>(nullptr)) && is(child + 1, static_cast<ReLU*>(nullptr))) {
    return 2;
  }
  std::size_t next = child;
  if (!is(next++, static_cast<Conv2d*>(nullptr))) return 1;
  if (is(next, static_cast<Dropout2d*>(nullptr))) ++next;
  if (!is(next++, static_cast<MaxPool2d*>(nullptr))) return 1;
  if (!is(next++, static_cast<ReLU*>(nullptr))) return 1;
  return next - child;
}

Variable Sequential::forward_fused(std::size_t child, std::size_t count, const Variable& x) {
  const auto layer = [&](std::size_t i) { return children()[child + i].second.get(); };
  if (count == 2) return static_cast<BatchNorm&>(*layer(0)).forward(x, {}, true);
  const auto& conv = static_cast<const Conv2d&>(*layer(0));
  const auto& pool = static_cast<const MaxPool2d&>(*layer(count - 2));
  Tensor channel_scale;
  if (count == 4) {
    const auto& dropout = static_cast<const Dropout2d&>(*layer(1));
    channel_scale = dropout.channel_scale(x.shape()[0], conv.weight().shape()[0], x.data().dtype());
  }
  return conv2d_max_pool2d_relu(from_channel_blocks(x), conv.weight(), conv.bias(), conv.options(),
                                pool.options(), channel_scale);
}

Variable Sequential::forward(const Variable& x) { return from_channel_blocks(forward_blocked(x)); }

Variable Sequential::forward_blocked(const Variable& x) {
  Variable value = x;
  if (ForwardHook::current()) {  // which is to see every child
    for (const auto& [name, child] : children()) value = (*child)(value);
    return value;
  }
  std::size_t child = 0;
  for (const std::size_t count : stages_) {
    value = count == 1 ? children()[child].second->forward_blocked(value)
                       : forward_fused(child, count, value);
    child += count;
  }
  return value;
}

}  // namespace lockstep::nn
