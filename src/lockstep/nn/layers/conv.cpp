#include <lockstep/nn/layers/conv.hpp>

#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/blocked_layer.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {
namespace {

Variable conv_in_blocks(Module& module, const Variable& x) {
  const auto& conv = static_cast<const Conv2d&>(module);
  return conv2d(x, conv.weight(), conv.bias(), conv.options(), Layout::channel_blocks);
}

[[maybe_unused]] const bool conv_is_known = add_blocked_layer(typeid(Conv2d), conv_in_blocks);

}  // namespace

Conv2d::Conv2d(std::int64_t in_channels, std::int64_t out_channels, const Extents<2>& kernel,
               const Conv2dOptions& options, bool bias)
    : options_(options) {
  expect_positive("Conv2d", "in_channels", in_channels);
  expect_positive("Conv2d", "out_channels", out_channels);
  expect_positive("Conv2d", "kernel", kernel[0]);
  expect_positive("Conv2d", "kernel", kernel[1]);
  expect_positive("Conv2d", "groups", options.groups);
  if (in_channels % options.groups != 0 || out_channels % options.groups != 0) {
    throw InputError("Conv2d: groups (" + std::to_string(options.groups) +
                     ") must divide in_channels (" + std::to_string(in_channels) +
                     ") and out_channels (" + std::to_string(out_channels) + ")");
  }
  const Shape shape{out_channels, in_channels / options.groups, kernel[0], kernel[1]};
  weight_ = register_parameter("weight", default_weight(shape));
  if (bias)
    bias_ = register_parameter("bias", default_bias(out_channels, shape.numel() / out_channels));
}

Variable Conv2d::forward(const Variable& x) { return conv2d(x, weight_, bias_, options_); }

}  // namespace lockstep::nn
