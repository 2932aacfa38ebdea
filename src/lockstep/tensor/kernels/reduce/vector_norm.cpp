#include <lockstep/tensor/kernels/reduce/vector_norm.hpp>

#include <cmath>
#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// The sizes |x| of one row, as doubles, and their reductions.
template <class In, class Space>
struct NormRow {
  const In& x;
  std::int64_t r;
  const Lanes<Space>& lanes;

  KOKKOS_FUNCTION double size(std::int64_t c) const {
    return std::fabs(static_cast<double>(x(r, c)));
  }
  template <class F>
  KOKKOS_FUNCTION double sum(const F& f) const {
    return lanes.sum([&](std::int64_t c) { return f(size(c)); });
  }
  KOKKOS_FUNCTION bool has_nan() const {
    return sum([](double a) { return a == a ? 0.0 : 1.0; }) > 0.0;
  }
  KOKKOS_FUNCTION double largest() const {
    return lanes.max(0.0, [&](std::int64_t c) { return size(c); });
  }
  KOKKOS_FUNCTION double smallest() const {
    return -lanes.max(-infinite, [&](std::int64_t c) { return -size(c); });
  }
};

/// Sizes are divided by this before they are raised to a power.
KOKKOS_INLINE_FUNCTION double norm_unit(double size) {
  return size > 0.0 && size < infinite ? size : 1.0;
}

template <class In, class Space>
KOKKOS_FUNCTION double norm_of(const NormRow<In, Space>& row, double p) {
  if (p == 0.0) return row.sum([](double a) { return a == 0.0 ? 0.0 : 1.0; });
  if (p == 1.0) return row.sum([](double a) { return a; });
  if (p == infinite || p == -infinite) {
    const double extreme = p > 0.0 ? row.largest() : row.smallest();
    return row.has_nan() ? std::numeric_limits<double>::quiet_NaN() : extreme;
  }
  if (p == 2.0) {
    const double squares = row.sum([](double a) { return a * a; });
    if (!(squares < 1e-280 || squares > 1e280)) return std::sqrt(squares);
    const double by = norm_unit(row.largest());
    return by * std::sqrt(row.sum([&](double a) { return a / by * (a / by); }));
  }
  const double by = norm_unit(p > 0.0 ? row.largest() : row.smallest());
  return by * std::pow(row.sum([&](double a) { return std::pow(a / by, p); }), 1.0 / p);
}

template <class T, class Space>
void forward_of_rows(const Space& space, const Tensor& x, double p, const Tensor& y) {
  const auto in = view<Space, const T, 2>(x);  // (rows, width)
  const auto out = flat_view<Space, T>(y);     // (rows)
  const std::int64_t width = x.size(1);
  for_each_row(
      "lockstep::vector_norm_forward", space, x.size(0), width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const double norm =
            width == 0 ? 0.0 : norm_of(NormRow<decltype(in), Space>{in, r, lanes}, p);
        lanes.once([&] { out(r) = static_cast<T>(norm); });
      });
}

template <class T>
KOKKOS_FUNCTION T sign_of(T x) {
  return x > T{0} ? T{1} : (x < T{0} ? T{-1} : x);  // keeps a NaN
}

/// The derivative by x of a norm with value `norm`, where `equal` elements have the largest size.
template <class T>
KOKKOS_FUNCTION T norm_slope(T x, T norm, double p, T equal) {
  if (p == 1.0) return sign_of(x);
  if (p == infinite || p == -infinite) {
    const bool chosen = std::fabs(x) == norm || (x != x && norm != norm);
    return chosen ? sign_of(x) / equal : T{0};
  }
  if (norm == T{0} || x == T{0}) return T{0};
  const double share = std::fabs(static_cast<double>(x)) / static_cast<double>(norm);
  return static_cast<T>(static_cast<double>(sign_of(x)) * std::pow(share, p - 1.0));
}

/// For p = 2: a loop that vectorises.
template <class T, class Space>
void backward_of_lengths(const Space& space, const Tensor& grad_y, const Tensor& x, const Tensor& y,
                         bool accumulate, const Tensor& grad_x) {
  const auto g = flat_view<Space, const T>(grad_y), norms = flat_view<Space, const T>(y);
  const auto in = view<Space, const T, 2>(x);
  const auto out = view<Space, T, 2>(grad_x);
  for_each_row(
      "lockstep::vector_norm_backward", space, x.size(0), x.size(1),
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const bool is_zero = norms(r) == T{0};
        const T norm = is_zero ? T{1} : norms(r), grad = is_zero ? T{0} : g(r);
        if (accumulate) {
          lanes.each([&](std::int64_t c) { out(r, c) += grad * (in(r, c) / norm); });
        } else {
          lanes.each([&](std::int64_t c) { out(r, c) = grad * (in(r, c) / norm); });
        }
      });
}

template <class T, class Space>
void backward_of_rows(const Space& space, const Tensor& grad_y, const Tensor& x, const Tensor& y,
                      double p, bool accumulate, const Tensor& grad_x) {
  if (p == 2.0) return backward_of_lengths<T>(space, grad_y, x, y, accumulate, grad_x);
  const auto g = flat_view<Space, const T>(grad_y), norms = flat_view<Space, const T>(y);
  const auto in = view<Space, const T, 2>(x);
  const auto out = view<Space, T, 2>(grad_x);
  const bool counts = std::isinf(p);
  for_each_row(
      "lockstep::vector_norm_backward", space, x.size(0), x.size(1),
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const T norm = norms(r), grad = g(r);
        const T equal = counts ? lanes.sum([&](std::int64_t c) {
          const T a = std::fabs(in(r, c));
          return a == norm || (a != a && norm != norm) ? T{1} : T{0};
        })
                               : T{1};
        lanes.each([&](std::int64_t c) {
          const T value = p == 0.0 ? T{0} : grad * norm_slope(in(r, c), norm, p, equal);
          out(r, c) = accumulate ? out(r, c) + value : value;
        });
      });
}

}  // namespace

void vector_norm_forward(const Tensor& x, double p, const Tensor& y) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "norm", [&]<class T>() { forward_of_rows<T>(space, x, p, y); });
  });
}

void vector_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& y, double p,
                          bool accumulate, const Tensor& grad_x) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "norm", [&]<class T>() {
      backward_of_rows<T>(space, grad_y, x, y, p, accumulate, grad_x);
    });
  });
}

}  // namespace lockstep
