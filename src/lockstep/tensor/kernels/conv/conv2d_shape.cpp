#include <string_view>

#include <fmt/core.h>

#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>

namespace lockstep {

Shape conv2d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv2dOptions& o) {
  const auto complain = [&](std::string_view why) {
    throw ShapeError(fmt::format(
        "conv2d of x {} with weight {}{}, stride {} x {}, padding {} x {}, dilation {} x {}, "
        "groups {}: {}",
        describe(x), describe(weight), bias.defined() ? " and bias " + describe(bias) : "",
        o.stride[0], o.stride[1], o.padding[0], o.padding[1], o.dilation[0], o.dilation[1],
        o.groups, why));
  };
  const Shape in = plain_shape(x);
  if (in.dims() != 4 || weight.dims() != 4) {
    complain("x must be [N, C, H, W] and weight [O, C / groups, kh, kw]");
  }
  if (o.groups < 1 || o.stride[0] < 1 || o.stride[1] < 1 || o.dilation[0] < 1 ||
      o.dilation[1] < 1 || o.padding[0] < 0 || o.padding[1] < 0) {
    complain("stride, dilation and groups are at least 1, padding at least 0");
  }
  if (weight.size(0) % o.groups != 0 || in[1] != weight.size(1) * o.groups) {
    complain("the channels of x and weight do not match");
  }
  if (weight.size(2) < 1 || weight.size(3) < 1) complain("the kernel is empty");
  if (bias.defined() && bias.shape() != Shape{weight.size(0)}) complain("the bias must be [O]");
  if (weight.dtype() != x.dtype() || (bias.defined() && bias.dtype() != x.dtype())) {
    complain("the dtypes differ");
  }
  const auto extent = [&](std::size_t d, std::int64_t size, std::int64_t kernel) {
    const std::int64_t room = size + 2 * o.padding[d] - o.dilation[d] * (kernel - 1) - 1;
    if (room < 0) complain("the kernel is larger than the padded input");
    return room / o.stride[d] + 1;
  };
  return {in[0], weight.size(0), extent(0, in[2], weight.size(2)),
          extent(1, in[3], weight.size(3))};
}

}  // namespace lockstep
