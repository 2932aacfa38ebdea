#include <lockstep/tensor/kernels/data/index.hpp>

#include <string>

#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/data/segment_sums.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/rows_along.hpp>
#include <lockstep/tensor/kernels/strided.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {
namespace {

using detail::dispatch_rows;
using detail::row_major_strides;
using detail::Rows;
using detail::Run;
using detail::StridedLoop;
using detail::Strides;

std::size_t at(int dim) { return static_cast<std::size_t>(dim); }

Shape without(const Shape& shape, int dim) {
  std::array<std::int64_t, Shape::max_dims> extents{};
  for (int d = 0; d < shape.dims(); ++d) extents[at(d)] = d == dim ? 1 : shape[d];
  return Shape(std::span<const std::int64_t>(extents.data(), at(shape.dims())));
}

/// Loops over the index (operand 1) and x (operand 0). x has stride 0 along `dim`: the index gives
/// the place there.
struct Walk {
  std::int64_t step;  ///< of x along `dim`
  StridedLoop<2> loop;

  Walk(const Shape& x, int dim, const Shape& index, const Shape& extents)
      : step(row_major_strides(x)[at(dim)]),
        loop(extents, {still(x, dim), row_major_strides(index)}) {}

 private:
  static Strides still(const Shape& x, int dim) {
    Strides strides = row_major_strides(x);
    strides[at(dim)] = 0;
    return strides;
  }
};

template <class T, class Space>
void forward_kernel(const Space& space, const Walk& walk, const Tensor& x, const Tensor& index,
                    const Tensor& y) {
  const auto in = flat_view<Space, const T>(x);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto out = flat_view<Space, T>(y);
  const std::int64_t step = walk.step, neighbour = walk.loop.inner_stride(0);
  for_each_run(
      "lockstep::gather_forward", space, walk.loop, KOKKOS_LAMBDA(const Run<2>& run) {
        const std::int64_t first = run.offset[0], o = run.offset[1];
        for (std::int64_t c = 0; c < run.count; ++c) {
          out(o + c) = in(first + c * neighbour + chosen(o + c) * step);
        }
      });
}

// One thread handles all indices that may meet in one element. grad_x has the type of sums.
template <class T, class Space>
void backward_kernel(const Space& space, const Walk& walk, std::int64_t picks,
                     std::int64_t pick_stride, const Tensor& grad_y, const Tensor& index,
                     const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y);
  const auto chosen = flat_view<Space, const std::int64_t>(index);
  const auto result = flat_view<Space, SumOf<T>>(grad_x);
  const std::int64_t step = walk.step;
  const std::int64_t in_x = walk.loop.inner_stride(0), in_index = walk.loop.inner_stride(1);
  for_each_run(
      "lockstep::gather_backward", space, walk.loop, KOKKOS_LAMBDA(const Run<2>& run) {
        const auto add = [&](std::int64_t c, std::int64_t i) {
          const std::int64_t o = run.offset[1] + c * in_index + i * pick_stride;
          result(run.offset[0] + c * in_x + chosen(o) * step) += static_cast<SumOf<T>>(g(o));
        };
        if (in_index == 1) {
          for (std::int64_t i = 0; i < picks; ++i) {
            for (std::int64_t c = 0; c < run.count; ++c) add(c, i);
          }
        } else {
          for (std::int64_t c = 0; c < run.count; ++c) {
            for (std::int64_t i = 0; i < picks; ++i) add(c, i);
          }
        }
      });
}

// All picks may meet in one element: on a GPU threads share them out.
template <class T, class Space>
void add_segments_kernel(const Space& space, std::int64_t step, const Tensor& grad_y,
                         const Tensor& index, const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const auto sorted = detail::sorted_by_row(space, index);
  const auto place = flat_view<Space, const std::int64_t>(sorted.places);
  const auto g = flat_view<Space, const T>(grad_y);
  const auto result = flat_view<Space, Wide>(grad_x);
  detail::for_each_segment_sum<Wide>(
      space, sorted, 1,
      KOKKOS_LAMBDA(std::int64_t k, std::int64_t) { return static_cast<Wide>(g(place(k))); },
      KOKKOS_LAMBDA(std::int64_t row, std::int64_t, Wide sum) { result(row * step) += sum; });
}

