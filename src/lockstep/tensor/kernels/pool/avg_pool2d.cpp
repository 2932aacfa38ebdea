#include <lockstep/tensor/kernels/pool/avg_pool2d.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/pool/pool2d_window.hpp>

namespace lockstep {
namespace {

using detail::AdaptiveWindow;
using detail::planes_of;
using detail::StridedWindow;

// `divisor` is the number of elements of a window, or 0 for the number of those inside the plane.

template <class T, class Window, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Window& window, double divisor,
                    const Tensor& y) {
  const auto in = planes_of<Space, const T>(x);
  const auto out = planes_of<Space, T>(y);
  const std::int64_t height = x.size(2), width = x.size(3);
  const std::int64_t out_height = y.size(2), out_width = y.size(3);
  for_each_row(
      "lockstep::avg_pool2d_forward", space, y.size(0) * y.size(1) * out_height, out_width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t plane = r / out_height, oh = r % out_height;
        const std::int64_t h_begin = window.begin(oh, height, out_height),
                           h_end = window.end(oh, height, out_height);
        lanes.each([&](std::int64_t ow) {
          const std::int64_t w_begin = window.begin(ow, width, out_width),
                             w_end = window.end(ow, width, out_width);
          double total = 0;
          for (std::int64_t h = h_begin; h < h_end; ++h) {
            for (std::int64_t w = w_begin; w < w_end; ++w)
              total += static_cast<SumOf<T>>(in(plane, h, w));
          }
          const auto area = static_cast<double>((h_end - h_begin) * (w_end - w_begin));
          const double mean = total / (divisor > 0 ? divisor : area);
          out(plane, oh, ow) = static_cast<T>(static_cast<SumOf<T>>(mean));
        });
      });
}

// As in max_pool2d, every input element collects from the windows that contain it.
template <class T, class Window, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Window& window, double divisor,
                     bool accumulate, const Tensor& grad_x) {
  const auto g = planes_of<Space, const T>(grad_y);
  const auto result = planes_of<Space, T>(grad_x);
  const std::int64_t height = grad_x.size(2), width = grad_x.size(3);
  const std::int64_t out_height = grad_y.size(2), out_width = grad_y.size(3);
  for_each_row(
      "lockstep::avg_pool2d_backward", space, grad_x.size(0) * grad_x.size(1) * height, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t plane = r / height, h = r % height;
        const std::int64_t oh_begin = window.first_over(h, height, out_height),
                           oh_end = window.end_over(h, height, out_height);
        lanes.each([&](std::int64_t w) {
          const std::int64_t ow_begin = window.first_over(w, width, out_width),
                             ow_end = window.end_over(w, width, out_width);
          double total = 0;
          for (std::int64_t oh = oh_begin; oh < oh_end; ++oh) {
            const std::int64_t rows =
                window.end(oh, height, out_height) - window.begin(oh, height, out_height);
            for (std::int64_t ow = ow_begin; ow < ow_end; ++ow) {
              const std::int64_t columns =
                  window.end(ow, width, out_width) - window.begin(ow, width, out_width);
              const double gradient = static_cast<SumOf<T>>(g(plane, oh, ow));
              total += gradient / (divisor > 0 ? divisor : static_cast<double>(rows * columns));
            }
          }
          using Wide = SumOf<T>;
          const Wide before = accumulate ? static_cast<Wide>(result(plane, h, w)) : Wide{0};
          result(plane, h, w) = static_cast<T>(before + static_cast<Wide>(total));
        });
      });
}

template <class Window>
void forward(const Tensor& x, const Window& window, double divisor, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "avg_pool2d",
                    [&]<class T>() { forward_kernel<T>(space, x, window, divisor, y); });
  });
}

template <class Window>
void backward(const Tensor& grad_y, const Window& window, double divisor, bool accumulate,
              const Tensor& grad_x) {
  dispatch(current_stream(grad_x.device()), [&](const auto& space) {
    dispatch_stored(grad_x.dtype(), "avg_pool2d", [&]<class T>() {
      backward_kernel<T>(space, grad_y, window, divisor, accumulate, grad_x);
    });
  });
}

double divisor_of(const SquareWindow& options, bool count_include_pad) {
  return count_include_pad ? static_cast<double>(options.kernel * options.kernel) : 0.0;
}

}  // namespace

Shape avg_pool2d_shape(const Shape& x, const SquareWindow& options) {
  return detail::pool2d_shape("avg_pool2d", x, options);
}

void avg_pool2d_forward(const Tensor& x, const SquareWindow& options, bool count_include_pad,
                        const Tensor& y) {
  forward(x, StridedWindow(options), divisor_of(options, count_include_pad), y);
}

void avg_pool2d_backward(const Tensor& grad_y, const SquareWindow& options, bool count_include_pad,
                         bool accumulate, const Tensor& grad_x) {
  backward(grad_y, StridedWindow(options), divisor_of(options, count_include_pad), accumulate,
           grad_x);
}

Shape adaptive_avg_pool2d_shape(const Shape& x, std::int64_t size) {
  if (x.dims() != 4 || x[2] < 1 || x[3] < 1 || size < 1) {
    throw ShapeError("adaptive_avg_pool2d of " + to_string(x) + " to size " + std::to_string(size) +
                     ": the input must be [N, C, H, W] with H, W and size at least 1");
  }
  return {x[0], x[1], size, size};
}

void adaptive_avg_pool2d_forward(const Tensor& x, const Tensor& y) {
  forward(x, AdaptiveWindow(), 0.0, y);
}

void adaptive_avg_pool2d_backward(const Tensor& grad_y, bool accumulate, const Tensor& grad_x) {
  backward(grad_y, AdaptiveWindow(), 0.0, accumulate, grad_x);
}

}  // namespace lockstep
