#pragma once
#include <lockstep/tensor/kernels/pool/pool2d.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

/// [N,C,OH,OW] as max_pool2d_shape; throws ShapeError likewise.
[[nodiscard]] Shape avg_pool2d_shape(const Shape& x, const SquareWindow& options);

/// y = mean of each window, over kernel^2 elements with zeros for padding, or over the real ones
/// only if not `count_include_pad`. One floating dtype; sums are f64.
void avg_pool2d_forward(const Tensor& x, const SquareWindow& options, bool count_include_pad,
                        const Tensor& y);

/// grad_x (+)= the shares of the windows over each element, in row-major window order.
void avg_pool2d_backward(const Tensor& grad_y, const SquareWindow& options, bool count_include_pad,
                         bool accumulate, const Tensor& grad_x);

/// [N,C,size,size] for x[N,C,H,W]. Throws ShapeError if x has not four dimensions or an empty
/// plane, or size < 1.
[[nodiscard]] Shape adaptive_avg_pool2d_shape(const Shape& x, std::int64_t size);

/// y[...,i,j] = mean of rows [floor(i H / OH), ceil((i + 1) H / OH)), columns likewise.
void adaptive_avg_pool2d_forward(const Tensor& x, const Tensor& y);
void adaptive_avg_pool2d_backward(const Tensor& grad_y, bool accumulate, const Tensor& grad_x);

}  // namespace lockstep