template <bool contiguous, class T, class Space>
void find_kernel(const Space& space, const Tensor& x, const Shape& shape, const Tensor& values,
                 const Tensor& indices) {
  const Rows<const T, Space, contiguous> in(x, shape);
  const auto value = flat_view<Space, const T>(values);
  const auto out = flat_view<Space, std::int64_t>(indices);
  const std::int64_t width = shape[1];
  for_each_row(
      "lockstep::find_along", space, shape[0] * shape[2], width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const T wanted = value(r);
        const std::int64_t last = lanes.max(-width, [&](std::int64_t c) {
          const T element = in(r, c);
          return element == wanted || (element != element && wanted != wanted) ? -c : -width;
        });
        lanes.once([&] { out(r) = -last; });
      });
}

void add_gathered(const Tensor& grad_y, int dim, const Tensor& index, const Tensor& grad_x) {
  if (index.numel() == 0) return;
  const Walk walk(grad_x.shape(), dim, index.shape(), without(index.shape(), dim));
  const std::int64_t stride = row_major_strides(index.shape())[at(dim)];
  const std::int64_t picks = detail::extent_along(index.shape(), dim);
  const bool is_shared_out = picks == index.numel() && math::device_math(grad_x.device());
  dispatch(current_stream(grad_x.device()), [&](const auto& space) {
    dispatch_stored(grad_y.dtype(), "gather", [&]<class T>() {
      if (is_shared_out) return add_segments_kernel<T>(space, walk.step, grad_y, index, grad_x);
      backward_kernel<T>(space, walk, picks, stride, grad_y, index, grad_x);
    });
  });
}

std::string no_element(const IndexCheck& check, std::int64_t i, std::int64_t index) {
  return "gather: index " + std::to_string(index) + ", number " + std::to_string(i) + " of " +
         to_string(check.indices) + ", is outside dimension " + std::to_string(check.place) +
         " of " + to_string(check.table);
}

}  // namespace

Tensor checked_gather(const Tensor& x, int dim, const Tensor& index) {
  bool fits = index.dtype() == DType::i64 && index.dims() == x.dims();
  for (int d = 0; fits && d < x.dims(); ++d) fits = d == dim || index.size(d) <= x.size(d);
  if (!fits) {
    throw ShapeError(
        "gather from " + describe(x) + " along dimension " + std::to_string(dim) + " by index " +
        describe(index) +
        ": the index must be i64 with x's number of dimensions, and its other extents at most x's");
  }
  return right_indices({.count = detail::extent_along(x.shape(), dim),
                        .sentence = no_element,
                        .indices = index.shape(),
                        .table = x.shape(),
                        .place = dim},
                       index, 0);
}

void gather_forward(const Tensor& x, int dim, const Tensor& index, const Tensor& y) {
  const Walk walk(x.shape(), dim, index.shape(), index.shape());
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "gather",
                    [&]<class T>() { forward_kernel<T>(space, walk, x, index, y); });
  });
}

void gather_backward(const Tensor& grad_y, int dim, const Tensor& index, bool accumulate,
                     const Tensor& grad_x) {
  if (is_half(grad_x.dtype())) {  // an element may be the sum of many
    const Tensor sums = accumulate ? grad_x.to(DType::f32)
                                   : Tensor::zeros(grad_x.shape(), DType::f32, grad_x.device());
    add_gathered(grad_y, dim, index, sums);
    return convert(sums, grad_x);
  }
  if (!accumulate) grad_x.zero();
  add_gathered(grad_y, dim, index, grad_x);
}

void find_along(const Tensor& x, int dim, const Tensor& values, const Tensor& indices) {
  dispatch_rows("max", x, dim,
                [&]<bool contiguous, class T>(const auto& space, const Shape& shape) {
                  find_kernel<contiguous, T>(space, x, shape, values, indices);
                });
}

}  // namespace lockstep
