#include <lockstep/tensor/kernels/loss/ctc_loss.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/elementwise/math_functions.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>

namespace lockstep {
namespace {

template <class T>
constexpr T none = -std::numeric_limits<T>::infinity();

/// log(exp a + exp b + exp c).
template <class T>
T log_sum(T a, T b, T c) {
  const T ab = a < b ? b : a, largest = ab < c ? c : ab;
  const T at = largest == none<T> ? T{0} : largest;
  return math::log(math::exp(a - at) + math::exp(b - at) + math::exp(c - at)) + at;
}

/// CtcTargets as arrays, for a task.
struct TargetArrays {
  HostArray labels, first, frames;
  std::int64_t blank;

  [[nodiscard]] std::int64_t label(std::int64_t i) const { return number(labels, i); }
  [[nodiscard]] std::int64_t first_of(std::int64_t n) const { return number(first, n); }
  [[nodiscard]] std::int64_t frames_of(std::int64_t n) const { return number(frames, n); }

 private:
  [[nodiscard]] static std::int64_t number(const HostArray& t, std::int64_t i) {
    return static_cast<const std::int64_t*>(t.data())[i];
  }
};

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

  void take(const TargetArrays& targets, std::int64_t n) {
    const auto begin = targets.first_of(n);
    count = 2 * (targets.first_of(n + 1) - begin) + 1;
    const auto size = static_cast<std::size_t>(count) + 4;
    label.assign(size, targets.blank);
    skip.assign(size, none<T>);
    now.assign(size, none<T>);
    next.assign(size, none<T>);
    emitted.resize(size);
    posterior.resize(size);
    for (std::int64_t s = 1; s < count; s += 2) {
      const auto at = static_cast<std::size_t>(s);
      label[at] = targets.label(begin + s / 2);
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
void forward_of_sample(const HostArray& x, const TargetArrays& targets, std::int64_t n,
                       const HostArray& alpha, const HostArray& losses) {
  auto& states = States<T>::of_this_thread();
  states.take(targets, n);
  const std::int64_t samples = x.size(1), classes = x.size(2), count = states.count;
  const std::int64_t frames = targets.frames_of(n), width = alpha.size(2);
  const auto* const rows = static_cast<const T*>(x.data());
  T* kept = static_cast<T*>(alpha.data()) + n * alpha.size(1) * width;
  T *before = states.now.data() + 2, *after = states.next.data() + 2;
  before[0] = T{0};  // as if a frame before the first were in state 0, which stays or advances
  const T *emitted = states.emitted.data(), *skip = states.skip.data();
  for (std::int64_t t = 0; t < frames; ++t, kept += width) {
    states.emit(rows + (t * samples + n) * classes);
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      after[s] = log_sum(before[s], before[s - 1], before[s - 2] + skip[s]) + emitted[s];
    }
    std::copy_n(after, count, kept);
    std::swap(before, after);
  }
  const T last = before[count - 1], one_before = count > 1 ? before[count - 2] : none<T>;
  static_cast<T*>(losses.data())[n] = -log_sum(last, one_before, none<T>);
}

template <class T>
void backward_of_sample(T grad_loss, const HostArray& x, const TargetArrays& targets,
                        std::int64_t n, const HostArray& alpha, T loss, const HostArray& grad_x) {
  if (!(loss < std::numeric_limits<T>::infinity())) return;
  auto& states = States<T>::of_this_thread();
  states.take(targets, n);
  const std::int64_t samples = x.size(1), classes = x.size(2), count = states.count;
  const std::int64_t frames = targets.frames_of(n), width = alpha.size(2);
  const auto* const rows = static_cast<const T*>(x.data());
  auto* const out = static_cast<T*>(grad_x.data());
  const T* const kept = static_cast<const T*>(alpha.data()) + n * alpha.size(1) * width;
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
    const T* const reached = kept + t * width;
    T* const row = out + (t * samples + n) * classes;
    T* const posterior = states.posterior.data();
#pragma omp simd
    for (std::int64_t s = 0; s < count; ++s) {
      posterior[s] = math::exp(reached[s] + here[s] + loss);
      here[s] += emitted[s];
    }
    for (std::int64_t s = 0; s < count; ++s) {
      row[states.label[static_cast<std::size_t>(s)]] -= grad_loss * posterior[s];
    }
    std::swap(behind, here);
  }
}

}  // namespace

void ctc_forward(const Tensor& x, const CtcTargets& targets, const Tensor& alpha,
                 const Tensor& losses) {
  ensure_kokkos();
  dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
    host_task(
        "ctc_loss",
        [blank = targets.blank](const HostArray& x, const HostArray& labels, const HostArray& first,
                                const HostArray& frames, const HostArray& alpha,
                                const HostArray& losses) {
          const TargetArrays targets{labels, first, frames, blank};
          for_each("lockstep::ctc_forward", HostExecutionSpace(), x.size(1),
                   [&](std::int64_t n) { forward_of_sample<T>(x, targets, n, alpha, losses); });
        },
        x, targets.labels, targets.first, targets.frames, alpha, losses);
  });
}

void ctc_backward(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                  const Tensor& alpha, const Tensor& losses, bool accumulate,
                  const Tensor& grad_x) {
  if (!accumulate) fill(grad_x, 0.0);
  dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
    host_task(
        "ctc_loss",
        [blank = targets.blank](const HostArray& grad_losses, const HostArray& x,
                                const HostArray& labels, const HostArray& first,
                                const HostArray& frames, const HostArray& alpha,
                                const HostArray& losses, const HostArray& grad_x) {
          const TargetArrays targets{labels, first, frames, blank};
          const auto* const g = static_cast<const T*>(grad_losses.data());
          const auto* const l = static_cast<const T*>(losses.data());
          for_each("lockstep::ctc_backward", HostExecutionSpace(), x.size(1), [&](std::int64_t n) {
            backward_of_sample<T>(g[n], x, targets, n, alpha, l[n], grad_x);
          });
        },
        grad_losses, x, targets.labels, targets.first, targets.frames, alpha, losses, grad_x);
  });
}

}  // namespace lockstep
