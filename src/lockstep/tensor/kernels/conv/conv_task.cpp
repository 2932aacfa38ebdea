#include <lockstep/tensor/kernels/conv/conv_task.hpp>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/conv/conv_device.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep::detail {
namespace {

template <class T>
const T* elements(const HostArray& t) {
  return static_cast<const T*>(t.data());
}

// Chosen by shape, never by timing. Measured on one Zen 5 core in f32 (benchmarks/tensor,
// conv2d_*): from 16 channels on oneDNN is 1.2 to 2 times as fast as im2col, and 6 times or more
// with many groups or for a weight gradient of few channels. Its input gradient pads few channels
// to whole vectors: 4.3 ms against 0.4 ms for conv 1 -> 10, 3.6 against 1.1 ms for 3 -> 64.
bool use_onednn(const Conv2dProblem& p) { return p.n > 0 && p.takes_all_windows(); }
bool use_onednn_for_input_gradient(const Conv2dProblem& p) {
  constexpr std::int64_t vector_width = 16;
  return use_onednn(p) &&
         (p.is_3d || p.options.groups > 1 || p.c >= vector_width || p.x_blocked || p.y_blocked);
}

}  // namespace

const char* name_of(const Conv2dProblem& problem) noexcept {
  return problem.is_3d ? "conv3d" : "conv2d";
}

void run_forward(const Conv2dProblem& problem, const Tensor& x, const Tensor& weight,
                 const Tensor& bias, const Tensor& y) {
  if (auto* const gpu = math::device_math(x.device())) [[unlikely]] {
    return forward_on_device(*gpu, problem, x, weight, bias, y);
  }
  dispatch_floating(x.dtype(), name_of(problem), [&]<class T>() {
    host_task(
        name_of(problem),
        [problem](const HostArray& x, const HostArray& weight, const HostArray& bias,
                  const HostArray& y) {
          const T *const in = elements<T>(x), *const w = elements<T>(weight),
                         *const b = elements<T>(bias);
          auto* const out = static_cast<T*>(y.data());
          if constexpr (std::is_same_v<T, float>) {
            if (use_onednn(problem)) return onednn::forward(problem, in, w, b, out);
          }
          im2col::forward(problem, in, w, b, out);
        },
        x, weight, bias, y);
  });
}

void run_backward_input(const Conv2dProblem& problem, const Tensor& grad_y, const Tensor& weight,
                        bool accumulate, const Tensor& grad_x) {
  if (auto* const gpu = math::device_math(grad_y.device())) [[unlikely]] {
    return backward_input_on_device(*gpu, problem, grad_y, weight, accumulate, grad_x);
  }
  dispatch_floating(grad_y.dtype(), name_of(problem), [&]<class T>() {
    host_task(
        name_of(problem),
        [problem, accumulate](const HostArray& grad_y, const HostArray& weight,
                              const HostArray& grad_x) {
          const T *const g = elements<T>(grad_y), *const w = elements<T>(weight);
          auto* const out = static_cast<T*>(grad_x.data());
          if constexpr (std::is_same_v<T, float>) {
            if (use_onednn_for_input_gradient(problem)) {
              return onednn::backward_input(problem, g, w, accumulate, out);
            }
          }
          im2col::backward_input(problem, g, w, accumulate, out);
        },
        grad_y, weight, grad_x);
  });
}

void run_backward_weight(const Conv2dProblem& problem, const Tensor& grad_y, const Tensor& x,
                         bool accumulate, const Tensor& grad_weight) {
  if (auto* const gpu = math::device_math(grad_y.device())) [[unlikely]] {
    return backward_weight_on_device(*gpu, problem, grad_y, x, accumulate, grad_weight,
                                     samples_a_call(problem));
  }
  dispatch_floating(grad_y.dtype(), name_of(problem), [&]<class T>() {
    host_task(
        name_of(problem),
        [problem, accumulate](const HostArray& grad_y, const HostArray& x,
                              const HostArray& grad_weight) {
          const T *const g = elements<T>(grad_y), *const in = elements<T>(x);
          auto* const out = static_cast<T*>(grad_weight.data());
          if constexpr (std::is_same_v<T, float>) {
            if (use_onednn(problem)) {
              return onednn::backward_weight(problem, g, in, accumulate, out);
            }
          }
          im2col::backward_weight(problem, g, in, accumulate, out);
        },
        grad_y, x, grad_weight);
  });
}

}  // namespace lockstep::detail
