#include <lockstep/tensor/kernels/pool/pool_nd.hpp>

#include <algorithm>
#include <limits>
#include <vector>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/pool/pool_nd_kernels.hpp>
#include <lockstep/tensor/kernels/thread_row.hpp>

namespace lockstep {
namespace {

/// The extents of one pool: x[planes, in...], y[planes, out...].
struct PoolExtents {
  std::int64_t planes;
  std::array<std::int64_t, 3> in, out;
  std::int64_t in_plane, out_plane;

  PoolExtents(const HostArray& x, const HostArray& y)
      : planes(x.size(0)),
        in{x.size(1), x.size(2), x.size(3)},
        out{y.size(1), y.size(2), y.size(3)},
        in_plane(in[0] * in[1] * in[2]),
        out_plane(out[0] * out[1] * out[2]) {}
};

/// [begin, end) of the outputs whose tap at offset `tap` lies inside the input.
struct Inside {
  std::int64_t begin, end;
  Inside(std::int64_t tap, std::int64_t stride, std::int64_t in, std::int64_t out) {
    begin = std::min(tap >= 0 ? 0 : (-tap + stride - 1) / stride, out);
    end = std::clamp(in - tap <= 0 ? 0 : (in - tap + stride - 1) / stride, begin, out);
  }
};

/// Calls f(o, o * stride) for the outputs of a tap; the usual strides are compile-time constants.
template <std::int64_t stride, class F>
void for_each_output(const Inside& inside, const F& f) {
#pragma omp simd
  for (std::int64_t o = inside.begin; o < inside.end; ++o) f(o, o * stride);
}
template <class F>
void for_each_output(const Inside& inside, std::int64_t stride, const F& f) {
  if (stride == 1) return for_each_output<1>(inside, f);
  if (stride == 2) return for_each_output<2>(inside, f);
  for (std::int64_t o = inside.begin; o < inside.end; ++o) f(o, o * stride);
}

/// Calls f(output row, input row, first output, end, input place of output 0) for each output row
/// along W and each tap inside the input, taps in row-major order. begin(output row) is called
/// first. Rows are offsets in a plane.
template <class Begin, class F>
void for_each_tap_of_rows(const PoolExtents& e, const PoolWindow& w, const Begin& begin,
                          const F& f) {
  for (std::int64_t d = 0; d < e.out[0]; ++d) {
    for (std::int64_t h = 0; h < e.out[1]; ++h) {
      const std::int64_t row = (d * e.out[1] + h) * e.out[2];
      begin(row, d, h);
      for (std::int64_t i = 0; i < w.kernel[0]; ++i) {
        const std::int64_t at_d = d * w.stride[0] + i * w.dilation[0] - w.padding[0];
        if (at_d < 0 || at_d >= e.in[0]) continue;
        for (std::int64_t j = 0; j < w.kernel[1]; ++j) {
          const std::int64_t at_h = h * w.stride[1] + j * w.dilation[1] - w.padding[1];
          if (at_h < 0 || at_h >= e.in[1]) continue;
          for (std::int64_t k = 0; k < w.kernel[2]; ++k) {
            const std::int64_t tap = k * w.dilation[2] - w.padding[2];
            const Inside inside(tap, w.stride[2], e.in[2], e.out[2]);
            f(row, (at_d * e.in[1] + at_h) * e.in[2], inside, tap);
          }
        }
      }
    }
  }
}

/// Runs each(plane) for all planes; each plane runs on one thread.
template <class F>
void for_each_plane(const char* label, const PoolExtents& e, const F& each) {
  ensure_kokkos();
  for_each(label, HostExecutionSpace(), e.planes, [&](std::int64_t plane) { each(plane); });
}

template <class T>
void max_rows(const HostArray& x, const PoolWindow& w, const HostArray& y,
              const HostArray& indices) {
  const PoolExtents e(x, y);
  for_each_plane("lockstep::max_pool_forward", e, [&](std::int64_t plane) {
    const T* const in = static_cast<const T*>(x.data()) + plane * e.in_plane;
    T* const out = static_cast<T*>(y.data()) + plane * e.out_plane;
    auto* const where = static_cast<std::int32_t*>(indices.data()) + plane * e.out_plane;
    const std::int64_t stride = w.stride[2];
    const auto begin = [&](std::int64_t row, std::int64_t, std::int64_t) {
      std::fill_n(out + row, e.out[2], -std::numeric_limits<T>::infinity());
      std::fill_n(where + row, e.out[2], -1);
    };
    for_each_tap_of_rows(
        e, w, begin,
        [&](std::int64_t row, std::int64_t in_row, const Inside& inside, std::int64_t tap) {
          T* const best = out + row;
          std::int32_t* const at = where + row;
          const T* const from = in + in_row + tap;
          const auto place = static_cast<std::int32_t>(in_row + tap);
          const auto step = static_cast<std::int32_t>(stride);
          for_each_output(inside, stride, [&](std::int64_t o, std::int64_t i) {
            // The first element is chosen even if it is -inf.
            const T value = from[i];
            const bool better = value > best[o] || value != value || at[o] < 0;
            best[o] = better ? value : best[o];
            at[o] = better ? place + static_cast<std::int32_t>(o) * step : at[o];
          });
        });
  });
}

template <class T>
void max_rows_back(const HostArray& grad_y, const HostArray& indices, const HostArray& grad_x) {
  const PoolExtents e(grad_x, grad_y);
  for_each_plane("lockstep::max_pool_backward", e, [&](std::int64_t plane) {
    const T* const g = static_cast<const T*>(grad_y.data()) + plane * e.out_plane;
    const auto* const where =
        static_cast<const std::int32_t*>(indices.data()) + plane * e.out_plane;
    T* const out = static_cast<T*>(grad_x.data()) + plane * e.in_plane;
    for (std::int64_t i = 0; i < e.out_plane; ++i) out[where[i]] += g[i];
  });
}

/// The divisors of the windows' sums: the product of the counts of output (d, h) along D and H, and
/// the counts along W.
template <class T>
struct Divisors {
  const AveragePool& pool;
  const PoolExtents& e;
  std::vector<T>& along_w;  ///< memory kept by the calling thread

