#include <type_traits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/channel_packs.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_device.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_planes.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

/// What backward reads, n elements at a time.
template <class T, int n>
struct GradientPacks {
  using Wide = SumOf<T>;
  const T *x, *y, *grad_y;
  bool relu;

  template <class Space>
  static GradientPacks of(const BatchNormInputs& in, const Tensor& y, const Tensor& grad_y) {
    return {flat_view<Space, const T>(in.x).data(),
            flat_view<Space, const T>(in.relu ? y : in.x).data(),
            flat_view<Space, const T>(grad_y).data(), in.relu};
  }
  /// The gradient that passes relu. NaN is not below 0: a gradient there passes.
  [[nodiscard]] KOKKOS_FUNCTION Pack<Wide, n> passed(std::int64_t i) const {
    const auto gradient = load_pack<n>(grad_y, i);
    Pack<T, n> output{};
    if (relu) output = load_pack<n>(y, i);
    Pack<Wide, n> result;
    for (int e = 0; e < n; ++e) {
      const bool is_closed = relu && static_cast<Wide>(output.values[e]) <= Wide{0};
      result.values[e] = is_closed ? Wide{0} : static_cast<Wide>(gradient.values[e]);
    }
    return result;
  }
};

/// Into partial, f64[2, parts]: sums of g and of g (x - mean).
template <int n, class T, class Space>
void gradients_of_teams(const Space& space, const GradientPacks<T, n>& from,
                        const ChannelParts& parts, const Tensor& means, const Tensor& partial) {
  using Wide = SumOf<T>;
  double* const out = flat_view<Space, double>(partial).data();
  const auto mean = view<Space, const Wide, 1>(means);
  const PacksOfParts<n> packs(parts);
  const std::int64_t count = parts.count();
  for_each_row(
      "lockstep::batch_norm_gradients_of_teams", space, count, parts.length / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        constexpr int loads = PacksOfParts<n>::loads;
        const auto part = packs[r];
        const Wide center = mean(part.channel);
        const std::int64_t strip = part.strip();
        const auto sums =
            lanes.of_width(strip).template sums<double, 2>([&](auto which, std::int64_t i) {
              Pack<Wide, n> gradient[loads];
              Pack<T, n> x[loads];
              for (int l = 0; l < loads; ++l) {
                const std::int64_t k = part.begin + i + l * strip;
                const std::int64_t at = packs.place(part, k < part.end ? k : part.begin);
                gradient[l] = from.passed(at);
                x[l] = load_pack<n>(from.x, at);
              }
              Wide sum{0};
              for (int l = 0; l < loads; ++l) {
                const bool is_inside = part.begin + i + l * strip < part.end;
                for (int e = 0; e < n; ++e) {
                  const Wide g = gradient[l].values[e];
                  const Wide d = static_cast<Wide>(x[l].values[e]) - center;
                  sum += is_inside ? (which() == 0 ? g : g * d) : Wide{0};
                }
              }
              return static_cast<double>(sum);
            });
        lanes.once([&] {
          out[r] = sums[0];
          out[count + r] = sums[1];
        });
      });
}

template <int n, class T, class Space>
void gradients_of_columns(const Space& space, const GradientPacks<T, n>& from,
                          const ChannelParts& parts, const Tensor& means, const Tensor& partial) {
  using Wide = SumOf<T>;
  double* const out = flat_view<Space, double>(partial).data();
  const auto mean = view<Space, const Wide, 1>(means);
  const std::int64_t count = parts.count();
  const ColumnsOfParts<n> columns(parts);
  for_each(
      "lockstep::batch_norm_gradients_of_columns", space, count / n, KOKKOS_LAMBDA(std::int64_t i) {
        const auto part = columns[i];
        Pack<Wide, n> centers;
        for (int e = 0; e < n; ++e) centers.values[e] = mean(columns.channel(part, e));
        const auto sums =
            sums_of_rows<4, double, 2 * n>(part.begin, part.end, [&](std::int64_t row) {
              const std::int64_t at = columns.place(part, row);
              const auto gradient = from.passed(at);
              const auto x = load_pack<n>(from.x, at);
              std::array<double, 2 * n> found;
              for (int e = 0; e < n; ++e) {
                const double g = gradient.values[e];
                found[2 * e] = g;
                found[2 * e + 1] = g * (static_cast<Wide>(x.values[e]) - centers.values[e]);
              }
              return found;
            });
        for (int e = 0; e < n; ++e) {
          out[i * n + e] = sums[2 * e];
          out[count + i * n + e] = sums[2 * e + 1];
        }
      });
}

