#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/loss/ctc_device.hpp>

namespace lockstep {
namespace {

template <class T>
constexpr T none = -std::numeric_limits<T>::infinity();

using detail::log_sum;

template <class T>
T* data_of(const Tensor& t) {
  return static_cast<T*>(t.data());
}

std::int64_t number(const Tensor& t, std::int64_t i) { return data_of<const std::int64_t>(t)[i]; }

/// The place of a sample's first state in alpha.
std::int64_t first_state(const Tensor& x, const CtcTargets& targets, std::int64_t n) {
  return x.size(0) * (2 * number(targets.first, n) + n);
}

/// A sample's labels with a blank around each, and a thread's work arrays. These have two extra
/// places before state 0 and after the last, which always hold -infinity.
template <class T>
struct States {
  std::vector<std::int64_t> label;
  std::vector<T> skip;  ///< 0 where a state may follow the one before the last, else -infinity
  std::vector<T> now, next, emitted, posterior;
  std::int64_t count = 0;

  static States& of_this_thread() {
    static thread_local States states;
    return states;
  }

  void take(const CtcTargets& targets, std::int64_t n) {
    const auto* const given =
        data_of<const std::int64_t>(targets.labels) + number(targets.first, n);
    count = 2 * number(targets.lengths, n) + 1;
    const auto size = static_cast<std::size_t>(count) + 4;
    label.assign(size, targets.blank);
    skip.assign(size, none<T>);
    now.assign(size, none<T>);
    next.assign(size, none<T>);
    emitted.resize(size);
    posterior.resize(size);
    for (std::int64_t s = 1; s < count; s += 2) {
      const auto at = static_cast<std::size_t>(s);
      label[at] = given[s / 2];
      if (s > 1 && label[at] != label[at - 2]) skip[at] = T{0};
    }
  }

  /// Sets the log-probabilities of the states' labels in the frame `row`.
  void emit(const T* row) {
    for (std::int64_t s = 0; s < count; ++s) {
      emitted[static_cast<std::size_t>(s)] = row[label[static_cast<std::size_t>(s)]];
    }
  }
};

template <class T>
void forward_of_sample(const Tensor& x, const CtcTargets& targets, std::int64_t n,
                       const Tensor& alpha, const Tensor& losses) {
  auto& states = States<T>::of_this_thread();
  states.take(targets, n);
  const std::int64_t samples = x.size(1), classes = x.size(2), count = states.count;
  const std::int64_t frames = number(targets.frames, n);
  const auto* const rows = data_of<const T>(x);
  T* kept = data_of<T>(alpha) + first_state(x, targets, n);
  T *before = states.now.data() + 2, *after = states.next.data() + 2;
  before[0] = T{0};  // as if a frame before the first were in state 0, which stays or advances
  const T *emitted = states.emitted.data(), *skip = states.skip.data();
  for (std::int64_t t = 0; t < frames; ++t, kept += count) {
    states.emit(rows + (t * samples + n) * classes);
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      after[s] = log_sum(before[s], before[s - 1], before[s - 2] + skip[s]) + emitted[s];
    }
    std::copy_n(after, count, kept);
    std::swap(before, after);
  }
  const T last = before[count - 1], one_before = count > 1 ? before[count - 2] : none<T>;
  data_of<T>(losses)[n] = -log_sum(last, one_before, none<T>);
}

template <class T>
void backward_of_sample(T grad_loss, const Tensor& x, const CtcTargets& targets, std::int64_t n,
                        const Tensor& alpha, T loss, const Tensor& grad_x) {
  if (!(loss < std::numeric_limits<T>::infinity())) return;
  auto& states = States<T>::of_this_thread();
  states.take(targets, n);
  const std::int64_t samples = x.size(1), classes = x.size(2), count = states.count;
  const std::int64_t frames = number(targets.frames, n);
  const auto* const rows = data_of<const T>(x);
  auto* const out = data_of<T>(grad_x);
  const T* const kept = data_of<const T>(alpha) + first_state(x, targets, n);
  T *behind = states.now.data(), *here = states.next.data();
  const T *emitted = states.emitted.data(), *skip = states.skip.data();
  // behind[s]: log-probability of the frames that follow, given state s in this one, emissions
  // included. It starts with the possible last states.
  for (std::int64_t t = frames - 1; t >= 0; --t) {
    states.emit(rows + (t * samples + n) * classes);
    const bool is_last = t == frames - 1;
    if (is_last) {
      std::fill_n(here, count, none<T>);
      here[count - 1] = T{0};
      if (count > 1) here[count - 2] = T{0};
    } else {
#pragma omp simd
      for (std::int64_t s = 0; s < count; ++s) {
        here[s] = log_sum(behind[s], behind[s + 1], behind[s + 2] + skip[s + 2]);
      }
    }
    const T* const reached = kept + t * count;
    T* const row = out + (t * samples + n) * classes;
    T* const posterior = states.posterior.data();
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      posterior[s] = math::exp(reached[s] + here[s] + loss);
      here[s] += emitted[s];
    }
    for (std::int64_t s = 0; s < count; ++s) {
      T& sum = row[states.label[static_cast<std::size_t>(s)]];
      sum = math::detail::multiply_add(-grad_loss, posterior[s], sum);
    }
    std::swap(behind, here);
  }
}