  Divisors(const AveragePool& p, const PoolExtents& extents)
      : pool(p), e(extents), along_w(memory_of_this_thread()) {
    along_w.resize(static_cast<std::size_t>(e.out[2]));
    for (std::int64_t o = 0; o < e.out[2]; ++o) {
      along_w[static_cast<std::size_t>(o)] = static_cast<T>(pool.divisor != 0 ? 1 : elements(2, o));
    }
  }
  static std::vector<T>& memory_of_this_thread() {
    thread_local std::vector<T> memory;
    return memory;
  }
  [[nodiscard]] T of_row(std::int64_t d, std::int64_t h) const {
    if (pool.divisor != 0) return static_cast<T>(pool.divisor);
    return static_cast<T>(elements(0, d) * elements(1, h));
  }

 private:
  [[nodiscard]] std::int64_t elements(std::size_t dimension, std::int64_t o) const {
    return detail::WindowsAlong(pool.window, dimension, e.in[dimension], e.out[dimension])
        .elements(o, pool.count_include_pad);
  }
};

template <class T>
void avg_rows(const HostArray& x, const AveragePool& pool, const HostArray& y) {
  const PoolExtents e(x, y);
  const Divisors<T> divisors(pool, e);
  for_each_plane("lockstep::avg_pool_forward", e, [&](std::int64_t plane) {
    const T* const in = static_cast<const T*>(x.data()) + plane * e.in_plane;
    T* const out = static_cast<T*>(y.data()) + plane * e.out_plane;
    const std::int64_t stride = pool.window.stride[2];
    for_each_tap_of_rows(
        e, pool.window,
        [&](std::int64_t row, std::int64_t, std::int64_t) {
          std::fill_n(out + row, e.out[2], T{0});
        },
        [&](std::int64_t row, std::int64_t in_row, const Inside& inside, std::int64_t tap) {
          T* const sum = out + row;
          const T* const from = in + in_row + tap;
          for_each_output(inside, stride,
                          [&](std::int64_t o, std::int64_t i) { sum[o] += from[i]; });
        });
    for (std::int64_t d = 0; d < e.out[0]; ++d) {
      for (std::int64_t h = 0; h < e.out[1]; ++h) {
        T* const line = out + (d * e.out[1] + h) * e.out[2];
        const T count = divisors.of_row(d, h);
        for (std::int64_t o = 0; o < e.out[2]; ++o) {
          line[o] /= count * divisors.along_w[static_cast<std::size_t>(o)];
        }
      }
    }
  });
}

template <class T>
void avg_rows_back(const HostArray& grad_y, const AveragePool& pool, const HostArray& grad_x) {
  const PoolExtents e(grad_x, grad_y);
  const Divisors<T> divisors(pool, e);
  for_each_plane("lockstep::avg_pool_backward", e, [&](std::int64_t plane) {
    const T* const g = static_cast<const T*>(grad_y.data()) + plane * e.out_plane;
    T* const out = static_cast<T*>(grad_x.data()) + plane * e.in_plane;
    const std::int64_t stride = pool.window.stride[2];
    thread_local std::vector<T> row_gradient;
    row_gradient.resize(static_cast<std::size_t>(e.out[2]));
    T* const scaled = row_gradient.data();
    for_each_tap_of_rows(
        e, pool.window,
        [&](std::int64_t row, std::int64_t d, std::int64_t h) {
          const T count = divisors.of_row(d, h);
          for (std::int64_t o = 0; o < e.out[2]; ++o) {
            scaled[o] = g[row + o] / (count * divisors.along_w[static_cast<std::size_t>(o)]);
          }
        },
        [&](std::int64_t, std::int64_t in_row, const Inside& inside, std::int64_t tap) {
          T* const to = out + in_row + tap;
          for_each_output(inside, stride,
                          [&](std::int64_t o, std::int64_t i) { to[i] += scaled[o]; });
        });
  });
}

/// The input elements of adaptive output `i` of `m`.
struct Part {
  std::int64_t begin, end;
  Part(std::int64_t i, std::int64_t n, std::int64_t m)
      : begin(i * n / m), end(((i + 1) * n + m - 1) / m) {}
  [[nodiscard]] std::int64_t size() const { return end - begin; }
};

/// Calls f(output row, D part, H part) for the rows of outputs of a plane.
template <class F>
void for_each_row_of_parts(const PoolExtents& e, const F& f) {
  std::int64_t row = 0;
  for (std::int64_t d = 0; d < e.out[0]; ++d) {
    for (std::int64_t h = 0; h < e.out[1]; ++h, row += e.out[2]) {
      f(row, Part(d, e.in[0], e.out[0]), Part(h, e.in[1], e.out[1]));
    }
  }
}

/// Calls f(input row) for the rows of two parts.
template <class F>
void for_each_row_in(const PoolExtents& e, const Part& d, const Part& h, const F& f) {
  for (std::int64_t i = d.begin; i < d.end; ++i) {
    for (std::int64_t j = h.begin; j < h.end; ++j) f((i * e.in[1] + j) * e.in[2]);
  }
}

// A row of outputs reads several input rows. They are first reduced to one row by vector code; then
// each part is reduced to one number.
template <class T>
void adaptive_max(const HostArray& x, const HostArray& y, const HostArray& indices) {
  const PoolExtents e(x, y);
  const std::int64_t width = e.in[2];
  for_each_plane("lockstep::adaptive_max_pool", e, [&](std::int64_t plane) {
    const T* const in = static_cast<const T*>(x.data()) + plane * e.in_plane;
    T* const out = static_cast<T*>(y.data()) + plane * e.out_plane;
    auto* const where = static_cast<std::int32_t*>(indices.data()) + plane * e.out_plane;
    T* const best = detail::thread_row<T>(width);
    auto* const place = detail::thread_row<std::int32_t>(width);
    for_each_row_of_parts(e, [&](std::int64_t row, const Part& d, const Part& h) {
      bool first = true;
      for_each_row_in(e, d, h, [&](std::int64_t at) {
        const auto start = static_cast<std::int32_t>(at);
        const T* const line = in + at;
        if (first) {
          std::copy_n(line, width, best);
          std::fill_n(place, width, start);
          first = false;
          return;
        }
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) {
          const bool better = line[i] > best[i] || line[i] != line[i];
          best[i] = better ? line[i] : best[i];
          place[i] = better ? start : place[i];
        }
      });
      for (std::int64_t w = 0; w < e.out[2]; ++w) {
        const Part part(w, width, e.out[2]);
        std::int64_t chosen = part.begin;
        for (std::int64_t i = part.begin + 1; i < part.end; ++i) {
          // Of equal elements the one in the earlier row comes first in the window.
          if (best[i] > best[chosen] || best[i] != best[i] ||
              (best[i] == best[chosen] && place[i] < place[chosen])) {
            chosen = i;
          }
        }
        out[row + w] = best[chosen];
        where[row + w] = place[chosen] + static_cast<std::int32_t>(chosen);
      }
    });
  });
}

template <class T>
void adaptive_avg(const HostArray& x, const HostArray& y) {
  const PoolExtents e(x, y);
  const std::int64_t width = e.in[2];
  for_each_plane("lockstep::adaptive_avg_pool", e, [&](std::int64_t plane) {
    const T* const in = static_cast<const T*>(x.data()) + plane * e.in_plane;
    T* const out = static_cast<T*>(y.data()) + plane * e.out_plane;
    T* const sums = detail::thread_row<T>(width);
    for_each_row_of_parts(e, [&](std::int64_t row, const Part& d, const Part& h) {
      std::fill_n(sums, width, T{0});
      for_each_row_in(e, d, h, [&](std::int64_t at) {
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) sums[i] += in[at + i];
      });
      for (std::int64_t w = 0; w < e.out[2]; ++w) {
        const Part part(w, width, e.out[2]);
        T sum{0};
        for (std::int64_t i = part.begin; i < part.end; ++i) sum += sums[i];
        out[row + w] = sum / static_cast<T>(d.size() * h.size() * part.size());
      }
    });
  });
}

