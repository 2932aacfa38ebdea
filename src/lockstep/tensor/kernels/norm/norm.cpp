#include <lockstep/tensor/kernels/norm/norm.hpp>

#include <utility>

#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/norm/norm_device.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep {
namespace {

/// x as (rows, width), width = elements of weight.
Tensor as_rows(const Tensor& x, const Tensor& weight) {
  return x.reshape({norm_rows(x, weight)[0], weight.numel()});
}

template <class T, class Space>
void layer_norm_forward_kernel(const Space& space, const Tensor& x, const Tensor& weight,
                               const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                               const Tensor& inverse_std) {
  using Wide = SumOf<T>;
  const auto in = view<Space, const T, 2>(x);  // (rows, width)
  const auto out = view<Space, T, 2>(y);
  const auto w = flat_view<Space, const Wide>(weight);
  const auto b = flat_view<Space, const Wide>(bias.defined() ? bias : weight);
  const auto saved_mean = view<Space, Wide, 1>(mean);  // (rows)
  const auto saved_inverse = view<Space, Wide, 1>(inverse_std);
  const bool biased = bias.defined(), around = streaming::worth_it(y);
  const std::int64_t width = x.size(1);
  const Wide share = Wide{1} / static_cast<Wide>(width), epsilon = static_cast<Wide>(eps);
  for_each_row(
      "lockstep::layer_norm_forward", space, x.size(0), width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        // A division: the mean of equal numbers is exactly that number, whatever the width.
        const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(in(r, c)); };
        const Wide m = lanes.sum(x_at) / static_cast<Wide>(width);
        const Wide variance = share * lanes.fetching(&in(r, 0) + width).sum([&](std::int64_t c) {
          const Wide difference = x_at(c) - m;
          return difference * difference;
        });
        const Wide inverse = Wide{1} / std::sqrt(variance + epsilon);
        if (biased) {
          lanes.write(std::array{&out(r, 0)}, around, [&](auto, std::int64_t c) {
            return static_cast<T>((x_at(c) - m) * inverse * w(c) + b(c));
          });
        } else {
          lanes.write(std::array{&out(r, 0)}, around, [&](auto, std::int64_t c) {
            return static_cast<T>((x_at(c) - m) * inverse * w(c));
          });
        }
        lanes.once([&] {
          saved_mean(r) = m;
          saved_inverse(r) = inverse;
        });
      });
}

template <class T, class Space>
void rms_norm_forward_kernel(const Space& space, const Tensor& x, const Tensor& weight, double eps,
                             const Tensor& y, const Tensor& inverse_rms) {
  using Wide = SumOf<T>;
  const auto in = view<Space, const T, 2>(x);  // (rows, width)
  const auto out = view<Space, T, 2>(y);
  const auto w = flat_view<Space, const Wide>(weight);
  const auto saved = view<Space, Wide, 1>(inverse_rms);  // (rows)
  const bool around = streaming::worth_it(y);
  const Wide share = Wide{1} / static_cast<Wide>(x.size(1)), epsilon = static_cast<Wide>(eps);
  for_each_row(
      "lockstep::rms_norm_forward", space, x.size(0), x.size(1),
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const auto x_at = [&](std::int64_t c) { return static_cast<Wide>(in(r, c)); };
        const Wide squares = lanes.sum([&](std::int64_t c) { return x_at(c) * x_at(c); });
        const Wide inverse = Wide{1} / std::sqrt(share * squares + epsilon);
        lanes.write(std::array{&out(r, 0)}, around,
                    [&](auto, std::int64_t c) { return static_cast<T>(x_at(c) * inverse * w(c)); });
        lanes.once([&] { saved(r) = inverse; });
      });
}

/// Rows in a block: about as many as there are blocks, so that neither sum grows long.
std::int64_t rows_a_block(std::int64_t rows) {
  std::int64_t block = 64;
  while (block * block < rows) block *= 2;
  return block;
}

/// Inputs and outputs of the backward pass; RMSNorm has no mean, which counts as 0.
template <class T, class Space, bool centred>
struct Backward {
  using Wide = SumOf<T>;
  using In = decltype(view<Space, const T, 2>(Tensor()));
  using Out = decltype(view<Space, T, 2>(Tensor()));
  using Numbers = decltype(view<Space, const Wide, 1>(Tensor()));
  using Sums = decltype(view<Space, Wide, 2>(Tensor()));
  In grad_y, x;
  Numbers weight, mean, inverse;
  Out grad_x;
  Sums parts;  // (2 blocks, width): those of the weight, then those of the bias, absent in RMSNorm
  bool into_x, into_parameters, accumulate, around;
  Wide share;

  Backward(const Tensor& g, const Tensor& in, const Tensor& w, const Tensor& m, const Tensor& i,
           const NormGradients& gradients, const Tensor& partial)
      : grad_y(view<Space, const T, 2>(g)),
        x(view<Space, const T, 2>(in)),
        weight(flat_view<Space, const Wide>(w)),
        inverse(view<Space, const Wide, 1>(i)),
        into_x(gradients.x.defined()),
        into_parameters(partial.defined()),
        accumulate(gradients.accumulate_x),
        around(into_x && streaming::worth_it(gradients.x)),
        share(Wide{1} / static_cast<Wide>(in.size(1))) {
    if constexpr (centred) mean = view<Space, const Wide, 1>(m);
    if (into_x) grad_x = view<Space, T, 2>(as_rows(gradients.x, w));
    if (into_parameters) parts = view<Space, Wide, 2>(partial);
  }

