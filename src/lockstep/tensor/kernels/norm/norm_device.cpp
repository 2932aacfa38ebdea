#include <lockstep/tensor/kernels/norm/norm_device.hpp>

#include <algorithm>
#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/kernels/packed_row.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

/// h, the normalised element; RMSNorm has no mean, which counts as 0.
template <class T, bool centred>
struct NormElements {
  using Wide = SumOf<T>;
  const T *grad_y, *x;
  const Wide *mean, *inverse;

  template <class Space>
  static NormElements of(const NormRows& rows) {
    return {flat_view<Space, const T>(rows.grad_y).data(), flat_view<Space, const T>(rows.x).data(),
            centred ? view<Space, const Wide, 1>(rows.mean).data() : nullptr,
            view<Space, const Wide, 1>(rows.inverse).data()};
  }
  [[nodiscard]] KOKKOS_FUNCTION Wide normal(std::int64_t r, std::int64_t at) const {
    const Wide value = static_cast<Wide>(x[at]);
    return (centred ? value - mean[r] : value) * inverse[r];
  }
};

template <int n, class T, bool centred, class Space>
void norm_forward_kernel(const Space& space, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                         const Tensor& inverse) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  const auto w = ByColumn<Wide>::template of<Space>(weight);
  const bool biased = bias.defined();
  const auto b = ByColumn<Wide>::template of<Space>(biased ? bias : weight);
  Wide* const means = centred ? view<Space, Wide, 1>(mean).data() : nullptr;
  const auto inverses = view<Space, Wide, 1>(inverse);
  const std::int64_t width = x.size(1);
  const Wide epsilon = static_cast<Wide>(eps);
  for_each_row(
      "lockstep::norm_device_forward", space, x.size(0), width / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * width, width);
        const Wide count = static_cast<Wide>(width);
        Wide m{0};
        if (centred) {
          m = row.template sum<Wide>(
                  lanes, [](std::int64_t, Wide value) { return value; }, in) /
              count;
        }
        const Wide squares = row.template sum<Wide>(
            lanes, [&](std::int64_t, Wide value) { return (value - m) * (value - m); }, in);
        const Wide i = Wide{1} / std::sqrt(squares / count + epsilon);
        if (biased) {
          row.set(
              lanes, false, out,
              [&](std::int64_t, Wide value, Wide scale, Wide shift) {
                return (value - m) * i * scale + shift;
              },
              in, w, b);
        } else {
          row.set(
              lanes, false, out,
              [&](std::int64_t, Wide value, Wide scale) { return (value - m) * i * scale; }, in, w);
        }
        lanes.once([&] {
          if (centred) means[r] = m;
          inverses(r) = i;
        });
      });
}

template <int n, class T, bool centred, class Space>
void norm_grad_x_kernel(const Space& space, const NormRows& rows, bool accumulate,
                        const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const auto from = NormElements<T, centred>::template of<Space>(rows);
  const auto weight = ByColumn<Wide>::template of<Space>(rows.weight);
  T* const out = flat_view<Space, T>(grad_x).data();
  const std::int64_t width = rows.x.size(1);
  const Wide share = Wide{1} / static_cast<Wide>(width);
  for_each_row(
      "lockstep::norm_grad_x", space, rows.x.size(0), width / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * width, width);
        const Wide mean = centred ? from.mean[r] : Wide{0}, inverse = from.inverse[r];
        // g = grad_y weight, h = (x - mean) inverse, as in norm.hpp.
        const auto sums = row.template sums<Wide, (centred ? 2 : 1)>(
            lanes,
            [&](auto which, std::int64_t, Wide slope, Wide value, Wide scale) {
              const Wide g = slope * scale;
              return which() == 0 ? g * ((value - mean) * inverse) : g;
            },
            from.grad_y, from.x, weight);
        const Wide mean_gh = sums[0] * share, mean_g = centred ? sums[centred] * share : Wide{0};
        row.set(
            lanes, accumulate, out,
            [&](std::int64_t, Wide slope, Wide value, Wide scale) {
              const Wide h = (value - mean) * inverse;
              return inverse * (slope * scale - mean_g - h * mean_gh);
            },
            from.grad_y, from.x, weight);
      });
}

/// parts[blocks, kinds, width], of rows [b length, (b + 1) length): sums of grad_y h and, for the
/// second kind, of grad_y.
template <class T, bool centred, class Space>
void norm_parts_kernel(const Space& space, const NormRows& rows, std::int64_t length,
                       const Tensor& partial) {
  using Wide = SumOf<T>;
  constexpr std::size_t kinds = centred ? 2 : 1;
  const auto from = NormElements<T, centred>::template of<Space>(rows);
  Wide* const parts = flat_view<Space, Wide>(partial).data();
  const std::int64_t width = rows.x.size(1), all = rows.x.size(0);
  const std::int64_t count = partial.size(0) * width;
  const Divisor by_width(width, count);
  for_each(
      "lockstep::norm_parts", space, count, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t b = by_width.quotient(i), c = i - b * width, begin = b * length;
        const std::int64_t end = begin + length < all ? begin + length : all;
        const auto sums = sums_of_rows<8, Wide, kinds>(begin, end, [&](std::int64_t r) {
          const std::int64_t at = r * width + c;
          const Wide g = static_cast<Wide>(from.grad_y[at]), h = from.normal(r, at);
          std::array<Wide, kinds> terms{g * h};
          if constexpr (centred) terms[1] = g;
          return terms;
        });
        for (std::size_t k = 0; k < kinds; ++k) {
          parts[(b * static_cast<std::int64_t>(kinds) + static_cast<std::int64_t>(k)) * width + c] =
              sums[k];
        }
      });
}