template <class T>
void adaptive_avg_back(const HostArray& grad_y, const HostArray& grad_x) {
  const PoolExtents e(grad_x, grad_y);
  const std::int64_t width = e.in[2];
  for_each_plane("lockstep::adaptive_avg_pool_backward", e, [&](std::int64_t plane) {
    const T* const g = static_cast<const T*>(grad_y.data()) + plane * e.out_plane;
    T* const out = static_cast<T*>(grad_x.data()) + plane * e.in_plane;
    T* const shares = detail::thread_row<T>(width);
    for_each_row_of_parts(e, [&](std::int64_t row, const Part& d, const Part& h) {
      std::fill_n(shares, width, T{0});
      for (std::int64_t w = 0; w < e.out[2]; ++w) {
        const Part part(w, width, e.out[2]);
        const T share = g[row + w] / static_cast<T>(d.size() * h.size() * part.size());
        for (std::int64_t i = part.begin; i < part.end; ++i) shares[i] += share;
      }
      for_each_row_in(e, d, h, [&](std::int64_t at) {
#pragma omp simd
        for (std::int64_t i = 0; i < width; ++i) out[at + i] += shares[i];
      });
    });
  });
}

template <class Along>
void max_backward(const detail::PoolDims<Along>& dims, const Tensor& grad_y, const Tensor& indices,
                  bool accumulate, const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "max_pool", [&]<class T>() {
    host_or_kernels(
        "max_pool",
        [=](const HostArray& from, const HostArray& where, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          max_rows_back<T>(from, where, to);
        },
        [&](const auto& space) {
          detail::max_pool_backward_kernel<T>(space, dims, grad_y, indices, accumulate, grad_x);
        },
        grad_y, indices, grad_x);
  });
}

}  // namespace

