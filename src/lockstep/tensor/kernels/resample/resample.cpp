#include <lockstep/tensor/kernels/resample/resample.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include <lockstep/tensor/dispatch_dtype.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {
namespace {

/// The elements at `places` and their weights in the sum of one output.
template <class T>
struct WeightedPlaces {
  std::array<std::int64_t, 4> places;
  std::array<T, 4> shares;
};

/// The weights of the elements at -1, 0, 1 and 2, for a point at t in [0, 1).
template <class T>
std::array<T, 4> cubic_weights(T t) {
  constexpr T a = T{-0.75};
  const auto near = [](T d) { return ((a + 2) * d - (a + 3)) * d * d + 1; };
  const auto far = [](T d) { return ((a * d - 5 * a) * d + 8 * a) * d - 4 * a; };
  return {far(t + 1), near(t), near(1 - t), far(2 - t)};
}

template <class T>
WeightedPlaces<T> output_of(T at, Taps taps, std::int64_t extent) {
  const auto inside = [&](std::int64_t place) {
    return std::clamp<std::int64_t>(place, 0, extent - 1);
  };
  if (taps == Taps::linear) at = std::max(at, T{0});
  const T floor = std::floor(at);
  const auto low = static_cast<std::int64_t>(floor);
  if (taps == Taps::linear) {
    return {{inside(low), inside(low + 1), 0, 0}, {1 - (at - floor), at - floor, 0, 0}};
  }
  return {{inside(low - 1), inside(low), inside(low + 1), inside(low + 2)},
          cubic_weights(at - floor)};
}

/// Weights of each of `to` outputs over `from` elements, in T as in PyTorch. The memory is kept by
/// the thread.
template <class T>
const std::vector<WeightedPlaces<T>>& outputs_of(const Resampling& how, std::int64_t from,
                                                 std::int64_t to) {
  thread_local std::vector<WeightedPlaces<T>> outputs;
  outputs.resize(static_cast<std::size_t>(to));
  T step = static_cast<T>(how.taps == Taps::linear && from == to ? 1.0 : how.ratio);
  if (how.align_corners) step = to > 1 ? static_cast<T>(from - 1) / static_cast<T>(to - 1) : T{0};
  for (std::int64_t i = 0; i < to; ++i) {
    const T at =
        how.align_corners ? step * static_cast<T>(i) : step * (static_cast<T>(i) + T{0.5}) - T{0.5};
    outputs[static_cast<std::size_t>(i)] = output_of(at, how.taps, from);
  }
  return outputs;
}

/// Calls f(output row, input row, share) for every output and tap; rows are `inner` elements long.
template <class T, class F>
void for_each_share(const HostArray& x, const HostArray& y, const Resampling& how, const F& f) {
  const std::int64_t from = x.size(1), to = y.size(1), inner = x.size(2);
  const auto& outputs = outputs_of<T>(how, from, to);
  const std::size_t taps = how.taps == Taps::linear ? 2 : 4;
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

}  // namespace

void resample_forward(const Tensor& x, const Resampling& how, const Tensor& y) {
  dispatch_floating(x.dtype(), "interpolate", [&]<class T>() {
    host_task(
        "interpolate",
        [how](const HostArray& x, const HostArray& y) { resample_rows<T>(x, how, y); }, x, y);
  });
}

void resample_backward(const Tensor& grad_y, const Resampling& how, bool accumulate,
                       const Tensor& grad_x) {
  if (!accumulate) fill(grad_x, 0.0);
  dispatch_floating(grad_x.dtype(), "interpolate", [&]<class T>() {
    host_task(
        "interpolate",
        [how](const HostArray& grad_y, const HostArray& grad_x) {
          resample_rows_back<T>(grad_y, how, grad_x);
        },
        grad_y, grad_x);
  });
}

}  // namespace lockstep
