#pragma once
#include <algorithm>
#include <array>

#include <lockstep/autograd/accumulate.hpp>
#include <lockstep/autograd/functional/conv.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/trilinear.hpp>
#include <lockstep/tensor/kernels/conv/conv2d.hpp>
#include <lockstep/tensor/kernels/conv/conv3d.hpp>

namespace lockstep::detail {

/// Convolutions of images and of volumes by the same names.
struct Images {
  using Options = Conv2dOptions;
  static constexpr const char *name = "conv2d", *transposed_name = "conv_transpose2d";
  static Shape shape(const Tensor& x, const Tensor& weight, const Options& o) {
    return conv2d_shape(x, weight, {}, o);
  }
  static constexpr auto forward = conv2d_forward;
  static constexpr auto backward_input = conv2d_backward_input;
  static constexpr auto backward_weight = conv2d_backward_weight;
};
struct Volumes {
  using Options = Conv3dOptions;
  static constexpr const char *name = "conv3d", *transposed_name = "conv_transpose3d";
  static Shape shape(const Tensor& x, const Tensor& weight, const Options& o) {
    return conv3d_shape(x, weight, {}, o);
  }
  static constexpr auto forward = conv3d_forward;
  static constexpr auto backward_input = conv3d_backward_input;
  static constexpr auto backward_weight = conv3d_backward_weight;
};

/// <x convolved with weight, g>, the operands in this order (trilinear.hpp).
template <class Kind>
struct ConvForm {
  static constexpr bool mixes_layouts = true;
  typename Kind::Options options;

  void derive(int by, const std::array<Tensor, 3>& operands, bool accumulate,
              const Tensor& to) const {
    const auto& [x, weight, g] = operands;
    if (by == 0) return Kind::backward_input(g, weight, options, accumulate, to);
    if (by == 1) return Kind::backward_weight(g, x, options, accumulate, to);
    accumulate_into(to, accumulate, [&](const Tensor& y) {
      Kind::forward(operands[0], operands[1], Tensor(), options, y);
    });
  }
  [[nodiscard]] static const char* name() noexcept { return Kind::name; }
};

/// The gradient of the bias [C] for that of the result, [N,C, ...].
inline Variable channel_sums(const Variable& grad_output) {
  const Shape& shape = grad_output.shape();
  return sum(reshape(grad_output, {shape[0], shape[1],
                                   shape.numel() / std::max<std::int64_t>(shape[0] * shape[1], 1)}),
             {0, 2});
}

/// The part of an operation with inputs x, weight and bias that the form is made of: input i is
/// operands[places[i]], the place that is left holds the gradient of the operation's result. That
/// of the bias is summed over samples and positions.
template <class Kind>
void differentiate_conv(const ConvForm<Kind>& form, const std::array<Variable, 3>& operands,
                        const std::array<int, 2>& places, Differentiation& d) {
  for (const int i : {0, 1}) {
    if (!d.wants(i)) continue;
    const int by = places[static_cast<std::size_t>(i)];
    const Tensor& value = operands[static_cast<std::size_t>(by)].data();
    d.give(i, trilinear_derivative(form, by, operands, Tensor::empty_like(value)));
  }
  if (d.wants(2)) d.give(2, channel_sums(from_channel_blocks(d.grad_output())));
}

}  // namespace lockstep::detail
