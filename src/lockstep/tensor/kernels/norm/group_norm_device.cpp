#include <lockstep/tensor/kernels/norm/group_norm_device.hpp>

#include <cmath>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/divisor.hpp>
#include <lockstep/tensor/kernels/packed_row.hpp>
#include <lockstep/tensor/sum_dtype.hpp>

namespace lockstep::detail {
namespace {

/// x[N,C, ...] cut into rows, one for each group of a sample. A channel's positions lie side by
/// side.
class GroupRows {
 public:
  GroupRows(const Tensor& x, std::int64_t groups)
      : rows_(x.size(0) * groups),
        channels_(x.size(1) / groups),
        positions_(x.numel() / (x.size(0) * x.size(1))),
        by_positions_(positions_, width()),
        by_groups_(groups, rows_) {}

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t rows() const { return rows_; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t channels() const { return channels_; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t positions() const { return positions_; }
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t width() const { return channels_ * positions_; }
  /// The first channel of row r.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t first(std::int64_t r) const {
    return by_groups_.remainder(r) * channels_;
  }
  /// The channel of column i, counted from the row's first.
  [[nodiscard]] KOKKOS_FUNCTION std::int64_t channel(std::int64_t i) const {
    return by_positions_.quotient(i);
  }

 private:
  std::int64_t rows_, channels_, positions_;
  Divisor by_positions_, by_groups_;
};

/// A parameter of each channel, which may be absent.
template <class T>
struct OfChannels {
  const T* data;
  T absent;

