#include <lockstep/nn/layers/conv_nd.hpp>

#include <array>
#include <span>
#include <string>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/expect.hpp>
#include <lockstep/nn/init.hpp>

namespace lockstep::nn {
namespace {

/// [first, second / groups, kernel...]. Throws unless all sizes are positive and the groups divide
/// both.
Shape weight_shape(const char* layer, std::int64_t first, std::int64_t second,
                   std::span<const std::int64_t> kernel, std::int64_t groups) {
  expect_positive(layer, "in_channels", first);
  expect_positive(layer, "out_channels", second);
  expect_positive(layer, "groups", groups);
  std::array<std::int64_t, 5> extents{first, second / groups};
  std::size_t dims = 2;
  for (const std::int64_t extent : kernel) {
    expect_positive(layer, "kernel", extent);
    extents[dims++] = extent;
  }
  if (first % groups != 0 || second % groups != 0) {
    throw InputError(std::string(layer) + ": groups (" + std::to_string(groups) +
                     ") must divide in_channels and out_channels (" + std::to_string(first) +
                     " and " + std::to_string(second) + ", in either order)");
  }
  return Shape(std::span<const std::int64_t>(extents.data(), dims));
}

std::int64_t fan_in(const Shape& weight) { return weight.numel() / weight[0]; }

}  // namespace

Conv1d::Conv1d(std::int64_t in_channels, std::int64_t out_channels, const Extents<1>& kernel,
               const Conv1dOptions& options, bool bias)
    : options_(options) {
  const Shape shape = weight_shape("Conv1d", out_channels, in_channels, kernel, options.groups);
  weight_ = register_parameter("weight", default_weight(shape));
  if (bias) bias_ = register_parameter("bias", default_bias(out_channels, fan_in(shape)));
}

Variable Conv1d::forward(const Variable& x) { return conv1d(x, weight_, bias_, options_); }

Conv3d::Conv3d(std::int64_t in_channels, std::int64_t out_channels, const Extents<3>& kernel,
               const Conv3dOptions& options, bool bias)
    : options_(options) {
  const Shape shape = weight_shape("Conv3d", out_channels, in_channels, kernel, options.groups);
  weight_ = register_parameter("weight", default_weight(shape));
  if (bias) bias_ = register_parameter("bias", default_bias(out_channels, fan_in(shape)));
}

Variable Conv3d::forward(const Variable& x) { return conv3d(x, weight_, bias_, options_); }

template <std::size_t dims>
ConvTranspose<dims>::ConvTranspose(std::int64_t in_channels, std::int64_t out_channels,
                                   const Extents<dims>& kernel,
                                   const ConvTransposeOptions<dims>& options, bool bias)
    : options_(options) {
  const Shape shape =
      weight_shape("ConvTranspose", in_channels, out_channels, kernel, options.groups);
  weight_ = register_parameter("weight", default_weight(shape));
  if (bias) bias_ = register_parameter("bias", default_bias(out_channels, fan_in(shape)));
}

template <std::size_t dims>
Variable ConvTranspose<dims>::forward(const Variable& x) {
  if constexpr (dims == 1) {
    return conv_transpose1d(x, weight_, bias_, options_);
  } else if constexpr (dims == 2) {
    return conv_transpose2d(x, weight_, bias_, options_);
  } else {
    return conv_transpose3d(x, weight_, bias_, options_);
  }
}

template class ConvTranspose<1>;
template class ConvTranspose<2>;
template class ConvTranspose<3>;

}  // namespace lockstep::nn
