#include <algorithm>

#include <lockstep/tensor/kernels/conv/conv2d_methods.hpp>
#include <lockstep/tensor/math/gemm.hpp>

namespace lockstep::detail::im2col {
namespace {

/// The sizes of the matrix products of one group.
struct Group {
  std::int64_t in, out;      ///< channels
  std::int64_t depth;        ///< rows of the columns: in * kd * kh * kw
  std::int64_t positions;    ///< od * oh * ow
  std::int64_t in_elements;  ///< in * d * h * w

  explicit Group(const Conv2dProblem& p)
      : in(p.c / p.options.groups),
        out(p.o / p.options.groups),
        depth(in * p.depth.kd * p.kh * p.kw),
        positions(p.depth.od * p.oh * p.ow),
        in_elements(in * p.depth.d * p.h * p.w) {}
};

/// True if the input plane itself is the columns.
bool is_pointwise(const Conv2dProblem& p) {
  const auto& o = p.options;
  return p.depth == Conv2dProblem::Depth{p.depth.d, 1, p.depth.d} && p.kh == 1 && p.kw == 1 &&
         p.oh == p.h && p.ow == p.w && o.stride == 1 && o.padding == 0;
}

/// The output positions [begin, end) whose tap at offset `tap` lies inside an input of `size`.
struct Range {
  std::int64_t begin, end;
};
Range inside(std::int64_t tap, std::int64_t stride, std::int64_t size, std::int64_t outputs) {
  // tap + stride * o in [0, size)
  const std::int64_t begin = tap >= 0 ? 0 : (-tap + stride - 1) / stride;
  const std::int64_t end = size - tap <= 0 ? 0 : (size - tap + stride - 1) / stride;
  const std::int64_t first = std::min(begin, outputs);
  return {first, std::clamp(end, first, outputs)};
}

/// Calls f(row of the columns, input plane, output plane of that row, tap offset vertical,
/// horizontal) for every tap and every output plane along the depth. An input plane of -1 is
/// padding. An image has one plane a channel.
template <class F>
void for_each_tap(const Conv2dProblem& p, std::int64_t channels, const F& f) {
  const auto& depth = p.depth;
  std::int64_t row = 0;
  for (std::int64_t c = 0; c < channels; ++c) {
    for (std::int64_t k = 0; k < depth.kd; ++k) {
      for (std::int64_t i = 0; i < p.kh; ++i) {
        for (std::int64_t j = 0; j < p.kw; ++j, ++row) {
          for (std::int64_t od = 0; od < depth.od; ++od) {
            const std::int64_t d = od * depth.stride + k * depth.dilation - depth.padding;
            const bool inside = d >= 0 && d < depth.d;
            f(row, inside ? c * depth.d + d : -1, od,
              i * p.options.dilation[0] - p.options.padding[0],
              j * p.options.dilation[1] - p.options.padding[1]);
          }
        }
      }
    }
  }
}

/// columns[depth, positions] of one group of one sample.
template <class T>
void gather_columns(const Conv2dProblem& p, const Group& group, const T* x, T* columns) {
  const std::int64_t stride_h = p.options.stride[0], stride_w = p.options.stride[1];
  const std::int64_t area = p.oh * p.ow;
  for_each_tap(
      p, group.in,
      [&](std::int64_t row, std::int64_t from, std::int64_t od, std::int64_t dh, std::int64_t dw) {
        T* out = columns + row * group.positions + od * area;
        if (from < 0) return static_cast<void>(std::fill_n(out, area, T{0}));
        const T* plane = x + from * p.h * p.w;
        const Range rows = inside(dh, stride_h, p.h, p.oh), cols = inside(dw, stride_w, p.w, p.ow);
        std::fill(out, out + rows.begin * p.ow, T{0});
        for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
          T* line = out + oh * p.ow;
          const T* source = plane + (oh * stride_h + dh) * p.w + dw;
          std::fill(line, line + cols.begin, T{0});
          if (stride_w == 1) {
            std::copy(source + cols.begin, source + cols.end, line + cols.begin);
          } else {
            for (std::int64_t ow = cols.begin; ow < cols.end; ++ow)
              line[ow] = source[ow * stride_w];
          }
          std::fill(line + cols.end, line + p.ow, T{0});
        }
        std::fill(out + rows.end * p.ow, out + area, T{0});
      });
}

/// Adds the columns back to the elements they came from.
template <class T>
void scatter_columns(const Conv2dProblem& p, const Group& group, const T* columns, T* x) {
  const std::int64_t stride_h = p.options.stride[0], stride_w = p.options.stride[1];
  const std::int64_t area = p.oh * p.ow;
  for_each_tap(
      p, group.in,
      [&](std::int64_t row, std::int64_t to, std::int64_t od, std::int64_t dh, std::int64_t dw) {
        if (to < 0) return;
        const T* in = columns + row * group.positions + od * area;
        T* plane = x + to * p.h * p.w;
        const Range rows = inside(dh, stride_h, p.h, p.oh), cols = inside(dw, stride_w, p.w, p.ow);
        for (std::int64_t oh = rows.begin; oh < rows.end; ++oh) {
          const T* line = in + oh * p.ow;
          T* target = plane + (oh * stride_h + dh) * p.w + dw;
          if (stride_w == 1) {
#pragma omp simd
            for (std::int64_t ow = cols.begin; ow < cols.end; ++ow) target[ow] += line[ow];
          } else {
            for (std::int64_t ow = cols.begin; ow < cols.end; ++ow)
              target[ow * stride_w] += line[ow];
          }
        }
      });
}

/// Memory for one group's columns, from the caching allocator.
template <class T>
Tensor make_columns(const Conv2dProblem& p, const Group& group) {
  return is_pointwise(p) ? Tensor()
                         : Tensor::empty({std::max<std::int64_t>(group.depth * group.positions, 1)},
                                         dtype_of<T>);
}

}  // namespace

