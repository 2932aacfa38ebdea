#include <lockstep/tensor/kernels/norm/group_norm.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/norm/group_norm_device.hpp>
#include <lockstep/tensor/math/device_math.hpp>

namespace lockstep {
namespace {

/// x[N,C, ...] cut into groups.
struct Groups {
  std::int64_t rows, channels, positions, width;  ///< channels of a group; width of a row

  Groups(const Tensor& x, std::int64_t groups)
      : rows(x.size(0) * groups),
        channels(x.size(1) / groups),
        positions(x.numel() == 0 ? 0 : x.numel() / (x.size(0) * x.size(1))),
        width(channels * positions) {}
};

template <class T, class Space>
const T* address(const Tensor& t) {
  return t.defined() ? flat_view<Space, const T>(t).data() : nullptr;
}

template <class T, class Space>
void group_norm_kernel(const Space& space, const Tensor& x, std::int64_t groups,
                       const Tensor& weight, const Tensor& bias, SumOf<T> eps, const Tensor& y,
                       const Tensor& mean, const Tensor& rstd) {
  using Wide = SumOf<T>;
  const Groups g(x, groups);
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y);
  const auto means = flat_view<Space, Wide>(mean), inverses = flat_view<Space, Wide>(rstd);
  const Wide *const w = address<Wide, Space>(weight), *const b = address<Wide, Space>(bias);
  for_each_row(
      "lockstep::group_norm_forward", space, g.rows, g.width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t at = r * g.width;
        const Wide width = static_cast<Wide>(g.width);
        const auto x_at = [&](std::int64_t i) { return static_cast<Wide>(in(i)); };
        const Wide mu = lanes.sum([&](std::int64_t i) { return x_at(at + i); }) / width;
        const Wide squares = lanes.sum([&](std::int64_t i) {
          const Wide d = x_at(at + i) - mu;
          return d * d;
        });
        const Wide inverse = Wide{1} / std::sqrt(squares / width + eps);
        const auto plane = lanes.of_width(g.positions);
        for (std::int64_t k = 0; k < g.channels; ++k) {
          const std::int64_t c = r % groups * g.channels + k, from = at + k * g.positions;
          const Wide factor = (w ? w[c] : Wide{1}) * inverse, shift = b ? b[c] : Wide{0};
          plane.each([&](std::int64_t i) {
            out(from + i) = static_cast<T>((x_at(from + i) - mu) * factor + shift);
          });
        }
        lanes.once([&] {
          means(r) = mu;
          inverses(r) = inverse;
        });
      });
}

template <class T, class Space>
void group_norm_sums_kernel(const Space& space, const Tensor& grad_y, const Tensor& x,
                            std::int64_t groups, const Tensor& mean, const Tensor& rstd,
                            const Tensor& sums, const Tensor& products) {
  using Wide = SumOf<T>;
  const Groups g(x, groups);
  const auto in = flat_view<Space, const T>(x), dy = flat_view<Space, const T>(grad_y);
  const auto means = flat_view<Space, const Wide>(mean),
             inverses = flat_view<Space, const Wide>(rstd);
  const auto of_dy = flat_view<Space, Wide>(sums), of_product = flat_view<Space, Wide>(products);
  for_each_row(
      "lockstep::group_norm_sums", space, g.rows * g.channels, g.positions,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t from = r * g.positions;
        const Wide mu = means(r / g.channels), inverse = inverses(r / g.channels);
        const auto found = lanes.template sums<Wide, 2>([&](auto which, std::int64_t i) {
          const Wide gradient = static_cast<Wide>(dy(from + i));
          const Wide centred = static_cast<Wide>(in(from + i)) - mu;
          return which() == 0 ? gradient : gradient * (centred * inverse);
        });
        lanes.once([&] {
          of_dy(r) = found[0];
          of_product(r) = found[1];
        });
      });
}

