#include <lockstep/tensor/kernels/norm/batch_norm_device.hpp>

#include <cmath>
#include <limits>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/channel_packs.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_planes.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

/// f64[2, parts]: the mean of each part and the sum of the squares of the distances from it.
Tensor statistics_of_parts(const Tensor& x, const ChannelParts& parts) {
  return Tensor::empty({2, parts.count()}, DType::f64, x.device());
}

/// A part's mean and sum of squares, from the sums of the distances from `center` and their
/// squares.
KOKKOS_FUNCTION void store_statistics(double* to, std::int64_t part, std::int64_t parts,
                                      double center, const std::array<double, 2>& sums,
                                      std::int64_t values) {
  const double shift = sums[0] / static_cast<double>(values);
  to[part] = center + shift;
  to[parts + part] = sums[1] - sums[0] * shift;
}

// One reading of x gives both sums. Subtracting the mean of the part's first values, instead of its
// own, loses no digits: of 1,024 among v values, it is within sqrt(v / 1024 - 1) standard
// deviations of the part's mean, whatever the values are. Products are of Wide, long sums of f64.
template <int n, class T, class Space>
void statistics_of_teams(const Space& space, const Tensor& x, const ChannelParts& parts,
                         const Tensor& partial) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  double* const out = flat_view<Space, double>(partial).data();
  const PacksOfParts<n> packs(parts);
  const std::int64_t count = parts.count();
  for_each_row(
      "lockstep::batch_norm_statistics_of_teams", space, count, parts.length / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        constexpr int loads = PacksOfParts<n>::loads;
        const auto part = packs[r];
        const std::int64_t first = part.packs() < 1024 / n ? part.packs() : 1024 / n;
        const double of_first = lanes.of_width(first).sum([&](std::int64_t i) {
          const auto pack = load_pack<n>(in, packs.place(part, part.begin + i));
          Wide sum{0};
          for (int e = 0; e < n; ++e) sum += static_cast<Wide>(pack.values[e]);
          return static_cast<double>(sum);
        });
        const Wide center = static_cast<Wide>(of_first / static_cast<double>(first * n));
        const std::int64_t strip = part.strip();
        const auto sums =
            lanes.of_width(strip).template sums<double, 2>([&](auto which, std::int64_t i) {
              Pack<T, n> loaded[loads];
              for (int l = 0; l < loads; ++l) {
                const std::int64_t k = part.begin + i + l * strip;
                loaded[l] = load_pack<n>(in, packs.place(part, k < part.end ? k : part.begin));
              }
              Wide sum{0};
              for (int l = 0; l < loads; ++l) {
                const bool is_inside = part.begin + i + l * strip < part.end;
                for (int e = 0; e < n; ++e) {
                  const Wide d = static_cast<Wide>(loaded[l].values[e]) - center;
                  sum += is_inside ? (which() == 0 ? d : d * d) : Wide{0};
                }
              }
              return static_cast<double>(sum);
            });
        lanes.once([&] {
          store_statistics(out, r, count, static_cast<double>(center), sums, part.packs() * n);
        });
      });
}

template <int n, class T, class Space>
void statistics_of_columns(const Space& space, const Tensor& x, const ChannelParts& parts,
                           const Tensor& partial) {
  using Wide = SumOf<T>;
  const T* const in = flat_view<Space, const T>(x).data();
  double* const out = flat_view<Space, double>(partial).data();
  const std::int64_t count = parts.count();
  const ColumnsOfParts<n> columns(parts);
  for_each(
      "lockstep::batch_norm_statistics_of_columns", space, count / n,
      KOKKOS_LAMBDA(std::int64_t i) {
        const auto part = columns[i];
        const auto centers = load_pack<n>(in, columns.place(part, part.begin));
        const auto sums =
            sums_of_rows<4, double, 2 * n>(part.begin, part.end, [&](std::int64_t row) {
              const auto pack = load_pack<n>(in, columns.place(part, row));
              std::array<double, 2 * n> found;
              for (int e = 0; e < n; ++e) {
                const double d = static_cast<double>(static_cast<Wide>(pack.values[e])) -
                                 static_cast<double>(static_cast<Wide>(centers.values[e]));
                found[2 * e] = d;
                found[2 * e + 1] = d * d;
              }
              return found;
            });
        for (int e = 0; e < n; ++e) {
          store_statistics(out, i * n + e, count,
                           static_cast<double>(static_cast<Wide>(centers.values[e])),
                           {sums[2 * e], sums[2 * e + 1]}, part.end - part.begin);
        }
      });
}