/// Of channel c: the parameters' gradients, and the two numbers that all of grad_x needs.
template <class Wide>
struct JoinGradients {
  ChannelParts parts;
  const double* partial;
  const Wide* inverse_std;
  Wide *grad_weight, *grad_bias;  ///< or null
  bool add_weight, add_bias;
  Wide* coefficients;  ///< [2, C]: mean of g; mean of g (x - mean), over the variance

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(std::int64_t c, const Lanes& lanes) const {
    const double* const products = partial + parts.count();
    const auto sums = lanes.template sums<double, 2>([&](auto which, std::int64_t i) {
      return (which() == 0 ? partial : products)[parts.index(c, i)];
    });
    lanes.once([&] {
      const Wide inverse = inverse_std[c];
      if (grad_weight != nullptr) {
        const Wide value = static_cast<Wide>(sums[1] * inverse);
        grad_weight[c] = add_weight ? grad_weight[c] + value : value;
      }
      if (grad_bias != nullptr) {
        const Wide value = static_cast<Wide>(sums[0]);
        grad_bias[c] = add_bias ? grad_bias[c] + value : value;
      }
      const double count = static_cast<double>(parts.samples * parts.positions);
      coefficients[c] = static_cast<Wide>(sums[0] / count);
      coefficients[parts.channels + c] = static_cast<Wide>(sums[1] / count * inverse * inverse);
    });
  }
};

/// grad_x and the residual's gradient, where they are wanted. Without coefficients, mean and
/// variance are constant.
template <int n, PackOf of, class T, class Space>
void gradients_of_elements(const Space& space, const BatchNormInputs& in,
                           const GradientPacks<T, n>& from, const ChannelParts& parts,
                           const BatchNormSaved& saved, const Tensor& coefficients,
                           const BatchNormGradients& gradients) {
  using Wide = SumOf<T>;
  const bool want_x = gradients.x.defined(), want_residual = gradients.residual.defined();
  const bool add_x = gradients.accumulate_x, add_residual = gradients.accumulate_residual;
  const bool is_constant = !coefficients.defined();
  T* const grad_x = want_x ? flat_view<Space, T>(gradients.x).data() : nullptr;
  T* const grad_residual = want_residual ? flat_view<Space, T>(gradients.residual).data() : nullptr;
  const auto weight = ByColumn<Wide>::template of<Space>(in.weight),
             mean = ByColumn<Wide>::template of<Space>(saved.mean),
             inverse_std = ByColumn<Wide>::template of<Space>(saved.inverse_std);
  const auto row_of = [&](std::int64_t row) {
    return ByColumn<Wide>::template of<Space>(is_constant ? saved.mean
                                                          : coefficients.slice(row, row + 1));
  };
  const auto mean_g = row_of(0), slope = row_of(1);
  const ChannelsOfPack<n, of> channels_of(parts);
  for_each(
      "lockstep::batch_norm_gradients", space, in.x.numel() / n, KOKKOS_LAMBDA(std::int64_t i) {
        const Pack<Wide, n> g = from.passed(i);
        Pack<T, n> x{}, old{}, result;
        if (want_x && !is_constant) x = load_pack<n>(from.x, i);
        if (want_residual) {
          if (add_residual) old = load_pack<n>(grad_residual, i);
          for (int e = 0; e < n; ++e) {
            result.values[e] = static_cast<T>(
                add_residual ? static_cast<Wide>(old.values[e]) + g.values[e] : g.values[e]);
          }
          store_pack(result, grad_residual, i);
        }
        if (!want_x) return;
        if (add_x) old = load_pack<n>(grad_x, i);  // perhaps the residual's, just stored
        const auto channels = channels_of(i);
        const auto weights = channels.numbers(weight), inverses = channels.numbers(inverse_std);
        Pack<Wide, n> centers{}, means_g{}, slopes{};
        if (!is_constant) {
          centers = channels.numbers(mean);
          means_g = channels.numbers(mean_g);
          slopes = channels.numbers(slope);
        }
        for (int e = 0; e < n; ++e) {
          const Wide scale = weights.values[e] * inverses.values[e];
          const Wide distance =
              is_constant ? Wide{0} : static_cast<Wide>(x.values[e]) - centers.values[e];
          const Wide value =
              scale * (g.values[e] - means_g.values[e] - distance * slopes.values[e]);
          result.values[e] =
              static_cast<T>(add_x ? static_cast<Wide>(old.values[e]) + value : value);
        }
        store_pack(result, grad_x, i);
      });
}