template <class T, bool accumulate, class Space>
void group_norm_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& x,
                                std::int64_t groups, const Tensor& weight, const Tensor& mean,
                                const Tensor& rstd, const Tensor& sums, const Tensor& products,
                                const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const Groups g(x, groups);
  const auto in = flat_view<Space, const T>(x), dy = flat_view<Space, const T>(grad_y);
  const auto means = flat_view<Space, const Wide>(mean),
             inverses = flat_view<Space, const Wide>(rstd),
             of_dy = flat_view<Space, const Wide>(sums),
             of_product = flat_view<Space, const Wide>(products);
  const auto out = flat_view<Space, T>(grad_x);
  const Wide* const w = address<Wide, Space>(weight);
  // dx = rstd (w dy - (sum of w dy + xhat sum of w dy xhat) / width).
  for_each_row(
      "lockstep::group_norm_backward", space, g.rows, g.width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        Wide total{0}, product{0};
        const std::int64_t first = r % groups * g.channels;
        for (std::int64_t k = 0; k < g.channels; ++k) {
          const Wide scale = w ? w[first + k] : Wide{1};
          total += scale * of_dy(r * g.channels + k);
          product += scale * of_product(r * g.channels + k);
        }
        const Wide mu = means(r), inverse = inverses(r), width = static_cast<Wide>(g.width);
        // dx = a w dy + b x + c.
        const Wide b = -product * inverse * inverse / width;
        const Wide c = -total * inverse / width - b * mu;
        const auto plane = lanes.of_width(g.positions);
        for (std::int64_t k = 0; k < g.channels; ++k) {
          const std::int64_t from = r * g.width + k * g.positions;
          const Wide a = (w ? w[first + k] : Wide{1}) * inverse;
          plane.each([&](std::int64_t i) {
            const Wide value =
                a * static_cast<Wide>(dy(from + i)) + (b * static_cast<Wide>(in(from + i)) + c);
            out(from + i) =
                static_cast<T>(accumulate ? static_cast<Wide>(out(from + i)) + value : value);
          });
        }
      });
}

/// The channels in the window of a channel's response or, seen the other way, the channels whose
/// windows contain it.
struct Window {
  std::int64_t begin, end;
  KOKKOS_FUNCTION Window(std::int64_t c, std::int64_t before, std::int64_t behind,
                         std::int64_t channels)
      : begin(c < before ? 0 : c - before),
        end(c + behind + 1 > channels ? channels : c + behind + 1) {}
};

template <class T, class Space>
void local_response_kernel(const Space& space, const Tensor& x, const LocalResponse& o,
                           const Tensor& y, const Tensor& scale) {
  const std::int64_t channels = x.size(1), rows = x.size(0) * channels;
  const std::int64_t positions = x.numel() == 0 ? 0 : x.numel() / rows;
  const auto in = flat_view<Space, const T>(x);
  const auto out = flat_view<Space, T>(y), d = flat_view<Space, T>(scale);
  const std::int64_t before = o.size / 2, behind = (o.size - 1) / 2;
  const T share = static_cast<T>(o.alpha / static_cast<double>(o.size)), k = static_cast<T>(o.k);
  const math::Power<T> power(-o.beta);
  for_each_row(
      "lockstep::local_response_norm_forward", space, rows, positions,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const Window window(r % channels, before, behind, channels);
        const std::int64_t at = r * positions, sample = r / channels * channels;
        lanes.each([&](std::int64_t i) { d(at + i) = T{0}; });
        for (std::int64_t c = window.begin; c < window.end; ++c) {
          const std::int64_t from = (sample + c) * positions;
          lanes.each([&](std::int64_t i) { d(at + i) += in(from + i) * in(from + i); });
        }
        lanes.each([&](std::int64_t i) {
          d(at + i) = k + share * d(at + i);
          out(at + i) = in(at + i) * power(d(at + i));
        });
      });
}

template <class T, bool accumulate, class Space>
void local_response_backward_kernel(const Space& space, const Tensor& grad_y, const Tensor& x,
                                    const LocalResponse& o, const Tensor& scale,
                                    const Tensor& ratios, const Tensor& grad_x) {
  const std::int64_t channels = x.size(1), rows = x.size(0) * channels;
  const std::int64_t positions = x.numel() == 0 ? 0 : x.numel() / rows;
  const auto in = flat_view<Space, const T>(x), dy = flat_view<Space, const T>(grad_y),
             d = flat_view<Space, const T>(scale);
  const auto ratio = flat_view<Space, T>(ratios), out = flat_view<Space, T>(grad_x);
  // The channels whose windows contain channel c.
  const std::int64_t before = (o.size - 1) / 2, behind = o.size / 2;
  const T share = static_cast<T>(-2.0 * o.beta * o.alpha / static_cast<double>(o.size));
  const math::Power<T> power(-o.beta);
  for_each_element(
      "lockstep::local_response_norm_ratios", space, x.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const T factor = dy(i) * power(d(i));
        ratio(i) = factor * in(i) / d(i);
        out(i) = accumulate ? out(i) + factor : factor;
      });
  for_each_row(
      "lockstep::local_response_norm_backward", space, rows, positions,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const Window window(r % channels, before, behind, channels);
        const std::int64_t at = r * positions, sample = r / channels * channels;
        for (std::int64_t c = window.begin; c < window.end; ++c) {
          const std::int64_t from = (sample + c) * positions;
          lanes.each([&](std::int64_t i) { out(at + i) += share * in(at + i) * ratio(from + i); });
        }
      });
}

