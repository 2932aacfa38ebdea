#include <lockstep/tensor/kernels/loss/ctc_device.hpp>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>

namespace lockstep::detail {
namespace {

/// One sample: its labels with a blank around each are the states.
template <class T>
struct CtcSample {
  std::int64_t states, frames;
  const std::int64_t* labels;
  std::int64_t blank;
  const T* x;          ///< the batch's log-probabilities
  std::int64_t begin;  ///< the place of the sample's first row of them
  std::int64_t row;    ///< elements from one frame's row to the next
  std::int64_t kept;   ///< the place of its first state in alpha

  [[nodiscard]] KOKKOS_FUNCTION std::int64_t label(std::int64_t s) const {
    return s % 2 == 0 ? blank : labels[s / 2];
  }
  [[nodiscard]] KOKKOS_FUNCTION T emitted(std::int64_t t, std::int64_t s) const {
    return x[begin + t * row + label(s)];
  }
  /// 0 where state s may follow the one before the last, else -infinity.
  [[nodiscard]] KOKKOS_FUNCTION T skip(std::int64_t s) const {
    const bool may = s % 2 == 1 && s > 1 && labels[s / 2] != labels[s / 2 - 1];
    return may ? T{0} : -std::numeric_limits<T>::infinity();
  }
};

template <class T, class Space>
struct CtcBatch {
  using Numbers = decltype(flat_view<Space, const std::int64_t>(Tensor()));
  const T* x;
  Numbers labels, first, lengths, frames;
  std::int64_t blank, all_frames, samples, classes;

  CtcBatch(const Tensor& of_x, const CtcTargets& targets)
      : x(flat_view<Space, const T>(of_x).data()),
        labels(flat_view<Space, const std::int64_t>(targets.labels)),
        first(flat_view<Space, const std::int64_t>(targets.first)),
        lengths(flat_view<Space, const std::int64_t>(targets.lengths)),
        frames(flat_view<Space, const std::int64_t>(targets.frames)),
        blank(targets.blank),
        all_frames(of_x.size(0)),
        samples(of_x.size(1)),
        classes(of_x.size(2)) {}

