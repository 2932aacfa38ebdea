#pragma once
// The two ways of computing a convolution on the host. By dtype and shape, conv_task.cpp chooses
// one.
#include <cstdint>

#include <lockstep/tensor/kernels/conv/conv2d.hpp>

namespace lockstep::detail {

/// The extents of one convolution of images, or of volumes: x[n,c,h,w], weight[o,c/groups,kh,kw],
/// y[n,o,oh,ow]; x and y may be in channel blocks.
struct Conv2dProblem {
  std::int64_t n, c, h, w, o, kh, kw, oh, ow;
  Conv2dOptions options;
  bool x_blocked = false, y_blocked = false;
  /// The outermost of three spatial dimensions: x[n,c,d,h,w], weight[o,c/groups,kd,kh,kw].
  struct Depth {
    std::int64_t d = 1, kd = 1, od = 1, stride = 1, padding = 0, dilation = 1;
    friend bool operator==(const Depth&, const Depth&) = default;
  };
  bool is_3d = false;
  Depth depth;

  /// From tensors of these shapes: x or its gradient, the weight or its own, y or its own.
  static Conv2dProblem of(const Tensor& x, const Tensor& weight, const Tensor& y,
                          const Conv2dOptions& options);
  friend bool operator==(const Conv2dProblem& a, const Conv2dProblem& b);

  [[nodiscard]] bool has_blocks() const { return x_blocked || y_blocked; }
  /// The same of plain images.
  [[nodiscard]] Conv2dProblem without_blocks() const {
    Conv2dProblem plain = *this;
    plain.x_blocked = plain.y_blocked = false;
    return plain;
  }

  /// Whether y is as large as the convolution of x makes it. It is smaller where a transposed
  /// convolution pads its output by a stride or more: then the last windows of x are skipped.
  [[nodiscard]] bool takes_all_windows() const { return *this == with_all_windows(); }
  /// The same convolution with the whole y.
  [[nodiscard]] Conv2dProblem with_all_windows() const;
};

/// One sample at a time: its windows are laid out as columns, [c/groups * kh * kw, oh * ow] per
/// group, small enough to stay in cache, followed by one matrix product per group (im2col). T is
/// float or double. The specification of the other method, too.
namespace im2col {
template <class T>
void forward(const Conv2dProblem& problem, const T* x, const T* weight, const T* bias, T* y);
template <class T>
void backward_input(const Conv2dProblem& problem, const T* grad_y, const T* weight, bool accumulate,
                    T* grad_x);
template <class T>
void backward_weight(const Conv2dProblem& problem, const T* grad_y, const T* x, bool accumulate,
                     T* grad_weight);
}  // namespace im2col

/// oneDNN's primitives in the layouts it prefers, for problems that use all windows. Primitives,
/// reorders and their memory are kept by shape for each thread, so that a call in a steady loop
/// allocates nothing.
namespace onednn {
void forward(const Conv2dProblem& problem, const float* x, const float* weight, const float* bias,
             float* y);
void backward_input(const Conv2dProblem& problem, const float* grad_y, const float* weight,
                    bool accumulate, float* grad_x);
void backward_weight(const Conv2dProblem& problem, const float* grad_y, const float* x,
                     bool accumulate, float* grad_weight);
}  // namespace onednn

}  // namespace lockstep::detail