template <class T, class Space>
Tensor statistics(const Space& space, const Tensor& x, const ChannelParts& parts) {
  Tensor partial = statistics_of_parts(x, parts);
  with_packs(parts, {&x}, [&]<int n, PackOf of>() {
    if (!parts.by_columns) return statistics_of_teams<n, T>(space, x, parts, partial);
    statistics_of_columns<channels_of_a_pack(n, of), T>(space, x, parts, partial);
  });
  return partial;
}

/// Mean and biased variance of a channel from those of its parts (Chan, Golub and LeVeque 1979).
struct JoinedParts {
  ChannelParts parts;
  const double* partial;
  double count;

  template <class Lanes>
  KOKKOS_FUNCTION ChannelStatistics of(std::int64_t c, const Lanes& lanes) const {
    const double mean = lanes.sum([&](std::int64_t i) {
      return static_cast<double>(parts.values_of(i)) * partial[parts.index(c, i)];
    }) / count;
    const double* const squares = partial + parts.count();
    const double all = lanes.sum([&](std::int64_t i) {
      const std::int64_t at = parts.index(c, i);
      const double distance = partial[at] - mean;
      return squares[at] + static_cast<double>(parts.values_of(i)) * distance * distance;
    });
    return {mean, all / count};
  }
};

template <class Space>
JoinedParts joined(const ChannelParts& parts, const Tensor& partial) {
  return {parts, flat_view<Space, const double>(partial).data(),
          static_cast<double>(parts.samples * parts.positions)};
}

/// Of channel c, for batch_norm_forward.
template <class Wide>
struct JoinForForward {
  JoinedParts parts;
  double momentum, eps;
  Wide *running_mean, *running_var, *saved_mean, *saved_inverse;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(std::int64_t c, const Lanes& lanes) const {
    const ChannelStatistics batch = parts.of(c, lanes);
    lanes.once([&] {
      const double unbiased = batch.variance * parts.count / (parts.count - 1);
      running_mean[c] = static_cast<Wide>((1 - momentum) * running_mean[c] + momentum * batch.mean);
      running_var[c] = static_cast<Wide>((1 - momentum) * running_var[c] + momentum * unbiased);
      saved_mean[c] = static_cast<Wide>(batch.mean);
      saved_inverse[c] = static_cast<Wide>(1 / std::sqrt(batch.variance + eps));
    });
  }
};

/// Of channel c, for batch_norm_statistics.
struct JoinForRank {
  JoinedParts parts;
  double* out;

  template <class Lanes>
  KOKKOS_FUNCTION void operator()(std::int64_t c, const Lanes& lanes) const {
    const ChannelStatistics own = parts.of(c, lanes);
    lanes.once([&] {
      if (c == 0) out[0] = parts.count;
      out[1 + c] = own.mean;
      out[1 + parts.parts.channels + c] = own.variance;
    });
  }
};

template <class Wide, class Space>
void save_running(const Space& space, const BatchNormInputs& in, double eps,
                  const BatchNormSaved& saved) {
  const auto mean = view<Space, const Wide, 1>(in.running_mean);
  const auto variance = view<Space, const Wide, 1>(in.running_var);
  const auto saved_mean = view<Space, Wide, 1>(saved.mean);
  const auto saved_inverse = view<Space, Wide, 1>(saved.inverse_std);
  for_each(
      "lockstep::batch_norm_running", space, in.weight.numel(), KOKKOS_LAMBDA(std::int64_t c) {
        saved_mean(c) = mean(c);
        saved_inverse(c) = static_cast<Wide>(1 / std::sqrt(static_cast<double>(variance(c)) + eps));
      });
}