  [[nodiscard]] KOKKOS_FUNCTION CtcSample<T> operator[](std::int64_t n) const {
    return {.states = 2 * lengths(n) + 1,
            .frames = frames(n),
            .labels = labels.data() + first(n),
            .blank = blank,
            .x = x,
            .begin = n * classes,
            .row = samples * classes,
            .kept = all_frames * (2 * first(n) + n)};
  }
};

/// Lets the lanes see what all of them have stored: a device's reduction ends with a barrier of its
/// team.
template <class Space>
KOKKOS_FUNCTION void wait_for_row(const Lanes<Space>& lanes) {
  if constexpr (!is_host_space<Space>) {
    static_cast<void>(lanes.of_width(0).max(0, [](std::int64_t) { return 0; }));
  }
}

template <class T, class Space>
void ctc_forward_kernel(const Space& space, const CtcBatch<T, Space>& batch, const Tensor& alpha,
                        const Tensor& losses) {
  T* const all = flat_view<Space, T>(alpha).data();
  const auto loss = flat_view<Space, T>(losses);
  for_each_row(
      "lockstep::ctc_forward", space, batch.samples, 1,
      KOKKOS_LAMBDA(std::int64_t n, const Lanes<Space>& team) {
        const CtcSample<T> sample = batch[n];
        const std::int64_t states = sample.states;
        const Lanes<Space> lanes = team.of_width(states);
        constexpr T none = -std::numeric_limits<T>::infinity();
        T* const kept = all + sample.kept;
        // As if a frame before the first were in state 0, which stays or advances.
        const auto reached = [&](std::int64_t t, std::int64_t s) {
          if (s < 0) return none;
          if (t < 0) return s == 0 ? T{0} : none;
          return kept[t * states + s];
        };
        for (std::int64_t t = 0; t < sample.frames; ++t) {
          lanes.each([&](std::int64_t s) {
            kept[t * states + s] = log_sum(reached(t - 1, s), reached(t - 1, s - 1),
                                           reached(t - 1, s - 2) + sample.skip(s)) +
                                   sample.emitted(t, s);
          });
          wait_for_row(lanes);
        }
        lanes.once([&] {
          const std::int64_t last = sample.frames - 1;
          loss(n) = -log_sum(reached(last, states - 1), reached(last, states - 2), none);
        });
      });
}

/// beta[t][s]: log-probability of the frames after t, given state s in frame t.
template <class T, class Space>
void ctc_beta_kernel(const Space& space, const CtcBatch<T, Space>& batch, const Tensor& beta) {
  T* const all = flat_view<Space, T>(beta).data();
  for_each_row(
      "lockstep::ctc_beta", space, batch.samples, 1,
      KOKKOS_LAMBDA(std::int64_t n, const Lanes<Space>& team) {
        const CtcSample<T> sample = batch[n];
        const std::int64_t states = sample.states, last = sample.frames - 1;
        const Lanes<Space> lanes = team.of_width(states);
        constexpr T none = -std::numeric_limits<T>::infinity();
        T* const kept = all + sample.kept;
        // With the emission in frame t.
        const auto behind = [&](std::int64_t t, std::int64_t s) {
          return s < states ? kept[t * states + s] + sample.emitted(t, s) : none;
        };
        for (std::int64_t t = last; t >= 0; --t) {
          lanes.each([&](std::int64_t s) {
            if (t == last) {
              kept[t * states + s] = s >= states - 2 ? T{0} : none;
              return;
            }
            const T skip = s + 2 < states ? sample.skip(s + 2) : none;
            kept[t * states + s] =
                log_sum(behind(t + 1, s), behind(t + 1, s + 1), behind(t + 1, s + 2) + skip);
          });
          wait_for_row(lanes);
        }
      });
}

/// A thread for each frame of each sample adds the states' posterior probabilities, in order.
template <class T, class Space>
void ctc_gradient_kernel(const Space& space, const CtcBatch<T, Space>& batch,
                         const Tensor& grad_losses, const Tensor& losses, const Tensor& alpha,
                         const Tensor& beta, const Tensor& grad_x) {
  const auto grad = flat_view<Space, const T>(grad_losses),
             loss = flat_view<Space, const T>(losses), before = flat_view<Space, const T>(alpha),
             after = flat_view<Space, const T>(beta);
  const auto out = flat_view<Space, T>(grad_x);
  for_each(
      "lockstep::ctc_gradient", space, batch.all_frames * batch.samples,
      KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t t = i / batch.samples, n = i % batch.samples;
        const CtcSample<T> sample = batch[n];
        if (t >= sample.frames || !(loss(n) < std::numeric_limits<T>::infinity())) return;
        const std::int64_t row = i * batch.classes, kept = sample.kept + t * sample.states;
        for (std::int64_t s = 0; s < sample.states; ++s) {
          const T posterior = math::exp(before(kept + s) + after(kept + s) + loss(n));
          T& sum = out(row + sample.label(s));
          sum = math::detail::multiply_add(-grad(n), posterior, sum);
        }
      });
}

}  // namespace

void ctc_forward_on_device(const Tensor& x, const CtcTargets& targets, const Tensor& alpha,
                           const Tensor& losses) {
  dispatch(current_stream(x.device()), [&](const auto& space) {
    using Space = std::decay_t<decltype(space)>;
    dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
      ctc_forward_kernel<T>(space, CtcBatch<T, Space>(x, targets), alpha, losses);
    });
  });
}

void ctc_backward_on_device(const Tensor& grad_losses, const Tensor& x, const CtcTargets& targets,
                            const Tensor& alpha, const Tensor& losses, const Tensor& grad_x) {
  const Tensor beta = Tensor::empty_like(alpha);
  dispatch(current_stream(x.device()), [&](const auto& space) {
    using Space = std::decay_t<decltype(space)>;
    dispatch_floating(x.dtype(), "ctc_loss", [&]<class T>() {
      const CtcBatch<T, Space> batch(x, targets);
      ctc_beta_kernel<T>(space, batch, beta);
      ctc_gradient_kernel<T>(space, batch, grad_losses, losses, alpha, beta, grad_x);
    });
  });
}

}  // namespace lockstep::detail
