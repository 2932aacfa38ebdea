#include <lockstep/tensor/kernels/sequence/rnn_device.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>
#include <lockstep/tensor/kernels/sequence/rnn_cell.hpp>
#include <lockstep/tensor/math/product.hpp>
#include <lockstep/tensor/precision.hpp>

namespace lockstep::detail {
namespace {

/// The address for kernels; null for an undefined tensor.
template <class Space, class T>
T* address(const Tensor& t) {
  return t.defined() ? flat_view<Space, T>(t).data() : nullptr;
}

/// `begin` elements behind an address that may be null.
template <class T>
KOKKOS_FUNCTION T* part(T* array, std::int64_t begin) {
  return array == nullptr ? nullptr : array + begin;
}

/// [rows, width], as an operand or the result of a product.
math::Matrices matrix(const Tensor& t, bool transposed = false) {
  return {t, std::max<std::int64_t>(t.size(1), 1), transposed};
}

/// RnnSizes for kernels, and which samples have ended.
struct RnnSizes {
  std::int64_t batch, hidden, width;
  const std::int64_t* lengths;

  template <class Space>
  static RnnSizes of(const RnnPlan& plan) {
    return {plan.batch, plan.hidden, gates_of(plan.mode) * plan.hidden,
            address<Space, const std::int64_t>(plan.lengths)};
  }
  [[nodiscard]] KOKKOS_FUNCTION bool is_behind(std::int64_t sample, std::int64_t t) const {
    return lengths != nullptr && t >= lengths[sample];
  }
};

/// One step: element t of the sequences, and the places of the states before and after it.
struct RnnStep {
  std::int64_t t, before, after;

  /// Number `s` in the order of computation.
  static RnnStep number(const RnnPlan& plan, std::int64_t s) {
    const std::int64_t t = plan.reverse ? plan.steps - 1 - s : s;
    return {t, plan.reverse ? t + 1 : t, plan.reverse ? t : t + 1};
  }
};

template <class T>
struct ForwardArrays {
  T *gates, *h, *c, *hidden_part;
  const T *hidden_gates, *bias, *bias_hn;
};

template <class Cell, class T, class Space>
void rnn_forward_kernel(const Space& space, const RnnSizes& sizes, const RnnStep& step,
                        const ForwardArrays<T>& all) {
  const std::int64_t hidden = sizes.hidden, width = sizes.width, state = sizes.batch * hidden;
  for_each(
      "lockstep::rnn_forward", space, state, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t n = i / hidden, j = i % hidden, row = n * hidden;
        const std::int64_t before = step.before * state, after = step.after * state;
        if (sizes.is_behind(n, step.t)) {
          all.h[after + i] = all.h[before + i];
          if (all.c != nullptr) all.c[after + i] = all.c[before + i];
          return;
        }
        Cell::step(ForwardRow<T>{.hidden = hidden,
                                 .gates = all.gates + (step.t * sizes.batch + n) * width,
                                 .hidden_gates = part(all.hidden_gates, n * width),
                                 .bias = all.bias,
                                 .bias_hn = all.bias_hn,
                                 .h_before = all.h + before + row,
                                 .c_before = part(all.c, before + row),
                                 .h = all.h + after + row,
                                 .c = part(all.c, after + row),
                                 .hidden_part = part(all.hidden_part, step.t * state + row)},
                   j);
      });
}

template <class T>
struct BackwardArrays {
  const T *gates, *hidden_part, *h, *c;
  const T *grad_out, *no_gradient;  ///< no_gradient is a row of zeros, in place of grad_out
  T *grad_h, *grad_c, *grad_gates, *grad_hidden_gates;
};

/// With `adds` the product that follows adds to grad_h, else it overwrites it.
template <class Cell, class T, class Space>
void rnn_backward_kernel(const Space& space, const RnnSizes& sizes, const RnnStep& step,
                         const BackwardArrays<T>& all, bool adds) {
  const std::int64_t hidden = sizes.hidden, width = sizes.width, state = sizes.batch * hidden;
  constexpr bool passes_h_on = std::is_same_v<Cell, GruCell>;
  for_each(
      "lockstep::rnn_backward", space, state, KOKKOS_LAMBDA(std::int64_t i) {
        const std::int64_t n = i / hidden, j = i % hidden, row = n * hidden;
        const std::int64_t before = step.before * state, after = step.after * state;
        const std::int64_t gates_at = (step.t * sizes.batch + n) * width;
        if (sizes.is_behind(n, step.t)) {  // grad_h and grad_c are passed on unchanged
          for (std::int64_t k = j; k < width; k += hidden) {
            all.grad_gates[gates_at + k] = all.grad_hidden_gates[gates_at + k] = T{0};
          }
          return;
        }
        Cell::step(
            BackwardRow<T>{.hidden = hidden,
                           .gates = part(all.gates, gates_at),
                           .hidden_part = part(all.hidden_part, step.t * state + row),
                           .h_before = all.h + before + row,
                           .h = all.h + after + row,
                           .c_before = part(all.c, before + row),
                           .c = part(all.c, after + row),
                           .grad_out = all.grad_out != nullptr ? all.grad_out + step.t * state + row
                                                               : all.no_gradient,
                           .grad_h = all.grad_h + row,
                           .grad_c = part(all.grad_c, row),
                           .grad_gates = all.grad_gates + gates_at,
                           .grad_hidden_gates = all.grad_hidden_gates + gates_at},
            j);
        if (adds && !passes_h_on) all.grad_h[i] = T{0};
      });
}

/// bias_ih + bias_hh, for a GRU without the last third of bias_hh; zeros if undefined.
Tensor joint_bias(const RnnPlan& plan, const Tensor& bias_ih, const Tensor& bias_hh,
                  const Tensor& like) {
  const std::int64_t width = gates_of(plan.mode) * plan.hidden;
  Tensor bias = Tensor::zeros({width}, like.dtype(), like.device());
  if (bias_ih.defined()) bias += bias_ih;
  if (bias_hh.defined()) {
    const std::int64_t count = plan.mode == RnnMode::gru ? 2 * plan.hidden : width;
    bias.slice(0, count) += bias_hh.slice(0, count);
  }
  return bias;
}

}  // namespace