template <class T, class Space>
void write_gradients(const Space& space, const BatchNormInputs& in, const ChannelParts& parts,
                     const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                     const Tensor& coefficients, const BatchNormGradients& gradients) {
  if (!gradients.x.defined() && !gradients.residual.defined()) return;
  const Tensor& output = in.relu ? y : in.x;
  with_wide_packs<T>(
      parts, {&in.x, &output, &grad_y, &gradients.x, &gradients.residual}, [&]<int n, PackOf of>() {
        const auto from = GradientPacks<T, n>::template of<Space>(in, y, grad_y);
        gradients_of_elements<n, of, T>(space, in, from, parts, saved, coefficients, gradients);
      });
}

/// Writes the parameters' gradients. Returns what grad_x needs.
template <class T, class Space>
Tensor join_gradients(const Space& space, const BatchNormInputs& in, const ChannelParts& parts,
                      const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                      const BatchNormGradients& gradients) {
  using Wide = SumOf<T>;
  const Tensor partial = Tensor::empty({2, parts.count()}, DType::f64, in.x.device());
  Tensor coefficients = Tensor::empty({2, parts.channels}, saved.mean.dtype(), in.x.device());
  const Tensor& output = in.relu ? y : in.x;
  with_packs(parts, {&in.x, &output, &grad_y}, [&]<int n, PackOf of>() {
    if (parts.by_columns) {
      constexpr int together = channels_of_a_pack(n, of);
      const auto from = GradientPacks<T, together>::template of<Space>(in, y, grad_y);
      return gradients_of_columns<together, T>(space, from, parts, saved.mean, partial);
    }
    const auto from = GradientPacks<T, n>::template of<Space>(in, y, grad_y);
    gradients_of_teams<n, T>(space, from, parts, saved.mean, partial);
  });
  const auto address = [](const Tensor& t) {
    return t.defined() ? view<Space, Wide, 1>(t).data() : nullptr;
  };
  const JoinGradients<Wide> join{parts,
                                 flat_view<Space, const double>(partial).data(),
                                 view<Space, const Wide, 1>(saved.inverse_std).data(),
                                 address(gradients.weight),
                                 address(gradients.bias),
                                 gradients.accumulate_weight,
                                 gradients.accumulate_bias,
                                 flat_view<Space, Wide>(coefficients).data()};
  for_each_short_row("lockstep::batch_norm_join_gradients", space, parts.channels,
                     parts.of_a_channel(), join);
  return coefficients;
}

/// What grad_x needs, from the sums of all ranks.
template <class Wide, class Space>
Tensor coefficients_of_all(const Space& space, const BatchNormSaved& saved, const Tensor& sums,
                           const Tensor& count) {
  Tensor coefficients = Tensor::empty(sums.shape(), sums.dtype(), sums.device());
  const auto out = view<Space, Wide, 2>(coefficients);
  const auto all = view<Space, const Wide, 2>(sums);
  const auto inverse_std = view<Space, const Wide, 1>(saved.inverse_std);
  const auto counted = view<Space, const double, 1>(count);
  for_each(
      "lockstep::sync_batch_norm_coefficients", space, sums.size(1), KOKKOS_LAMBDA(std::int64_t c) {
        out(0, c) = static_cast<Wide>(all(0, c) / counted(0));
        out(1, c) = static_cast<Wide>(all(1, c) / counted(0) * inverse_std(c));
      });
  return coefficients;
}

}  // namespace

void batch_norm_device_backward(const BatchNormInputs& inputs, bool training,
                                const BatchNormSaved& saved, const Tensor& y, const Tensor& grad_y,
                                const BatchNormGradients& gradients) {
  const ChannelParts parts(planes(inputs.x), size_of(inputs.x.dtype()));
  dispatch(current_stream(inputs.x.device()), [&](const auto& space) {
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      Tensor coefficients;
      if ((training && gradients.x.defined()) || gradients.weight.defined() ||
          gradients.bias.defined()) {
        coefficients = join_gradients<T>(space, inputs, parts, saved, y, grad_y, gradients);
      }
      write_gradients<T>(space, inputs, parts, saved, y, grad_y, training ? coefficients : Tensor(),
                         gradients);
    });
  });
}

void sync_batch_norm_device_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                                     const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                                     const Tensor& count, const Tensor& grad_x, bool accumulate) {
  const ChannelParts parts(planes(inputs.x), size_of(inputs.x.dtype()));
  dispatch(current_stream(inputs.x.device()), [&](const auto& space) {
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      const Tensor coefficients = coefficients_of_all<SumOf<T>>(space, saved, sums, count);
      write_gradients<T>(space, inputs, parts, saved, y, grad_y, coefficients,
                         {.x = grad_x, .accumulate_x = accumulate});
    });
  });
}

}  // namespace lockstep::detail
