#include <lockstep/tensor/kernels/norm/sync_batch_norm.hpp>

#include <limits>

#include <lockstep/tensor/kernels/conv/channel_blocks.hpp>
#include <lockstep/tensor/kernels/host_or_kernels.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_blocks.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_device.hpp>
#include <lockstep/tensor/kernels/norm/batch_norm_planes.hpp>

namespace lockstep {
namespace {

template <class T, class Space>
void statistics_kernel(const Space& space, const Tensor& input, const Tensor& part) {
  const Shape shape = detail::planes(input);
  const std::int64_t samples = shape[0], channels = shape[1], positions = shape[2];
  const double count = static_cast<double>(samples * positions);
  const auto x = view<Space, const T, 3>(input.reshape(shape));
  const auto out = view<Space, double, 1>(part);
  for_each_row(
      "lockstep::batch_norm_statistics", space, channels, positions,
      KOKKOS_LAMBDA(std::int64_t c, const Lanes<Space>& lanes) {
        const auto batch = detail::statistics_of_channel<SumOf<T>>(x, c, samples, count, lanes);
        lanes.once([&] {
          if (c == 0) out(0) = count;
          out(1 + c) = batch.mean;
          out(1 + channels + c) = batch.variance;
        });
      });
}

// Chan, Golub and LeVeque 1979, with shares of the values instead of counts: the values of a single
// rank are merged without rounding.
template <class T, class Space>
void join_kernel(const Space& space, const Tensor& all_parts, double momentum,
                 const Tensor& running_means, const Tensor& running_vars, const Tensor& means,
                 const Tensor& variances, const Tensor& counts) {
  const std::int64_t ranks = all_parts.size(0), channels = means.size(0);
  const auto parts = view<Space, const double, 2>(all_parts);
  const auto running_mean = view<Space, T, 1>(running_means);
  const auto running_var = view<Space, T, 1>(running_vars);
  const auto mean_of_all = view<Space, T, 1>(means), variance_of_all = view<Space, T, 1>(variances);
  const auto count = view<Space, double, 1>(counts);
  for_each(
      "lockstep::join_batch_norm_statistics", space, channels, KOKKOS_LAMBDA(std::int64_t c) {
        double seen = 0, mean = running_mean(c), variance = running_var(c);
        for (std::int64_t r = 0; r < ranks; ++r) {
          const double values = parts(r, 0);
          if (values == 0) continue;
          const double all = seen + values, before = seen / all, share = values / all;
          const double center = before == 0 ? 0 : mean, spread = before == 0 ? 0 : variance;
          const double delta = parts(r, 1 + c) - center;
          mean = center + delta * share;
          variance = spread * before + parts(r, 1 + channels + c) * share +
                     delta * delta * (before * share);
          seen = all;
        }
        if (c == 0) count(0) = seen;
        mean_of_all(c) = static_cast<T>(mean);
        variance_of_all(c) = static_cast<T>(variance);
        if (seen <= 1) return;
        const double unbiased = variance * seen / (seen - 1);
        running_mean(c) = static_cast<T>((1 - momentum) * running_mean(c) + momentum * mean);
        running_var(c) = static_cast<T>((1 - momentum) * running_var(c) + momentum * unbiased);
      });
}

template <class T, class Space>
void backward_kernel(const Space& space, const BatchNormInputs& in, const BatchNormSaved& saved,
                     const Tensor& y, const Tensor& grad_y, const Tensor& sums_of_all,
                     const Tensor& count_of_all, const Tensor& gradient, bool accumulate) {
  using Wide = SumOf<T>;
  const Shape shape = detail::planes(in.x);
  const std::int64_t samples = shape[0];
  const auto x = view<Space, const T, 3>(in.x.reshape(shape));
  const auto out = view<Space, const T, 3>((in.relu ? y : in.x).reshape(shape));
  const auto g = view<Space, const T, 3>(grad_y.reshape(shape));
  const auto grad_x = view<Space, T, 3>(gradient.reshape(shape));
  const auto weight = view<Space, const Wide, 1>(in.weight),
             mean = view<Space, const Wide, 1>(saved.mean);
  const auto inverse_std = view<Space, const Wide, 1>(saved.inverse_std);
  const auto sums = view<Space, const Wide, 2>(sums_of_all);
  const auto counted = view<Space, const double, 1>(count_of_all);
  // Nothing is below or equal to NaN, so without relu every gradient passes.
  const Wide closed = in.relu ? Wide{0} : std::numeric_limits<Wide>::quiet_NaN();
  for_each_row(
      "lockstep::sync_batch_norm_backward", space, shape[1], shape[2],
      KOKKOS_LAMBDA(std::int64_t c, const Lanes<Space>& lanes) {
        const Wide center = mean(c), scale = weight(c) * inverse_std(c);
        const double count = counted(0);
        const Wide mean_g = static_cast<Wide>(sums(0, c) / count);
        const Wide slope = static_cast<Wide>(sums(1, c) / count * inverse_std(c));
        for (std::int64_t n = 0; n < samples; ++n) {
          lanes.each([&](std::int64_t p) {
            const Wide gradient = static_cast<Wide>(g(n, c, p));
            const Wide passed = static_cast<Wide>(out(n, c, p)) <= closed ? Wide{0} : gradient;
            const Wide distance = static_cast<Wide>(x(n, c, p)) - center;
            const Wide value = scale * (passed - mean_g - distance * slope);
            const Wide before = accumulate ? static_cast<Wide>(grad_x(n, c, p)) : Wide{0};
            grad_x(n, c, p) = static_cast<T>(accumulate ? before + value : value);
          });
        }
      });
}

}  // namespace

void batch_norm_statistics(const Tensor& x, const Tensor& part) {
  if (x.numel() == 0) {
    part.zero();
    return;
  }
  if (math::device_math(x.device()) != nullptr) {
    detail::batch_norm_device_statistics(x, part);
    return;
  }
  if (is_channel_blocked(x)) {
    detail::batch_norm_blocks_statistics(x, part);
    return;
  }
  dispatch_to_host(current_stream(x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(x.dtype(), "batch_norm",
                    [&]<class T>() { statistics_kernel<T>(space, x, part); });
  });
}

void join_batch_norm_statistics(const Tensor& parts, double momentum, const Tensor& running_mean,
                                const Tensor& running_var, const Tensor& mean,
                                const Tensor& variance, const Tensor& count) {
  dispatch(current_stream(parts.device()), [&](const auto& space) {
    dispatch_floating(mean.dtype(), "batch_norm", [&]<class T>() {
      join_kernel<T>(space, parts, momentum, running_mean, running_var, mean, variance, count);
    });
  });
}

void sync_batch_norm_backward(const BatchNormInputs& inputs, const BatchNormSaved& saved,
                              const Tensor& y, const Tensor& grad_y, const Tensor& sums,
                              const Tensor& count, const Tensor& grad_x, bool accumulate) {
  if (math::device_math(inputs.x.device()) != nullptr) {
    detail::sync_batch_norm_device_backward(inputs, saved, y, grad_y, sums, count, grad_x,
                                            accumulate);
    return;
  }
  if (is_channel_blocked(inputs.x)) {
    detail::sync_batch_norm_blocks_backward(inputs, saved, y, grad_y, sums, count.item(), grad_x,
                                            accumulate);
    return;
  }
  dispatch_to_host(current_stream(inputs.x.device()), [&](const HostExecutionSpace& space) {
    dispatch_stored(inputs.x.dtype(), "batch_norm", [&]<class T>() {
      backward_kernel<T>(space, inputs, saved, y, grad_y, sums, count, grad_x, accumulate);
    });
  });
}

}  // namespace lockstep