void rnn_forward_on_device(const RnnPlan& plan, const RnnStates& states, const Tensor& gates,
                           const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  const bool gru = plan.mode == RnnMode::gru;
  const std::int64_t hidden = plan.hidden, width = gates_of(plan.mode) * hidden;
  const DType dtype = weight_hh.dtype();
  const Device device = weight_hh.device();
  const Tensor bias = joint_bias(plan, bias_ih, bias_hh, weight_hh);
  Tensor bias_hn, hidden_gates;
  if (gru) {
    bias_hn = bias_hh.defined() ? bias_hh.slice(2 * hidden, width)
                                : Tensor::zeros({hidden}, dtype, device);
    hidden_gates = Tensor::empty({plan.batch, width}, dtype, device);
  }
  const Tensor weight = product_operand(weight_hh);  // once for all steps
  const math::ProductSize size{.m = plan.batch, .n = width, .k = hidden, .accumulate = !gru};
  dispatch(current_stream(device), [&](const auto& space) {
    using Space = std::decay_t<decltype(space)>;
    dispatch_floating(dtype, rnn_name, [&]<class T>() {
      const RnnSizes sizes = RnnSizes::of<Space>(plan);
      const ForwardArrays<T> all{.gates = address<Space, T>(gates),
                                 .h = address<Space, T>(states.h),
                                 .c = address<Space, T>(states.c),
                                 .hidden_part = address<Space, T>(states.hidden_part),
                                 .hidden_gates = address<Space, const T>(hidden_gates),
                                 .bias = address<Space, const T>(bias),
                                 .bias_hn = address<Space, const T>(bias_hn)};
      for (std::int64_t s = 0; s < plan.steps; ++s) {
        const RnnStep step = RnnStep::number(plan, s);
        const Tensor h = product_operand(states.h[step.before]);
        const Tensor sums = gru ? hidden_gates : gates[step.t];
        math::product(rnn_name, size, matrix(h), matrix(weight, true), matrix(sums));
        dispatch_cell(plan.mode,
                      [&]<class Cell>() { rnn_forward_kernel<Cell, T>(space, sizes, step, all); });
      }
    });
  });
}

void rnn_backward_on_device(const RnnPlan& plan, const RnnStates& states, const Tensor& weight_hh,
                            const Tensor& grad_out, const Tensor& grad_h,
                            const RnnGradients& gradients, bool wants_h0) {
  const bool gru = plan.mode == RnnMode::gru;
  const std::int64_t hidden = plan.hidden;
  const DType dtype = weight_hh.dtype();
  const Device device = weight_hh.device();
  // The products add to what ended sequences and the GRU pass on.
  const bool adds = gru || plan.lengths.defined();
  const Tensor no_gradient = grad_out.defined() ? Tensor() : Tensor::zeros({hidden}, dtype, device);
  const Tensor weight = product_operand(weight_hh);
  const math::ProductSize size{
      .m = plan.batch, .n = hidden, .k = gates_of(plan.mode) * hidden, .accumulate = adds};
  dispatch(current_stream(device), [&](const auto& space) {
    using Space = std::decay_t<decltype(space)>;
    dispatch_floating(dtype, rnn_name, [&]<class T>() {
      const RnnSizes sizes = RnnSizes::of<Space>(plan);
      const BackwardArrays<T> all{.gates = address<Space, const T>(states.gates),
                                  .hidden_part = address<Space, const T>(states.hidden_part),
                                  .h = address<Space, const T>(states.h),
                                  .c = address<Space, const T>(states.c),
                                  .grad_out = address<Space, const T>(grad_out),
                                  .no_gradient = address<Space, const T>(no_gradient),
                                  .grad_h = address<Space, T>(grad_h),
                                  .grad_c = address<Space, T>(gradients.c0),
                                  .grad_gates = address<Space, T>(gradients.x_part),
                                  .grad_hidden_gates = address<Space, T>(gradients.hidden_part)};
      for (std::int64_t s = plan.steps - 1; s >= 0; --s) {
        const RnnStep step = RnnStep::number(plan, s);
        dispatch_cell(plan.mode, [&]<class Cell>() {
          rnn_backward_kernel<Cell, T>(space, sizes, step, all, adds);
        });
        if (s == 0 && !wants_h0) break;
        const Tensor of_gates = product_operand(gradients.hidden_part[step.t]);
        math::product(rnn_name, size, matrix(of_gates), matrix(weight), matrix(grad_h));
      }
    });
  });
  linear_backward_bias(gradients.x_part, /*accumulate=*/false, gradients.bias_ih);
  if (gru) linear_backward_bias(gradients.hidden_part, /*accumulate=*/false, gradients.bias_hh);
}

}  // namespace lockstep::detail