void max_pool_forward(const Tensor& x, const PoolWindow& window, const Tensor& y,
                      const Tensor& indices) {
  dispatch_floating(x.dtype(), "max_pool", [&]<class T>() {
    host_or_kernels(
        "max_pool",
        [=](const HostArray& from, const HostArray& to, const HostArray& where) {
          max_rows<T>(from, window, to, where);
        },
        [&](const auto& space) { detail::max_pool_kernel<T>(space, x, window, y, indices); }, x, y,
        indices);
  });
}

void max_pool_backward(const Tensor& grad_y, const Tensor& indices, const PoolWindow& window,
                       bool accumulate, const Tensor& grad_x) {
  max_backward(detail::windows_of(window, grad_x, grad_y), grad_y, indices, accumulate, grad_x);
}

void avg_pool_forward(const Tensor& x, const AveragePool& pool, const Tensor& y) {
  dispatch_floating(x.dtype(), "avg_pool", [&]<class T>() {
    host_or_kernels(
        "avg_pool",
        [=](const HostArray& from, const HostArray& to) { avg_rows<T>(from, pool, to); },
        [&](const auto& space) { detail::avg_pool_kernel<T>(space, x, pool, y); }, x, y);
  });
}

void avg_pool_backward(const Tensor& grad_y, const AveragePool& pool, bool accumulate,
                       const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "avg_pool", [&]<class T>() {
    host_or_kernels(
        "avg_pool",
        [=](const HostArray& from, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          avg_rows_back<T>(from, pool, to);
        },
        [&](const auto& space) {
          detail::avg_pool_backward_kernel<T>(space, grad_y, pool, accumulate, grad_x);
        },
        grad_y, grad_x);
  });
}

void adaptive_max_pool_forward(const Tensor& x, const Tensor& y, const Tensor& indices) {
  dispatch_floating(x.dtype(), "adaptive_max_pool", [&]<class T>() {
    host_or_kernels(
        "adaptive_max_pool", adaptive_max<T>,
        [&](const auto& space) { detail::adaptive_max_pool_kernel<T>(space, x, y, indices); }, x, y,
        indices);
  });
}

void adaptive_max_pool_backward(const Tensor& grad_y, const Tensor& indices, bool accumulate,
                                const Tensor& grad_x) {
  max_backward(detail::parts_of(grad_x, grad_y), grad_y, indices, accumulate, grad_x);
}

void adaptive_avg_pool_forward(const Tensor& x, const Tensor& y) {
  dispatch_floating(x.dtype(), "adaptive_avg_pool", [&]<class T>() {
    host_or_kernels(
        "adaptive_avg_pool", adaptive_avg<T>,
        [&](const auto& space) { detail::adaptive_avg_pool_kernel<T>(space, x, y); }, x, y);
  });
}

void adaptive_avg_pool_backward(const Tensor& grad_y, bool accumulate, const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "adaptive_avg_pool", [&]<class T>() {
    host_or_kernels(
        "adaptive_avg_pool",
        [=](const HostArray& from, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          adaptive_avg_back<T>(from, to);
        },
        [&](const auto& space) {
          detail::adaptive_avg_pool_backward_kernel<T>(space, grad_y, accumulate, grad_x);
        },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