/// The losses' shares in the result.
template <class Space>
void shares_kernel(const Space& space, const CtcTargets& targets, bool mean,
                   const Tensor& factors) {
  const auto length = flat_view<Space, const std::int64_t>(targets.lengths);
  const auto factor = flat_view<Space, double>(factors);
  const std::int64_t samples = factors.numel();
  for_each(
      "lockstep::ctc_shares", space, samples, KOKKOS_LAMBDA(std::int64_t n) {
        const std::int64_t divisor = length(n) < 1 ? 1 : length(n);
        factor(n) = mean ? 1.0 / static_cast<double>(divisor * samples) : 1.0;
      });
}

/// A loss, or 0 where it is infinite and those are.
template <class T, class Space>
struct FiniteLoss {
  decltype(flat_view<Space, const T>(Tensor())) losses;
  bool zero_infinity;

  [[nodiscard]] KOKKOS_FUNCTION T operator()(std::int64_t n) const {
    return zero_infinity && losses(n) == std::numeric_limits<T>::infinity() ? T{0} : losses(n);
  }
};

/// In f64, in the order of the samples: a batch has few.
template <class T, class Space>
void reduce_kernel(const Space& space, const FiniteLoss<T, Space>& loss, const Tensor& factors,
                   const Tensor& result) {
  const auto factor = flat_view<Space, const double>(factors);
  const auto out = flat_view<Space, T>(result);
  const std::int64_t samples = factors.numel();
  for_each(
      "lockstep::ctc_reduce", space, 1, KOKKOS_LAMBDA(std::int64_t) {
        double total = 0.0;
        for (std::int64_t n = 0; n < samples; ++n) {
          total += static_cast<double>(loss(n)) * factor(n);
        }
        out(0) = static_cast<T>(total);
      });
}

template <class T, class Space>
void copy_kernel(const Space& space, const FiniteLoss<T, Space>& loss, const Tensor& result) {
  const auto out = flat_view<Space, T>(result);
  for_each(
      "lockstep::ctc_losses", space, result.numel(),
      KOKKOS_LAMBDA(std::int64_t n) { out(n) = loss(n); });
}

}  // namespace

Tensor ctc_forward(const Tensor& x, const CtcTargets& targets, const Tensor& losses) {
  const std::int64_t samples = x.size(1);
  Tensor alpha =
      Tensor::empty({x.size(0) * (2 * targets.labels.numel() + samples)}, x.dtype(), x.device());
  if (x.device().type != DeviceType::host) {
    detail::ctc_forward_on_device(x, targets, alpha, losses);
    return alpha;
  }
  ensure_kokkos();
  dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
    for_each("lockstep::ctc_forward", HostExecutionSpace(), samples,
             [&](std::int64_t n) { forward_of_sample<T>(x, targets, n, alpha, losses); });
  });
  return alpha;
}

void ctc_reduce(const Tensor& losses, const CtcTargets& targets, Reduction reduction,
                bool zero_infinity, const Tensor& factors, const Tensor& result) {
  dispatch(current_stream(losses.device()), [&](const auto& space) {
    using Space = std::decay_t<decltype(space)>;
    dispatch_floating(losses.dtype(), "ctc_loss", [&]<class T>() {
      shares_kernel(space, targets, reduction == Reduction::mean, factors);
      const FiniteLoss<T, Space> loss{flat_view<Space, const T>(losses), zero_infinity};
      if (reduction == Reduction::none) {
        copy_kernel(space, loss, result);
      } else {
        reduce_kernel(space, loss, factors, result);
      }
    });
  });
}

void ctc_backward(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                  const Tensor& alpha, const Tensor& losses, bool accumulate,
                  const Tensor& grad_x) {
  if (!accumulate) fill(grad_x, 0.0);
  if (x.device().type != DeviceType::host) {
    detail::ctc_backward_on_device(grad_losses, x, targets, alpha, losses, grad_x);
    return;
  }
  dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
    for_each("lockstep::ctc_backward", HostExecutionSpace(), x.size(1), [&](std::int64_t n) {
      backward_of_sample<T>(data_of<const T>(grad_losses)[n], x, targets, n, alpha,
                            data_of<const T>(losses)[n], grad_x);
    });
  });
}

}  // namespace lockstep
