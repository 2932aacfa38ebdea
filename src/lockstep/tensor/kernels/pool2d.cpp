#include <lockstep/tensor/kernels/pool2d.hpp>

#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

KOKKOS_INLINE_FUNCTION std::int64_t larger(std::int64_t a, std::int64_t b) { return a > b ? a : b; }
KOKKOS_INLINE_FUNCTION std::int64_t smaller(std::int64_t a, std::int64_t b) {
  return a < b ? a : b;
}

/// The window as the kernels see it. `Fixed` > 0: kernel = stride = Fixed without padding, known
/// to the compiler, whose loops then vectorise (2 x 2 is in every small image network).
template <int Fixed>
struct Window {
  std::int64_t kernel, stride, padding;
  explicit Window(const Pool2dOptions& o)
      : kernel(o.kernel), stride(o.stride), padding(o.padding) {}

  /// The input positions [begin, end) of window o, without padding; `size` is the input's extent.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t begin(std::int64_t o) const {
    return Fixed > 0 ? o * Fixed : larger(o * stride - padding, 0);
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end(std::int64_t o, std::int64_t size) const {
    return Fixed > 0 ? o * Fixed + Fixed : smaller(o * stride - padding + kernel, size);
  }
  /// The windows [first_over, end_over) that reach position i, out of `count`.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t first_over(std::int64_t i) const {
    if (Fixed > 0) return i / larger(Fixed, 1);
    const std::int64_t reach = i + padding - kernel + 1;
    return reach <= 0 ? 0 : (reach + stride - 1) / stride;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t end_over(std::int64_t i, std::int64_t count) const {
    return smaller(Fixed > 0 ? i / larger(Fixed, 1) + 1 : (i + padding) / stride + 1, count);
  }
};

template <int Fixed, class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Pool2dOptions& options,
                    const Tensor& y, const Tensor& indices) {
  const std::int64_t planes = x.size(0) * x.size(1), height = x.size(2), width = x.size(3);
  const std::int64_t out_height = y.size(2), out_width = y.size(3);
  const auto in = view<Space, const T, 3>(x.reshape({planes, height, width}));
  const auto out = view<Space, T, 3>(y.reshape({planes, out_height, out_width}));
  const auto chosen =
      view<Space, std::int32_t, 3>(indices.reshape({planes, out_height, out_width}));
  const Window<Fixed> window(options);
  for_each_row(
      "lockstep::max_pool2d_forward", space, planes * out_height, out_width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t plane = r / out_height, oh = r % out_height;
        const std::int64_t h_begin = window.begin(oh), h_end = window.end(oh, height);
        lanes.each([&](std::int64_t ow) {
          const std::int64_t w_begin = window.begin(ow), w_end = window.end(ow, width);
          T best = -std::numeric_limits<T>::infinity();
          std::int64_t at = h_begin * width + w_begin;
          for (std::int64_t h = h_begin; h < h_end; ++h) {
            for (std::int64_t w = w_begin; w < w_end; ++w) {
              const T value = in(plane, h, w);
              const bool wins = value > best || value != value;
              best = wins ? value : best;
              at = wins ? h * width + w : at;
            }
          }
          out(plane, oh, ow) = best;
          chosen(plane, oh, ow) = static_cast<std::int32_t>(at);
        });
      });
}

// Every input element collects from the windows over it, so no two of them write one place and the
// order of additions is fixed.
template <int Fixed, class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& indices,
                     const Pool2dOptions& options, bool accumulate, const Tensor& grad_x) {
  const std::int64_t planes = grad_x.size(0) * grad_x.size(1);
  const std::int64_t height = grad_x.size(2), width = grad_x.size(3);
  const std::int64_t out_height = grad_y.size(2), out_width = grad_y.size(3);
  const auto g = view<Space, const T, 3>(grad_y.reshape({planes, out_height, out_width}));
  const auto chosen =
      view<Space, const std::int32_t, 3>(indices.reshape({planes, out_height, out_width}));
  const auto result = view<Space, T, 3>(grad_x.reshape({planes, height, width}));
  const Window<Fixed> window(options);
  for_each_row(
      "lockstep::max_pool2d_backward", space, planes * height, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t plane = r / height, h = r % height;
        const std::int64_t oh_begin = window.first_over(h);
        const std::int64_t oh_end = window.end_over(h, out_height);
        lanes.each([&](std::int64_t w) {
          const auto me = static_cast<std::int32_t>(h * width + w);
          const std::int64_t ow_end = window.end_over(w, out_width);
          T total = accumulate ? result(plane, h, w) : T{0};
          for (std::int64_t oh = oh_begin; oh < oh_end; ++oh) {
            for (std::int64_t ow = window.first_over(w); ow < ow_end; ++ow) {
              if (chosen(plane, oh, ow) == me) total += g(plane, oh, ow);
            }
          }
          result(plane, h, w) = total;
        });
      });
}

bool is_plain_2x2(const Pool2dOptions& o) {
  return o.kernel == 2 && o.stride == 2 && o.padding == 0;
}

}  // namespace

Shape max_pool2d_shape(const Shape& x, const Pool2dOptions& o) {
  const auto complain = [&](const char* why) {
    throw ShapeError("max_pool2d of " + to_string(x) + " with kernel " + std::to_string(o.kernel) +
                     ", stride " + std::to_string(o.stride) + ", padding " +
                     std::to_string(o.padding) + ": " + why);
  };
  if (x.dims() != 4) complain("the input must be [N, C, H, W]");
  if (o.kernel < 1 || o.stride < 1 || o.padding < 0) {
    complain("kernel and stride are at least 1, padding at least 0");
  }
  if (o.padding > o.kernel / 2) complain("padding is at most half the kernel");
  const auto extent = [&](std::int64_t size) {
    if (size + 2 * o.padding < o.kernel) complain("the window is larger than the padded input");
    return (size + 2 * o.padding - o.kernel) / o.stride + 1;
  };
  if (x[2] * x[3] > std::numeric_limits<std::int32_t>::max()) {
    complain("a plane has more elements than a 32-bit index reaches");
  }
  return {x[0], x[1], extent(x[2]), extent(x[3])};
}

void max_pool2d_forward(const Tensor& x, const Pool2dOptions& options, const Tensor& y,
                        const Tensor& indices) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "max_pool2d", [&]<class T>() {
      if (is_plain_2x2(options)) {
        forward_kernel<2, T>(space, x, options, y, indices);
      } else {
        forward_kernel<0, T>(space, x, options, y, indices);
      }
    });
  });
}

void max_pool2d_backward(const Tensor& grad_y, const Tensor& indices, const Pool2dOptions& options,
                         bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(grad_x.device()), [&](const auto& space) {
    dispatch_floating(grad_x.dtype(), "max_pool2d", [&]<class T>() {
      if (is_plain_2x2(options)) {
        backward_kernel<2, T>(space, grad_y, indices, options, accumulate, grad_x);
      } else {
        backward_kernel<0, T>(space, grad_y, indices, options, accumulate, grad_x);
      }
    });
  });
}

}  // namespace lockstep