  /// A row as local numbers and pointers, which stay in registers.
  struct Row {
    const T *stored_grad_y, *stored_x;
    Wide mean, inverse;
    std::array<Wide, centred ? 2 : 1> means{};  // of g h and, for LayerNorm, of g

    [[nodiscard]] KOKKOS_FUNCTION Wide grad_y(std::int64_t c) const {
      return static_cast<Wide>(stored_grad_y[c]);
    }
    /// h: the normalised element.
    [[nodiscard]] KOKKOS_FUNCTION Wide normal(std::int64_t c) const {
      const Wide x = static_cast<Wide>(stored_x[c]);
      return centred ? (x - mean) * inverse : x * inverse;
    }
    /// grad_x from g = grad_y weight and h.
    [[nodiscard]] KOKKOS_FUNCTION Wide gradient(Wide g, Wide h) const {
      return inverse * (g - (centred ? means.back() : Wide{0}) - h * means[0]);
    }
  };

  /// Row r with the means that are needed.
  [[nodiscard]] KOKKOS_FUNCTION Row row(std::int64_t r, const Lanes<Space>& lanes) const {
    Row result{&grad_y(r, 0), &x(r, 0), centred ? mean(r) : Wide{0}, inverse(r)};
    if (!into_x) return result;
    const Wide* const w = weight.data();
    result.means = lanes.template sums<Wide, (centred ? 2 : 1)>([&](auto which, std::int64_t c) {
      const Wide g = result.grad_y(c) * w[c];
      return which() == 0 ? g * result.normal(c) : g;
    });
    for (Wide& sum : result.means) sum *= share;
    return result;
  }

  /// Rows first + k, all in block b. Memory is read row by row.
  template <std::size_t... k>
  KOKKOS_FUNCTION void rows(std::int64_t b, std::int64_t first, const Lanes<Space>& lanes,
                            std::index_sequence<k...> /*k*/) const {
    const std::array group{row(first + static_cast<std::int64_t>(k), lanes)...};
    const Wide* const w = weight.data();
    Wide* const of_weight = into_parameters ? &parts(2 * b, 0) : nullptr;
    Wide* const of_bias = into_parameters ? &parts(2 * b + 1, 0) : nullptr;
    const auto add = [&](std::int64_t c, Wide g, Wide h) {
      of_weight[c] += g * h;
      if constexpr (centred) of_bias[c] += g;
    };
    if (!into_x) {
      return lanes.each(
          [&](std::int64_t c) { (add(c, group[k].grad_y(c), group[k].normal(c)), ...); });
    }
    const std::array targets{&grad_x(first + static_cast<std::int64_t>(k), 0)...};
    const auto write = [&]<bool and_parameters, bool adds>() {
      lanes.write(targets, around && !adds, [&](auto which, std::int64_t c) {
        const Row& row = group[which()];
        const Wide g = row.grad_y(c), h = row.normal(c);
        if constexpr (and_parameters) add(c, g, h);
        const Wide result = row.gradient(g * w[c], h);
        return static_cast<T>(adds ? static_cast<Wide>(targets[which()][c]) + result : result);
      });
    };
    if (accumulate) {
      into_parameters ? write.template operator()<true, true>()
                      : write.template operator()<false, true>();
    } else {
      into_parameters ? write.template operator()<true, false>()
                      : write.template operator()<false, false>();
    }
  }
};

// Wide rows are processed four at a time: the parameters and their sums do not stay in the
// first-level cache with rows of 4096 numbers, and this way they are read and written once for four
// rows. Share of a plain loop's speed at that width, with stores around the cache: layer_norm 0.64
// to 0.73, rms_norm 0.75 to 0.84 (8 rows: 0.58 and 0.72; 4 rows of 1024 numbers: 0.82 to 0.48).
// Sums keep the order of the rows.
template <class T, bool centred, class Space>
void backward_kernel(const Space& space, const Backward<T, Space, centred>& from, std::int64_t rows,
                     std::int64_t width) {
  const std::int64_t block = rows_a_block(rows);
  const bool wide = width * static_cast<std::int64_t>(sizeof(T)) >= 8192;
  for_each_row(
      "lockstep::norm_backward", space, (rows + block - 1) / block, width,
      KOKKOS_LAMBDA(std::int64_t b, const Lanes<Space>& lanes) {
        const std::int64_t end = (b + 1) * block < rows ? (b + 1) * block : rows;
        if (from.into_parameters) {
          lanes.each([&](std::int64_t c) {
            from.parts(2 * b, c) = 0;
            from.parts(2 * b + 1, c) = 0;
          });
        }
        std::int64_t r = b * block;
        for (; wide && r + 4 <= end; r += 4) from.rows(b, r, lanes, std::make_index_sequence<4>());
        for (; r < end; ++r) from.rows(b, r, lanes, std::make_index_sequence<1>());
      });
}