template <int n, PackOf of, class T, class Space>
void normalise(const Space& space, const BatchNormInputs& in, const ChannelParts& parts,
               const BatchNormSaved& saved, const Tensor& y) {
  using Wide = SumOf<T>;
  const T* const x = flat_view<Space, const T>(in.x).data();
  T* const out = flat_view<Space, T>(y).data();
  const bool has_residual = in.residual.defined();
  const T* const residual = flat_view<Space, const T>(has_residual ? in.residual : in.x).data();
  const auto weight = ByColumn<Wide>::template of<Space>(in.weight),
             bias = ByColumn<Wide>::template of<Space>(in.bias),
             mean = ByColumn<Wide>::template of<Space>(saved.mean),
             inverse_std = ByColumn<Wide>::template of<Space>(saved.inverse_std);
  const Wide least = in.relu ? Wide{0} : -std::numeric_limits<Wide>::infinity();
  const ChannelsOfPack<n, of> channels_of(parts);
  for_each(
      "lockstep::batch_norm_normalise", space, in.x.numel() / n, KOKKOS_LAMBDA(std::int64_t i) {
        const auto of_x = load_pack<n>(x, i);
        Pack<T, n> more{}, result;
        if (has_residual) more = load_pack<n>(residual, i);
        const auto channels = channels_of(i);
        const auto centers = channels.numbers(mean), inverses = channels.numbers(inverse_std),
                   weights = channels.numbers(weight), shifts = channels.numbers(bias);
        for (int e = 0; e < n; ++e) {
          const Wide scale = inverses.values[e] * weights.values[e];
          const Wide value = (static_cast<Wide>(of_x.values[e]) - centers.values[e]) * scale +
                             shifts.values[e] + static_cast<Wide>(more.values[e]);
          result.values[e] = static_cast<T>(value < least ? least : value);
        }
        store_pack(result, out, i);
      });
}

}  // namespace

void batch_norm_device_forward(const BatchNormInputs& inputs, bool training, double momentum,
                               double eps, const Tensor& y, const BatchNormSaved& saved) {
  const ChannelParts parts(planes(inputs.x), size_of(inputs.x.dtype()));
  dispatch(current_stream(inputs.x.device()), [&](const auto& space) {
    using Space = std::remove_cvref_t<decltype(space)>;
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      using Wide = SumOf<T>;
      if (training) {
        const Tensor partial = statistics<T>(space, inputs.x, parts);
        const JoinForForward<Wide> join{joined<Space>(parts, partial),
                                        momentum,
                                        eps,
                                        view<Space, Wide, 1>(inputs.running_mean).data(),
                                        view<Space, Wide, 1>(inputs.running_var).data(),
                                        view<Space, Wide, 1>(saved.mean).data(),
                                        view<Space, Wide, 1>(saved.inverse_std).data()};
        for_each_short_row("lockstep::batch_norm_join", space, parts.channels, parts.of_a_channel(),
                           join);
      } else {
        save_running<Wide>(space, inputs, eps, saved);
      }
      with_wide_packs<T>(parts, {&inputs.x, &inputs.residual, &y}, [&]<int n, PackOf of>() {
        normalise<n, of, T>(space, inputs, parts, saved, y);
      });
    });
  });
}

void batch_norm_device_statistics(const Tensor& x, const Tensor& part) {
  const ChannelParts parts(planes(x), size_of(x.dtype()));
  dispatch(current_stream(x.device()), [&](const auto& space) {
    using Space = std::remove_cvref_t<decltype(space)>;
    dispatch_stored(x.dtype(), "batch_norm", [&]<class T>() {
      const Tensor partial = statistics<T>(space, x, parts);
      const JoinForRank join{joined<Space>(parts, partial), view<Space, double, 1>(part).data()};
      for_each_short_row("lockstep::batch_norm_join_of_rank", space, parts.channels,
                         parts.of_a_channel(), join);
    });
  });
}

}  // namespace lockstep::detail