  template <class Space>
  static OfChannels of(const Tensor& t, T absent) {
    return {t.defined() ? flat_view<Space, const T>(t).data() : nullptr, absent};
  }
  [[nodiscard]] KOKKOS_FUNCTION T operator[](std::int64_t c) const {
    return data ? data[c] : absent;
  }
};

template <int n, class T, class Space>
void group_norm_device_kernel(const Space& space, const Tensor& x, std::int64_t groups,
                              const Tensor& weight, const Tensor& bias, double eps, const Tensor& y,
                              const Tensor& mean, const Tensor& rstd) {
  using Wide = SumOf<T>;
  const GroupRows g(x, groups);
  const T* const in = flat_view<Space, const T>(x).data();
  T* const out = flat_view<Space, T>(y).data();
  Wide *const means = flat_view<Space, Wide>(mean).data(), *const inverses =
                                                               flat_view<Space, Wide>(rstd).data();
  const auto w = OfChannels<Wide>::template of<Space>(weight, Wide{1}),
             b = OfChannels<Wide>::template of<Space>(bias, Wide{0});
  const Wide epsilon = static_cast<Wide>(eps);
  for_each_row(
      "lockstep::group_norm_device_forward", space, g.rows(), g.width() / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const PackedRow<n> row(r * g.width(), g.width());
        const Wide count = static_cast<Wide>(g.width());
        const Wide mu = row.template sum<Wide>(
                            lanes, [](std::int64_t, Wide value) { return value; }, in) /
                        count;
        const Wide squares = row.template sum<Wide>(
            lanes, [&](std::int64_t, Wide value) { return (value - mu) * (value - mu); }, in);
        const Wide inverse = Wide{1} / std::sqrt(squares / count + epsilon);
        const std::int64_t first = g.first(r);
        row.set(
            lanes, false, out,
            [&](std::int64_t i, Wide value) {
              const std::int64_t c = first + g.channel(i);
              return (value - mu) * (w[c] * inverse) + b[c];
            },
            in);
        lanes.once([&] {
          means[r] = mu;
          inverses[r] = inverse;
        });
      });
}

template <int n, class T, class Space>
void group_norm_device_sums_kernel(const Space& space, const GroupNormRows& rows,
                                   const Tensor& sums, const Tensor& products) {
  using Wide = SumOf<T>;
  const GroupRows g(rows.x, rows.groups);
  const T *const in = flat_view<Space, const T>(rows.x).data(),
                 *const dy = flat_view<Space, const T>(rows.grad_y).data();
  const Wide *const means = flat_view<Space, const Wide>(rows.mean).data(),
                    *const inverses = flat_view<Space, const Wide>(rows.rstd).data();
  Wide *const of_dy = flat_view<Space, Wide>(sums).data(), *const of_product =
                                                               flat_view<Space, Wide>(products)
                                                                   .data();
  for_each_row(
      "lockstep::group_norm_device_sums", space, g.rows() * g.channels(), g.positions() / n,
      KOKKOS_LAMBDA(std::int64_t k, const Lanes<Space>& lanes) {
        const PackedRow<n> plane(k * g.positions(), g.positions());
        const Wide mu = means[k / g.channels()], inverse = inverses[k / g.channels()];
        const auto found = plane.template sums<Wide, 2>(
            lanes,
            [&](auto which, std::int64_t, Wide gradient, Wide value) {
              return which() == 0 ? gradient : gradient * ((value - mu) * inverse);
            },
            dy, in);
        lanes.once([&] {
          of_dy[k] = found[0];
          of_product[k] = found[1];
        });
      });
}

template <int n, class T, class Space>
void group_norm_device_backward_kernel(const Space& space, const GroupNormRows& rows,
                                       const Tensor& weight, const Tensor& sums,
                                       const Tensor& products, bool accumulate,
                                       const Tensor& grad_x) {
  using Wide = SumOf<T>;
  const GroupRows g(rows.x, rows.groups);
  const T *const in = flat_view<Space, const T>(rows.x).data(),
                 *const dy = flat_view<Space, const T>(rows.grad_y).data();
  const Wide *const means = flat_view<Space, const Wide>(rows.mean).data(),
                    *const inverses = flat_view<Space, const Wide>(rows.rstd).data(),
                    *const of_dy = flat_view<Space, const Wide>(sums).data(),
                    *const of_product = flat_view<Space, const Wide>(products).data();
  T* const out = flat_view<Space, T>(grad_x).data();
  const auto weights = OfChannels<Wide>::template of<Space>(weight, Wide{1});
  // dx = a w dy + b x + c, as in group_norm.cpp.
  for_each_row(
      "lockstep::group_norm_device_backward", space, g.rows(), g.width() / n,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        const std::int64_t first = g.first(r);
        const auto totals =
            lanes.of_width(g.channels()).template sums<Wide, 2>([&](auto which, std::int64_t k) {
              const std::int64_t at = r * g.channels() + k;
              return weights[first + k] * (which() == 0 ? of_dy[at] : of_product[at]);
            });
        const Wide mu = means[r], a = inverses[r], width = static_cast<Wide>(g.width());
        const Wide b = -totals[1] * a * a / width, c = -totals[0] * a / width - b * mu;
        const PackedRow<n> row(r * g.width(), g.width());
        row.set(
            lanes, accumulate, out,
            [&](std::int64_t i, Wide gradient, Wide value) {
              return weights[first + g.channel(i)] * a * gradient + (b * value + c);
            },
            dy, in);
      });
}

/// Calls f.template operator()<n, T>(space) with the n of packs of Ts in rows of this width.
template <class F>
void with_packs_of_groups(std::int64_t width, std::initializer_list<const Tensor*> tensors,
                          const F& f) {
  const Tensor& first = **tensors.begin();
  dispatch(current_stream(first.device()), [&](const auto& space) {
    dispatch_stored(first.dtype(), "group_norm", [&]<class T>() {
      with_packed_rows<T>(width, tensors, [&]<int n>() { f.template operator()<n, T>(space); });
    });
  });
}

}  // namespace

void group_norm_device_forward(const Tensor& x, std::int64_t groups, const Tensor& weight,
                               const Tensor& bias, double eps, const Tensor& y, const Tensor& mean,
                               const Tensor& rstd) {
  with_packs_of_groups(
      GroupRows(x, groups).width(), {&x, &y}, [&]<int n, class T>(const auto& space) {
        group_norm_device_kernel<n, T>(space, x, groups, weight, bias, eps, y, mean, rstd);
      });
}

void group_norm_device_sums(const GroupNormRows& rows, const Tensor& sums, const Tensor& products) {
  with_packs_of_groups(GroupRows(rows.x, rows.groups).positions(), {&rows.x, &rows.grad_y},
                       [&]<int n, class T>(const auto& space) {
                         group_norm_device_sums_kernel<n, T>(space, rows, sums, products);
                       });
}

void group_norm_device_backward(const GroupNormRows& rows, const Tensor& weight, const Tensor& sums,
                                const Tensor& products, bool accumulate, const Tensor& grad_x) {
  with_packs_of_groups(GroupRows(rows.x, rows.groups).width(), {&rows.x, &rows.grad_y, &grad_x},
                       [&]<int n, class T>(const auto& space) {
                         group_norm_device_backward_kernel<n, T>(space, rows, weight, sums,
                                                                 products, accumulate, grad_x);
                       });
}

}  // namespace lockstep::detail