/// sums (+)= the sum over blocks b of parts(2 b + which, c).
template <class T, class Space>
void sum_parts_kernel(const Space& space, const Tensor& partial, int which, bool accumulate,
                      const Tensor& sums) {
  const auto parts = view<Space, const T, 2>(partial);
  const auto out = flat_view<Space, T>(sums);
  const std::int64_t end = partial.size(0);
  for_each_element(
      "lockstep::norm_sum_parts", space, partial.size(1), KOKKOS_LAMBDA(std::int64_t c) {
        T total{0};
        for (std::int64_t p = which; p < end; p += 2) total += parts(p, c);
        out(c) = (accumulate ? out(c) : T{0}) + total;
      });
}

template <bool centred>
void backward(const char* operation, const Tensor& grad_y, const Tensor& x, const Tensor& weight,
              const Tensor& mean, const Tensor& inverse, const NormGradients& gradients) {
  const Tensor rows = as_rows(x, weight), g = as_rows(grad_y, weight);
  if (math::device_math(x.device()) != nullptr) {
    detail::norm_device_backward(operation, {g, rows, weight, mean, inverse}, gradients);
    return;
  }
  const std::int64_t block = rows_a_block(rows.size(0));
  Tensor partial;
  if (gradients.weight.defined() || gradients.bias.defined()) {
    partial = Tensor::empty({(rows.size(0) + block - 1) / block * 2, rows.size(1)},
                            sum_dtype(x.dtype()), x.device());
  }
  dispatch_to_host(current_stream(x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(x.dtype(), operation, [&]<class T>() {
      const Backward<T, HostExecutionSpace, centred> from(g, rows, weight, mean, inverse, gradients,
                                                          partial);
      backward_kernel(space, from, rows.size(0), rows.size(1));
      if (gradients.weight.defined()) {
        sum_parts_kernel<SumOf<T>>(space, partial, 0, gradients.accumulate_weight,
                                   gradients.weight);
      }
      if (gradients.bias.defined()) {
        sum_parts_kernel<SumOf<T>>(space, partial, 1, gradients.accumulate_bias, gradients.bias);
      }
    });
  });
}

}  // namespace

void check_norm(const char* operation, const Tensor& x, const Tensor& weight, const Tensor& bias) {
  const DType of_parameters = sum_dtype(x.dtype());
  bool fits =
      weight.dims() >= 1 && x.dims() >= weight.dims() && weight.dtype() == of_parameters &&
      (!bias.defined() || (bias.shape() == weight.shape() && bias.dtype() == of_parameters));
  for (int d = 1; fits && d <= weight.dims(); ++d) fits = x.size(-d) == weight.size(-d);
  if (!fits) {
    throw ShapeError(std::string(operation) + " of x " + describe(x) + " with weight " +
                     describe(weight) + (bias.defined() ? " and bias " + describe(bias) : "") +
                     ": x must end in weight's dimensions (at least one), and bias must have "
                     "weight's shape; all have one dtype");
  }
}

Shape norm_rows(const Tensor& x, const Tensor& weight) {
  std::int64_t rows = 1;
  for (int d = 0; d < x.dims() - weight.dims(); ++d) rows *= x.size(d);
  return {rows};
}

void layer_norm_forward(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps,
                        const Tensor& y, const Tensor& mean, const Tensor& inverse_std) {
  if (math::device_math(x.device()) != nullptr) {
    return detail::norm_device_forward("layer_norm", as_rows(x, weight), weight, bias, eps,
                                       as_rows(y, weight), mean, inverse_std);
  }
  dispatch_to_host(current_stream(x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(x.dtype(), "layer_norm", [&]<class T>() {
      layer_norm_forward_kernel<T>(space, as_rows(x, weight), weight, bias, eps, as_rows(y, weight),
                                   mean, inverse_std);
    });
  });
}

void rms_norm_forward(const Tensor& x, const Tensor& weight, double eps, const Tensor& y,
                      const Tensor& inverse_rms) {
  if (math::device_math(x.device()) != nullptr) {
    return detail::norm_device_forward("rms_norm", as_rows(x, weight), weight, {}, eps,
                                       as_rows(y, weight), {}, inverse_rms);
  }
  dispatch_to_host(current_stream(x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(x.dtype(), "rms_norm", [&]<class T>() {
      rms_norm_forward_kernel<T>(space, as_rows(x, weight), weight, eps, as_rows(y, weight),
                                 inverse_rms);
    });
  });
}

void layer_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                         const Tensor& mean, const Tensor& inverse_std,
                         const NormGradients& gradients) {
  backward<true>("layer_norm", grad_y, x, weight, mean, inverse_std, gradients);
}

void rms_norm_backward(const Tensor& grad_y, const Tensor& x, const Tensor& weight,
                       const Tensor& inverse_rms, const NormGradients& gradients) {
  backward<false>("rms_norm", grad_y, x, weight, Tensor(), inverse_rms, gradients);
}

}  // namespace lockstep
