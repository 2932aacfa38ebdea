#include <lockstep/nn/layers/pool.hpp>

#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/nn/blocked_layer.hpp>

namespace lockstep::nn {
namespace {

/// The host pools plain images only.
Variable pool_in_blocks(Module& module, const Variable& x) {
  return module.forward(x.data().device().type == DeviceType::host ? from_channel_blocks(x) : x);
}

template <class... Pools>
bool add_pools() {
  return (add_blocked_layer(typeid(Pools), pool_in_blocks) && ...);
}

[[maybe_unused]] const bool pools_are_known =
    add_pools<MaxPool2d, AvgPool2d, AdaptiveMaxPool2d, AdaptiveAvgPool2d>();

}  // namespace

template <std::size_t dims>
Variable MaxPool<dims>::forward(const Variable& x) {
  return max_pool(x, options_);
}

template <std::size_t dims>
Variable AvgPool<dims>::forward(const Variable& x) {
  return avg_pool(x, options_, count_include_pad_, divisor_override_);
}

template <std::size_t dims>
Variable AdaptiveMaxPool<dims>::forward(const Variable& x) {
  return adaptive_max_pool(x, output_size_);
}

template <std::size_t dims>
Variable AdaptiveAvgPool<dims>::forward(const Variable& x) {
  return adaptive_avg_pool(x, output_size_);
}

template class MaxPool<1>;
template class MaxPool<2>;
template class MaxPool<3>;
template class AvgPool<1>;
template class AvgPool<2>;
template class AvgPool<3>;
template class AdaptiveMaxPool<1>;
template class AdaptiveMaxPool<2>;
template class AdaptiveMaxPool<3>;
template class AdaptiveAvgPool<1>;
template class AdaptiveAvgPool<2>;
template class AdaptiveAvgPool<3>;

}  // namespace lockstep::nn