bool is_on_gpu(const Tensor& x) { return math::device_math(x.device()) != nullptr; }

template <class F>
void dispatch_groups(const Tensor& x, const F& f) {
  dispatch_to_host(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), "group_norm", [&]<class T>() { f.template operator()<T>(space); });
  });
}

template <class F>
void dispatch_responses(const Tensor& x, const F& f) {
  if (x.numel() == 0) return;
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_floating(x.dtype(), "local_response_norm",
                      [&]<class T>() { f.template operator()<T>(space); });
  });
}

}  // namespace

void group_norm_forward(const Tensor& x, std::int64_t groups, const Tensor& weight,
                        const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                        const Tensor& rstd) {
  if (x.numel() == 0) return;
  if (is_on_gpu(x)) {
    return detail::group_norm_device_forward(x, groups, weight, bias, eps, y, mean, rstd);
  }
  dispatch_groups(x, [&]<class T>(const auto& space) {
    group_norm_kernel<T>(space, x, groups, weight, bias, static_cast<SumOf<T>>(eps), y, mean, rstd);
  });
}

void group_norm_sums(const Tensor& grad_y, const Tensor& x, std::int64_t groups, const Tensor& mean,
                     const Tensor& rstd, const Tensor& sums, const Tensor& products) {
  if (x.numel() == 0) return;
  if (is_on_gpu(x)) {
    return detail::group_norm_device_sums({grad_y, x, groups, mean, rstd}, sums, products);
  }
  dispatch_groups(x, [&]<class T>(const auto& space) {
    group_norm_sums_kernel<T>(space, grad_y, x, groups, mean, rstd, sums, products);
  });
}

void group_norm_backward(const Tensor& grad_y, const Tensor& x, std::int64_t groups,
                         const Tensor& weight, const Tensor& mean, const Tensor& rstd,
                         const Tensor& sums, const Tensor& products, bool accumulate,
                         const Tensor& grad_x) {
  if (x.numel() == 0) return;
  if (is_on_gpu(x)) {
    return detail::group_norm_device_backward({grad_y, x, groups, mean, rstd}, weight, sums,
                                              products, accumulate, grad_x);
  }
  dispatch_groups(x, [&]<class T>(const auto& space) {
    if (accumulate) {
      group_norm_backward_kernel<T, true>(space, grad_y, x, groups, weight, mean, rstd, sums,
                                          products, grad_x);
    } else {
      group_norm_backward_kernel<T, false>(space, grad_y, x, groups, weight, mean, rstd, sums,
                                           products, grad_x);
    }
  });
}

void local_response_norm_forward(const Tensor& x, const LocalResponse& options, const Tensor& y,
                                 const Tensor& scale) {
  dispatch_responses(x, [&]<class T>(const auto& space) {
    local_response_kernel<T>(space, x, options, y, scale);
  });
}

void local_response_norm_backward(const Tensor& grad_y, const Tensor& x,
                                  const LocalResponse& options, const Tensor& scale,
                                  bool accumulate, const Tensor& grad_x) {
  const Tensor ratios = Tensor::empty(x.shape(), x.dtype(), x.device());
  dispatch_responses(x, [&]<class T>(const auto& space) {
    if (accumulate) {
      local_response_backward_kernel<T, true>(space, grad_y, x, options, scale, ratios, grad_x);
    } else {
      local_response_backward_kernel<T, false>(space, grad_y, x, options, scale, ratios, grad_x);
    }
  });
}

}  // namespace lockstep