template <class T>
void forward(const Conv2dProblem& p, const T* x, const T* weight, const T* bias, T* y) {
  const Group group(p);
  const Tensor memory = make_columns<T>(p, group);
  T* const columns = static_cast<T*>(memory.data());
  for (std::int64_t part = 0; part < p.n * p.options.groups; ++part) {
    const std::int64_t g = part % p.options.groups;
    const T* in = x + part * group.in_elements;
    T* out = y + part * group.out * group.positions;
    if (columns) gather_columns(p, group, in, columns);
    if (bias) {
      for (std::int64_t o = 0; o < group.out; ++o) {
        std::fill_n(out + o * group.positions, group.positions, bias[g * group.out + o]);
      }
    }
    math::gemm(group.out, group.positions, group.depth,
               math::Matrix<T>{weight + g * group.out * group.depth, group.depth},
               math::Matrix<T>{columns ? columns : in, group.positions}, bias ? T{1} : T{0}, out,
               group.positions);
  }
}

template <class T>
void backward_input(const Conv2dProblem& p, const T* grad_y, const T* weight, bool accumulate,
                    T* grad_x) {
  const Group group(p);
  const Tensor memory = make_columns<T>(p, group);
  T* const columns = static_cast<T*>(memory.data());
  for (std::int64_t part = 0; part < p.n * p.options.groups; ++part) {
    const std::int64_t g = part % p.options.groups;
    T* result = grad_x + part * group.in_elements;
    const bool direct = columns == nullptr;
    math::gemm(group.depth, group.positions, group.out,
               math::Matrix<T>{weight + g * group.out * group.depth, group.depth, true},
               math::Matrix<T>{grad_y + part * group.out * group.positions, group.positions},
               direct && accumulate ? T{1} : T{0}, direct ? result : columns, group.positions);
    if (direct) continue;
    if (!accumulate) std::fill_n(result, group.in_elements, T{0});
    scatter_columns(p, group, columns, result);
  }
}

template <class T>
void backward_weight(const Conv2dProblem& p, const T* grad_y, const T* x, bool accumulate,
                     T* grad_weight) {
  const Group group(p);
  const Tensor memory = make_columns<T>(p, group);
  T* const columns = static_cast<T*>(memory.data());
  if (!accumulate && p.n == 0) std::fill_n(grad_weight, p.o * group.depth, T{0});
  for (std::int64_t part = 0; part < p.n * p.options.groups; ++part) {
    const std::int64_t g = part % p.options.groups;
    const T* in = x + part * group.in_elements;
    if (columns) gather_columns(p, group, in, columns);
    const bool first = part < p.options.groups && !accumulate;
    math::gemm(group.out, group.depth, group.positions,
               math::Matrix<T>{grad_y + part * group.out * group.positions, group.positions},
               math::Matrix<T>{columns ? columns : in, group.positions, true}, first ? T{0} : T{1},
               grad_weight + g * group.out * group.depth, group.depth);
  }
}

template void forward(const Conv2dProblem&, const float*, const float*, const float*, float*);
template void forward(const Conv2dProblem&, const double*, const double*, const double*, double*);
template void backward_input(const Conv2dProblem&, const float*, const float*, bool, float*);
template void backward_input(const Conv2dProblem&, const double*, const double*, bool, double*);
template void backward_weight(const Conv2dProblem&, const float*, const float*, bool, float*);
template void backward_weight(const Conv2dProblem&, const double*, const double*, bool, double*);

}  // namespace lockstep::detail::im2col
