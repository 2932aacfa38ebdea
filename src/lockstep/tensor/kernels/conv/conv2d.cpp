#include <lockstep/tensor/kernels/conv/conv2d.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/conv/channel_sums_device.hpp>
#include <lockstep/tensor/kernels/conv/conv_task.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {

namespace detail {

Conv2dProblem Conv2dProblem::of(const Tensor& x, const Tensor& weight, const Tensor& y,
                                const Conv2dOptions& options) {
  const Shape in = plain_shape(x), kernel = plain_shape(weight), out = plain_shape(y);
  return {in[0],
          in[1],
          in[2],
          in[3],
          kernel[0],
          kernel[2],
          kernel[3],
          out[2],
          out[3],
          options,
          is_channel_blocked(x),
          is_channel_blocked(y)};
}

Conv2dProblem Conv2dProblem::with_all_windows() const {
  const auto all = [](std::int64_t in, std::int64_t taps, std::int64_t stride, std::int64_t padding,
                      std::int64_t dilated) {
    return (in + 2 * padding - dilated * (taps - 1) - 1) / stride + 1;
  };
  const auto& o = options;
  Conv2dProblem whole = *this;
  whole.oh = all(h, kh, o.stride[0], o.padding[0], o.dilation[0]);
  whole.ow = all(w, kw, o.stride[1], o.padding[1], o.dilation[1]);
  if (is_3d) whole.depth.od = all(depth.d, depth.kd, depth.stride, depth.padding, depth.dilation);
  return whole;
}

bool operator==(const Conv2dProblem& a, const Conv2dProblem& b) {
  const auto extents = [](const Conv2dProblem& p) {
    return std::array{p.n, p.c, p.h, p.w, p.o, p.kh, p.kw, p.oh, p.ow, p.options.groups};
  };
  return extents(a) == extents(b) && a.x_blocked == b.x_blocked && a.y_blocked == b.y_blocked &&
         a.options.stride == b.options.stride && a.options.padding == b.options.padding &&
         a.options.dilation == b.options.dilation && a.is_3d == b.is_3d && a.depth == b.depth;
}

}  // namespace detail

namespace {

/// T is the type of grad_y, B that of grad_bias: T or SumOf<T>.
template <class T, class B, class Space>
void bias_kernel(const Space& space, const Tensor& grad_y, bool accumulate,
                 const Tensor& grad_bias) {
  using Sum = SumOf<T>;
  const std::int64_t samples = grad_y.size(0), channels = grad_y.size(1);
  const std::int64_t positions = grad_y.size(2) * grad_y.size(3);
  const auto g = view<Space, const T, 3>(grad_y.reshape({samples, channels, positions}));
  const auto out = view<Space, B, 1>(grad_bias);
  for_each_row(
      "lockstep::conv2d_backward_bias", space, channels, positions,
      KOKKOS_LAMBDA(std::int64_t o, const Lanes<Space>& lanes) {
        Sum total{0};
        for (std::int64_t n = 0; n < samples; ++n) {
          total += lanes.sum([&](std::int64_t p) { return static_cast<Sum>(g(n, o, p)); });
        }
        lanes.once([&] {
          out(o) = static_cast<B>((accumulate ? static_cast<Sum>(out(o)) : Sum{0}) + total);
        });
      });
}

/// The same for an image in channel blocks.
template <class T, class Space>
void blocked_bias_kernel(const Space& space, const Tensor& grad_y, bool accumulate,
                         const Tensor& grad_bias) {
  const std::int64_t samples = grad_y.size(0), blocks = grad_y.size(1), width = grad_y.size(4);
  const std::int64_t positions = grad_y.size(2) * grad_y.size(3);
  const auto g = view<Space, const T, 4>(
      grad_y.with_layout(Layout::plain).reshape({samples, blocks, positions, width}));
  const auto out = view<Space, T, 1>(grad_bias);
  for_each_row(
      "lockstep::conv2d_backward_bias_blocked", space, blocks * width, positions,
      KOKKOS_LAMBDA(std::int64_t o, const Lanes<Space>& lanes) {
        const std::int64_t block = o / width, lane = o % width;
        T total{0};
        for (std::int64_t n = 0; n < samples; ++n) {
          total += lanes.sum([&](std::int64_t p) { return g(n, block, p, lane); });
        }
        lanes.once([&] { out(o) = (accumulate ? out(o) : T{0}) + total; });
      });
}

}  // namespace

void conv2d_forward(const Tensor& x, const Tensor& weight, const Tensor& bias,
                    const Conv2dOptions& options, const Tensor& y) {
  detail::run_forward(detail::Conv2dProblem::of(x, weight, y, options), x, weight, bias, y);
}

void conv2d_backward_input(const Tensor& grad_y, const Tensor& weight, const Conv2dOptions& options,
                           bool accumulate, const Tensor& grad_x) {
  detail::run_backward_input(detail::Conv2dProblem::of(grad_x, weight, grad_y, options), grad_y,
                             weight, accumulate, grad_x);
}

void conv2d_backward_weight(const Tensor& grad_y, const Tensor& x, const Conv2dOptions& options,
                            bool accumulate, const Tensor& grad_weight) {
  detail::run_backward_weight(detail::Conv2dProblem::of(x, grad_weight, grad_y, options), grad_y, x,
                              accumulate, grad_weight);
}

void conv2d_backward_bias(const Tensor& grad_y, bool accumulate, const Tensor& grad_bias) {
  if (math::device_math(grad_y.device())) {
    return detail::channel_sums_on_device(grad_y, accumulate, grad_bias);
  }
  dispatch(current_stream(grad_y.device()), [&](const auto& space) {
    if (is_channel_blocked(grad_y)) {
      return blocked_bias_kernel<float>(space, grad_y, accumulate, grad_bias);
    }
    dispatch_stored(grad_y.dtype(), "conv2d", [&]<class T>() {
      if (grad_bias.dtype() == dtype_of<T>) {
        bias_kernel<T, T>(space, grad_y, accumulate, grad_bias);
      } else {
        bias_kernel<T, SumOf<T>>(space, grad_y, accumulate, grad_bias);
      }
    });
  });
}

}  // namespace lockstep