/// sums[blocks, columns] of the rows [b length, (b + 1) length) of parts[..., columns].
template <class Wide, class Space>
void norm_fewer_parts_kernel(const Space& space, const Tensor& partial, std::int64_t length,
                             const Tensor& fewer) {
  const auto parts = view<Space, const Wide, 2>(partial);
  const auto out = view<Space, Wide, 2>(fewer);
  const std::int64_t all = partial.size(0), columns = partial.size(1);
  for_each(
      "lockstep::norm_fewer_parts", space, fewer.numel(), KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t b = i / columns, c = i - b * columns, begin = b * length;
        const std::int64_t end = begin + length < all ? begin + length : all;
        out(b, c) = sums_of_rows<8, Wide, 1>(
            begin, end, [&](std::int64_t r) { return std::array<Wide, 1>{parts(r, c)}; })[0];
      });
}

/// grad (+)= the sums over b of parts(b, first + c).
template <class Wide, class Space>
void norm_parameter_kernel(const Space& space, const Tensor& partial, std::int64_t first,
                           bool accumulate, const Tensor& grad) {
  if (!grad.defined()) return;
  const auto parts = view<Space, const Wide, 2>(partial);
  const auto out = flat_view<Space, Wide>(grad);
  const std::int64_t blocks = partial.size(0);
  for_each(
      "lockstep::norm_parameter", space, grad.numel(), KOKKOS_LAMBDA(std::int64_t c) {
        const Wide total = sums_of_rows<8, Wide, 1>(
            0, blocks, [&](std::int64_t b) { return std::array<Wide, 1>{parts(b, first + c)}; })[0];
        out(c) = accumulate ? out(c) + total : total;
      });
}

constexpr std::int64_t most_blocks = 512;  // of rows
constexpr std::int64_t most_loads = 32;    // of a thread that adds up blocks, one after another

std::int64_t share_of(std::int64_t all, std::int64_t count) {
  return count == 0 ? 0 : (all + count - 1) / count;
}

/// Rows in a block: about as many threads as an H100 has at once (132 x 2048), if that leaves each
/// at least 16 rows.
std::int64_t rows_of_a_thread(std::int64_t rows, std::int64_t width) {
  constexpr std::int64_t threads = 1 << 18;
  return std::max({share_of(rows * width, threads), share_of(rows, most_blocks), std::int64_t{16}});
}

template <class T, bool centred, class Space>
void norm_parameters(const Space& space, const NormRows& rows, const NormGradients& gradients) {
  using Wide = SumOf<T>;
  const std::int64_t width = rows.x.size(1), columns = (centred ? 2 : 1) * width;
  const std::int64_t length = rows_of_a_thread(rows.x.size(0), width);
  const auto make = [&](std::int64_t blocks) {
    return Tensor::empty({blocks, columns}, dtype_of<Wide>, rows.x.device());
  };
  Tensor partial = make(share_of(rows.x.size(0), length));
  norm_parts_kernel<T, centred>(space, rows, length, partial);
  if (partial.size(0) > most_loads) {
    const std::int64_t of_a_thread = share_of(partial.size(0), most_loads);
    const Tensor fewer = make(share_of(partial.size(0), of_a_thread));
    norm_fewer_parts_kernel<Wide>(space, partial, of_a_thread, fewer);
    partial = fewer;
  }
  norm_parameter_kernel<Wide>(space, partial, 0, gradients.accumulate_weight, gradients.weight);
  if constexpr (centred) {
    norm_parameter_kernel<Wide>(space, partial, width, gradients.accumulate_bias, gradients.bias);
  }
}

template <class T, bool centred, class Space>
void norm_gradients(const Space& space, const NormRows& rows, const NormGradients& gradients) {
  if (gradients.x.defined()) {
    with_packed_rows<T>(rows.x.size(1), {&rows.x, &rows.grad_y, &gradients.x}, [&]<int n>() {
      norm_grad_x_kernel<n, T, centred>(space, rows, gradients.accumulate_x, gradients.x);
    });
  }
  if (gradients.weight.defined() || gradients.bias.defined()) {
    norm_parameters<T, centred>(space, rows, gradients);
  }
}

}  // namespace

void norm_device_forward(const char* operation, const Tensor& x, const Tensor& weight,
                         const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                         const Tensor& inverse) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    dispatch_stored(x.dtype(), operation, [&]<class T>() {
      with_packed_rows<T>(x.size(1), {&x, &y}, [&]<int n>() {
        if (mean.defined()) {
          norm_forward_kernel<n, T, true>(space, x, weight, bias, eps, y, mean, inverse);
        } else {
          norm_forward_kernel<n, T, false>(space, x, weight, bias, eps, y, mean, inverse);
        }
      });
    });
  });
}

void norm_device_backward(const char* operation, const NormRows& rows,
                          const NormGradients& gradients) {
  dispatch(current_stream(rows.x.device()), [&](const auto& space) {
    dispatch_stored(rows.x.dtype(), operation, [&]<class T>() {
      if (rows.mean.defined()) {
        norm_gradients<T, true>(space, rows, gradients);
      } else {
        norm_gradients<T, false>(space, rows, gradients);
      }
    });
  });
}

}  // namespace lockstep::detail
