#include <lockstep/tensor/kernels/conv/conv3d.hpp>

#include <array>
#include <string_view>

#include <fmt/core.h>

#include <lockstep/base/error.hpp>

namespace lockstep {

Shape conv3d_shape(const Tensor& x, const Tensor& weight, const Tensor& bias,
                   const Conv3dOptions& o) {
  const auto complain = [&](std::string_view why) {
    throw ShapeError(fmt::format(
        "conv3d of x {} with weight {}{}, stride {} x {} x {}, padding {} x {} x {}, dilation {} x "
        "{} x {}, groups {}: {}",
        describe(x), describe(weight), bias.defined() ? " and bias " + describe(bias) : "",
        o.stride[0], o.stride[1], o.stride[2], o.padding[0], o.padding[1], o.padding[2],
        o.dilation[0], o.dilation[1], o.dilation[2], o.groups, why));
  };
  if (x.dims() != 5 || weight.dims() != 5) {
    complain("x must be [N, C, D, H, W] and weight [O, C / groups, kd, kh, kw]");
  }
  if (o.groups < 1) complain("groups are at least 1");
  if (weight.size(0) % o.groups != 0 || x.size(1) != weight.size(1) * o.groups) {
    complain("the channels of x and weight do not match");
  }
  if (bias.defined() && bias.shape() != Shape{weight.size(0)}) complain("the bias must be [O]");
  if (weight.dtype() != x.dtype() || (bias.defined() && bias.dtype() != x.dtype())) {
    complain("the dtypes differ");
  }
  std::array<std::int64_t, 5> shape{x.size(0), weight.size(0)};
  for (std::size_t d = 0; d < 3; ++d) {
    const auto dimension = static_cast<int>(d) + 2;
    if (o.stride[d] < 1 || o.dilation[d] < 1 || o.padding[d] < 0) {
      complain("stride and dilation are at least 1, padding at least 0");
    }
    if (weight.size(dimension) < 1) complain("the kernel is empty");
    const std::int64_t room =
        x.size(dimension) + 2 * o.padding[d] - o.dilation[d] * (weight.size(dimension) - 1) - 1;
    if (room < 0) complain("the kernel is larger than the padded input");
    shape[d + 2] = room / o.stride[d] + 1;
  }
  return Shape(shape);
}

}  // namespace lockstep
