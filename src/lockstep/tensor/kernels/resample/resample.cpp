#include <lockstep/tensor/kernels/resample/resample.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/output_range.hpp>

namespace lockstep {
namespace {

/// The elements at `places` and their weights in the sum of one output.
template <class T>
struct WeightedPlaces {
  std::array<std::int64_t, 4> places;
  std::array<T, 4> shares;
};

constexpr std::size_t count_of(Taps taps) { return taps == Taps::linear ? 2 : 4; }

/// The weights of the elements at -1, 0, 1 and 2, for a point at t in [0, 1).
template <class T>
KOKKOS_FUNCTION std::array<T, 4> cubic_weights(T t) {
  constexpr T a = T{-0.75};
  const auto near = [](T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

/// How the outputs of one dimension are made from `from` elements, computed in T as in PyTorch.
template <class T>
class Sampling {
 public:
  Sampling(const Resampling& how, std::int64_t from, std::int64_t to)
      : taps_(how.taps),
        align_corners_(how.align_corners),
        extent_(from),
        step_(static_cast<T>(how.taps == Taps::linear && from == to ? 1.0 : how.ratio)) {
    if (align_corners_) {
      step_ = to > 1 ? static_cast<T>(from - 1) / static_cast<T>(to - 1) : T{0};
    }
  }

  /// The element at or before output i, if there is one.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t low(std::int64_t i) const {
    return static_cast<std::int64_t>(std::floor(place(i)));
  }
  [[nodiscard]] KOKKOS_FUNCTION WeightedPlaces<T> of(std::int64_t i) const {
    const T at = place(i), floor = std::floor(at);
    const auto below = static_cast<std::int64_t>(floor);
    if (taps_ == Taps::linear) {
      return {{inside(below), inside(below + 1), 0, 0}, {1 - (at - floor), at - floor, 0, 0}};
    }
    return {{inside(below - 1), inside(below), inside(below + 1), inside(below + 2)},
            cubic_weights(at - floor)};
  }
  /// The outputs, of `to`, that element `p` may have a part in: its tap is up to 2 behind the one
  /// before the output, and the first and last element stand for those beyond.
  [[nodiscard]] KOKKOS_FUNCTION detail::OutputRange outputs_of(std::int64_t p,
                                                               std::int64_t to) const {
    const std::int64_t before = taps_ == Taps::linear ? 0 : 1;
    const auto place_of = [this](std::int64_t i) { return low(i); };
    return {p == 0 ? 0 : detail::first_output(place_of, to, p - before - 1),
            p == extent_ - 1 ? to : detail::first_output(place_of, to, p + before + 1)};
  }

 private:
  /// Where output i is among the elements.
  [[nodiscard]] KOKKOS_FUNCTION T place(std::int64_t i) const {
    const T at =
        align_corners_ ? step_ * static_cast<T>(i) : step_ * (static_cast<T>(i) + T{0.5}) - T{0.5};
    return taps_ == Taps::linear && at < T{0} ? T{0} : at;
  }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t inside(std::int64_t p) const {
    const std::int64_t last = extent_ - 1;
    return p < 0 ? 0 : p > last ? last : p;
  }

  Taps taps_;
  bool align_corners_;
  std::int64_t extent_;
  T step_;
};

/// Each of the `to` outputs. The memory is kept by the thread.
template <class T>
const std::vector<WeightedPlaces<T>>& outputs_of(const Resampling& how, std::int64_t from,
                                                 std::int64_t to) {
  thread_local std::vector<WeightedPlaces<T>> outputs;
  outputs.resize(static_cast<std::size_t>(to));
  const Sampling<T> sampling(how, from, to);
  for (std::int64_t i = 0; i < to; ++i) outputs[static_cast<std::size_t>(i)] = sampling.of(i);
  return outputs;
}

/// Calls f(output row, input row, share) for every output and tap; rows are `inner` elements long.
template <class T, class F>
void for_each_share(const HostArray& x, const HostArray& y, const Resampling& how, const F& f) {
  const std::int64_t from = x.size(1), to = y.size(1), inner = x.size(2);
  const auto& outputs = outputs_of<T>(how, from, to);
  const std::size_t taps = count_of(how.taps);
  for (std::int64_t o = 0; o < x.size(0); ++o) {
    for (std::int64_t i = 0; i < to; ++i) {
      const auto& output = outputs[static_cast<std::size_t>(i)];
      for (std::size_t k = 0; k < taps; ++k) {
        f((o * to + i) * inner, (o * from + output.places[k]) * inner, output.shares[k], k == 0);
      }
    }
  }
}

template <class T>
void resample_rows(const HostArray& x, const Resampling& how, const HostArray& y) {
  const auto* const in = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(y.data());
  const std::int64_t inner = x.size(2);
  for_each_share<T>(x, y, how, [&](std::int64_t to, std::int64_t from, T share, bool first) {
    T* const line = out + to;
    const T* const source = in + from;
    if (first) {
      for (std::int64_t i = 0; i < inner; ++i) line[i] = share * source[i];
    } else {
      for (std::int64_t i = 0; i < inner; ++i) line[i] += share * source[i];
    }
  });
}

template <class T>
void resample_rows_back(const HostArray& grad_y, const Resampling& how, const HostArray& grad_x) {
  const auto* const in = static_cast<const T*>(grad_y.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const std::int64_t inner = grad_x.size(2);
  for_each_share<T>(grad_x, grad_y, how, [&](std::int64_t from, std::int64_t to, T share, bool) {
    for (std::int64_t i = 0; i < inner; ++i) out[to + i] += share * in[from + i];
  });
}

// A thread writes one element of y.
template <class T, class Space>
void forward_kernel(const Space& space, const Tensor& x, const Resampling& how, const Tensor& y) {
  const std::int64_t from = x.size(1), to = y.size(1), inner = x.size(2);
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const Sampling<T> sampling(how, from, to);
  const std::size_t taps = count_of(how.taps);
  for_each(
      "lockstep::resample", space, y.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const std::int64_t line = at / inner, outer = line / to;
        const WeightedPlaces<T> output = sampling.of(line % to);
        const auto element = [&](std::size_t k) {
          return in((outer * from + output.places[k]) * inner + at % inner);
        };
        T sum = output.shares[0] * element(0);
        for (std::size_t k = 1; k < taps; ++k) sum += output.shares[k] * element(k);
        out(at) = sum;
      });
}

// A thread writes the gradient of one element of x.
template <class T, class Space>
void backward_kernel(const Space& space, const Tensor& grad_y, const Resampling& how,
                     bool accumulate, const Tensor& grad_x) {
  const std::int64_t from = grad_x.size(1), to = grad_y.size(1), inner = grad_x.size(2);
  const auto in = flat_view<Space, const T>(grad_y);
  const auto out = flat_view<Space, T>(grad_x);
  const Sampling<T> sampling(how, from, to);
  const std::size_t taps = count_of(how.taps);
  for_each(
      "lockstep::resample_backward", space, grad_x.numel(), KOKKOS_LAMBDA(std::int64_t at) {
        const std::int64_t line = at / inner, outer = line / from, place = line % from;
        const detail::OutputRange range = sampling.outputs_of(place, to);
        T sum = accumulate ? out(at) : T{0};
        for (std::int64_t i = range.begin; i < range.end; ++i) {
          const WeightedPlaces<T> output = sampling.of(i);
          const T gradient = in((outer * to + i) * inner + at % inner);
          for (std::size_t k = 0; k < taps; ++k) {
            if (output.places[k] == place) sum += output.shares[k] * gradient;
          }
        }
        out(at) = sum;
      });
}

}  // namespace

void resample_forward(const Tensor& x, const Resampling& how, const Tensor& y) {
  dispatch_floating(x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) { resample_rows<T>(from, how, to); },
        [&](const auto& space) { forward_kernel<T>(space, x, how, y); }, x, y);
  });
}

void resample_backward(const Tensor& grad_y, const Resampling& how, bool accumulate,
                       const Tensor& grad_x) {
  dispatch_floating(grad_x.dtype(), "interpolate", [&]<class T>() {
    host_or_kernels(
        "interpolate",
        [=](const HostArray& from, const HostArray& to) {
          if (!accumulate) zero<T>(to);
          resample_rows_back<T>(from, how, to);
        },
        [&](const auto& space) { backward_kernel<T>(space, grad_y, how, accumulate, grad_x); },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
