#include <lockstep/tensor/kernels/sequence/rnn.hpp>

#include <algorithm>

#include <lockstep/tensor/dispatch.hpp>
#include <lockstep/tensor/kernels/for_each.hpp>
#include <lockstep/tensor/kernels/host_task.hpp>
#include <lockstep/tensor/kernels/sequence/rnn_cell.hpp>
#include <lockstep/tensor/kernels/sequence/rnn_device.hpp>
#include <lockstep/tensor/math/device_math.hpp>
#include <lockstep/tensor/math/packed_matrix.hpp>

namespace lockstep {
namespace {

using detail::BackwardRow;
using detail::ForwardRow;
using detail::rnn_name;

/// Calls f(j) for the units of a row, in whole vectors. On its own GCC would use half vectors where
/// the processor has 64 bytes.
template <class T, class F>
LOCKSTEP_FLATTEN void each_unit(std::int64_t units, const F& f) {
#pragma omp simd simdlen(64 / sizeof(T))
  for (std::int64_t j = 0; j < units; ++j) f(j);
}

/// An RnnPlan as arrays, for a task.
struct Steps {
  RnnMode mode;
  std::int64_t steps, batch, hidden;
  bool reverse;
  HostArray lengths;

  explicit Steps(const RnnPlan& plan)
      : mode(plan.mode),
        steps(plan.steps),
        batch(plan.batch),
        hidden(plan.hidden),
        reverse(plan.reverse) {}
  [[nodiscard]] Steps with(const HostArray& of_sequences) const {
    Steps result = *this;
    result.lengths = of_sequences;
    return result;
  }

  [[nodiscard]] bool is_behind(std::int64_t n, std::int64_t t) const {
    return lengths.defined() && t >= static_cast<const std::int64_t*>(lengths.data())[n];
  }
};

/// RnnStates and RnnGradients for a task, without the initial states' gradients.
struct StateArrays {
  HostArray h, c, gates, hidden_part;
};
struct GradientArrays {
  HostArray x_part, hidden_part, bias_ih, bias_hh;
};

template <class T>
T* data_of(const HostArray& t) {
  return static_cast<T*>(t.data());
}
template <class T>
T* data_of(const Tensor& t) {  // memory that belongs to the task
  return static_cast<T*>(t.data());
}

/// One step of one sample, forward or backward depending on the row's type.
template <class Row>
void step(RnnMode mode, const Row& row) {
  detail::dispatch_cell(mode, [&]<class Cell>() {
    each_unit<typename Row::T>(row.hidden, [row](std::int64_t j) { Cell::step(row, j); });
  });
}

/// bias_ih + bias_hh, for a GRU without the last third of bias_hh; zeros if undefined.
template <class T>
Tensor joint_bias(const Steps& plan, const HostArray& bias_ih, const HostArray& bias_hh,
                  DType dtype) {
  const std::int64_t width = gates_of(plan.mode) * plan.hidden;
  Tensor bias = Tensor::zeros({width}, dtype);
  T* const sum = data_of<T>(bias);
  const auto add = [&](const HostArray& b, std::int64_t count) {
    if (!b.defined()) return;
    for (std::int64_t j = 0; j < count; ++j) sum[j] += data_of<const T>(b)[j];
  };
  add(bias_ih, width);
  add(bias_hh, plan.mode == RnnMode::gru ? 2 * plan.hidden : width);
  return bias;
}

/// A row of the states before a step, as the row after it.
template <class T>
void keep_state(const HostArray& states, std::int64_t before, std::int64_t after,
                std::int64_t hidden) {
  std::copy_n(data_of<const T>(states) + before, hidden, data_of<T>(states) + after);
}

template <class T>
void forward_steps(const Steps& plan, const StateArrays& states, const HostArray& gates,
                   const HostArray& weight_hh, const HostArray& bias_ih, const HostArray& bias_hh) {
  const bool gru = plan.mode == RnnMode::gru, lstm = plan.mode == RnnMode::lstm;
  const std::int64_t hidden = plan.hidden, width = gates_of(plan.mode) * hidden;
  const std::int64_t state = plan.batch * hidden;
  const DType dtype = weight_hh.dtype();
  const Tensor bias = joint_bias<T>(plan, bias_ih, bias_hh, dtype);
  Tensor bias_hn;
  if (gru) {
    bias_hn = Tensor::zeros({hidden}, dtype);
    if (bias_hh.defined()) {
      std::copy_n(data_of<const T>(bias_hh) + 2 * hidden, hidden, data_of<T>(bias_hn));
    }
  }
  const Tensor hidden_gates = gru ? Tensor::empty({plan.batch, width}, dtype) : Tensor();
  const math::PackedMatrix<T> weight(
      plan.batch, width, hidden, {data_of<const T>(weight_hh), hidden, true}, gru ? T{0} : T{1});
  const auto row_at = [](const auto& t, std::int64_t begin) {
    return t.defined() ? data_of<T>(t) + begin : nullptr;
  };
  for (std::int64_t s = 0; s < plan.steps; ++s) {
    const std::int64_t t = plan.reverse ? plan.steps - 1 - s : s;
    const std::int64_t before = (plan.reverse ? t + 1 : t) * state;
    const std::int64_t after = (plan.reverse ? t : t + 1) * state;
    T* const sums = gru ? data_of<T>(hidden_gates) : data_of<T>(gates) + t * plan.batch * width;
    weight.multiply(data_of<T>(states.h) + before, sums);
    for (std::int64_t r = 0; r < plan.batch; ++r) {
      const std::int64_t at = r * hidden;
      if (plan.is_behind(r, t)) {
        keep_state<T>(states.h, before + at, after + at, hidden);
        if (lstm) keep_state<T>(states.c, before + at, after + at, hidden);
        continue;
      }
      step(plan.mode, ForwardRow<T>{.hidden = hidden,
                                    .gates = data_of<T>(gates) + (t * plan.batch + r) * width,
                                    .hidden_gates = row_at(hidden_gates, r * width),
                                    .bias = data_of<T>(bias),
                                    .bias_hn = row_at(bias_hn, 0),
                                    .h_before = data_of<T>(states.h) + before + at,
                                    .c_before = lstm ? data_of<T>(states.c) + before + at : nullptr,
                                    .h = data_of<T>(states.h) + after + at,
                                    .c = lstm ? data_of<T>(states.c) + after + at : nullptr,
                                    .hidden_part = row_at(states.hidden_part, t * state + at)});
    }
  }
}

/// total[width] += sum of rows[count, width], which the step has just left in the cache. `part`
/// holds the step's own sum, so that long sequences lose no more than short ones.
template <class T>
void add_rows(const T* rows, std::int64_t count, std::int64_t width, T* part, T* total) {
  std::fill_n(part, width, T{0});
  for (std::int64_t r = 0; r < count; ++r) {
    each_unit<T>(width, [=](std::int64_t j) { part[j] += rows[r * width + j]; });
  }
  each_unit<T>(width, [=](std::int64_t j) { total[j] += part[j]; });
}

template <class T>
void backward_steps(const Steps& plan, const StateArrays& states, const HostArray& weight_hh,
                    const HostArray& grad_out, const HostArray& grad_h, const HostArray& grad_c,
                    const GradientArrays& gradients, bool wants_h0) {
  const std::int64_t hidden = plan.hidden, width = gates_of(plan.mode) * hidden;
  const std::int64_t state = plan.batch * hidden;
  const Tensor no_gradient = Tensor::zeros({hidden}, weight_hh.dtype());
  const Tensor part = Tensor::empty({width}, weight_hh.dtype());
  const Tensor passed =
      plan.lengths.defined() ? Tensor::empty(grad_h.shape(), weight_hh.dtype()) : Tensor();
  const math::PackedMatrix<T> weight(plan.batch, hidden, width,
                                     {data_of<const T>(weight_hh), hidden},
                                     plan.mode == RnnMode::gru ? T{1} : T{0});
  const auto add_biases = [&](const HostArray& gates, std::int64_t t, const HostArray& bias) {
    add_rows(data_of<const T>(gates) + t * plan.batch * width, plan.batch, width, data_of<T>(part),
             data_of<T>(bias));
  };
  const auto row_at = [](const auto& t, std::int64_t begin) {
    return t.defined() ? data_of<T>(t) + begin : nullptr;
  };
  for (std::int64_t s = plan.steps - 1; s >= 0; --s) {
    const std::int64_t t = plan.reverse ? plan.steps - 1 - s : s;
    const std::int64_t before = (plan.reverse ? t + 1 : t) * state;
    const std::int64_t after = (plan.reverse ? t : t + 1) * state;
    for (std::int64_t r = 0; r < plan.batch; ++r) {
      const std::int64_t at = r * hidden, gates_at = (t * plan.batch + r) * width;
      if (plan.is_behind(r, t)) {  // grad_h and grad_c are passed on unchanged
        std::fill_n(data_of<T>(gradients.x_part) + gates_at, width, T{0});
        std::fill_n(data_of<T>(gradients.hidden_part) + gates_at, width, T{0});
        std::copy_n(data_of<const T>(grad_h) + at, hidden, data_of<T>(passed) + at);
        continue;
      }
      step(plan.mode,
           BackwardRow<T>{.hidden = hidden,
                          .gates = row_at(states.gates, gates_at),
                          .hidden_part = row_at(states.hidden_part, t * state + at),
                          .h_before = data_of<T>(states.h) + before + at,
                          .h = data_of<T>(states.h) + after + at,
                          .c_before = row_at(states.c, before + at),
                          .c = row_at(states.c, after + at),
                          .grad_out = grad_out.defined() ? data_of<T>(grad_out) + t * state + at
                                                         : data_of<T>(no_gradient),
                          .grad_h = data_of<T>(grad_h) + at,
                          .grad_c = row_at(grad_c, at),
                          .grad_gates = data_of<T>(gradients.x_part) + gates_at,
                          .grad_hidden_gates = data_of<T>(gradients.hidden_part) + gates_at});
    }
    add_biases(gradients.x_part, t, gradients.bias_ih);
    if (plan.mode == RnnMode::gru) add_biases(gradients.hidden_part, t, gradients.bias_hh);
    if (s == 0 && !wants_h0) break;
    weight.multiply(data_of<T>(gradients.hidden_part) + t * plan.batch * width, data_of<T>(grad_h));
    for (std::int64_t r = 0; r < plan.batch && plan.lengths.defined(); ++r) {
      if (!plan.is_behind(r, t)) continue;
      std::copy_n(data_of<const T>(passed) + r * hidden, hidden, data_of<T>(grad_h) + r * hidden);
    }
  }
}

/// On a simulated device too.
void forward_by_host(const RnnPlan& plan, const RnnStates& states, const Tensor& gates,
                     const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  dispatch_floating(gates.dtype(), rnn_name, [&]<class T>() {
    host_task(
        rnn_name,
        [steps = Steps(plan)](const HostArray& lengths, const HostArray& h, const HostArray& c,
                              const HostArray& hidden_part, const HostArray& gates,
                              const HostArray& weight_hh, const HostArray& bias_ih,
                              const HostArray& bias_hh) {
          forward_steps<T>(steps.with(lengths), {h, c, {}, hidden_part}, gates, weight_hh, bias_ih,
                           bias_hh);
        },
        plan.lengths, states.h, states.c, states.hidden_part, gates, weight_hh, bias_ih, bias_hh);
  });
}

void backward_by_host(const RnnPlan& plan, const RnnStates& states, const Tensor& weight_hh,
                      const Tensor& grad_out, const Tensor& grad_h, const RnnGradients& gradients,
                      bool wants_h0) {
  dispatch_floating(weight_hh.dtype(), rnn_name, [&]<class T>() {
    host_task(
        rnn_name,
        [steps = Steps(plan), wants_h0](
            const HostArray& lengths, const HostArray& h, const HostArray& c,
            const HostArray& gates, const HostArray& hidden_part, const HostArray& weight_hh,
            const HostArray& grad_out, const HostArray& grad_h, const HostArray& grad_c,
            const HostArray& grad_x_part, const HostArray& grad_hidden_part,
            const HostArray& grad_bias_ih, const HostArray& grad_bias_hh) {
          backward_steps<T>(steps.with(lengths), {h, c, gates, hidden_part}, weight_hh, grad_out,
                            grad_h, grad_c,
                            {grad_x_part, grad_hidden_part, grad_bias_ih, grad_bias_hh}, wants_h0);
        },
        plan.lengths, states.h, states.c, states.gates, states.hidden_part, weight_hh, grad_out,
        grad_h, gradients.c0, gradients.x_part, gradients.hidden_part, gradients.bias_ih,
        gradients.bias_hh);
  });
}

template <class T, class Space>
void zero_behind_kernel(const Space& space, const RnnPlan& plan, const Tensor& t) {
  const std::int64_t batch = plan.batch, rows = plan.steps * batch;
  const std::int64_t width = rows == 0 ? 0 : t.numel() / rows;
  const auto out = flat_view<Space, T>(t);
  const auto length = flat_view<Space, const std::int64_t>(plan.lengths);
  for_each_row(
      "lockstep::zero_behind", space, rows, width,
      KOKKOS_LAMBDA(std::int64_t r, const Lanes<Space>& lanes) {
        if (r / batch < length(r % batch)) return;
        lanes.each([&](std::int64_t i) { out(r * width + i) = T{0}; });
      });
}

template <class Space>
void mark_behind_kernel(const Space& space, const Tensor& lengths, std::int64_t t,
                        const Tensor& behind) {
  const auto length = flat_view<Space, const std::int64_t>(lengths);
  const auto out = flat_view<Space, bool>(behind);
  for_each(
      "lockstep::mark_behind", space, behind.numel(),
      KOKKOS_LAMBDA(std::int64_t n) { out(n) = t >= length(n); });
}

}  // namespace

void zero_behind(const RnnPlan& plan, const Tensor& t) {
  dispatch(current_stream(t.device()), [&](const auto& space) {
    dispatch_floating(t.dtype(), rnn_name,
                      [&]<class T>() { zero_behind_kernel<T>(space, plan, t); });
  });
}

void mark_behind(const RnnPlan& plan, std::int64_t t, const Tensor& behind) {
  dispatch(current_stream(behind.device()),
           [&](const auto& space) { mark_behind_kernel(space, plan.lengths, t, behind); });
}

std::int64_t gates_of(RnnMode mode) noexcept {
  return mode == RnnMode::lstm ? 4 : mode == RnnMode::gru ? 3 : 1;
}

Tensor RnnStates::after(const RnnPlan& plan, const Tensor& states) {
  return plan.reverse ? states.slice(0, plan.steps) : states.slice(1, plan.steps + 1);
}

Tensor RnnStates::before(const RnnPlan& plan, const Tensor& states) {
  return plan.reverse ? states.slice(1, plan.steps + 1) : states.slice(0, plan.steps);
}

Tensor RnnStates::last(const RnnPlan& plan, const Tensor& states) {
  const std::int64_t place = plan.reverse ? 0 : plan.steps;
  return states.slice(place, place + 1).reshape({plan.batch, plan.hidden});
}

RnnStates rnn_forward(const RnnPlan& plan, const Tensor& x_part, const Tensor& h0, const Tensor& c0,
                      const Tensor& weight_hh, const Tensor& bias_ih, const Tensor& bias_hh) {
  const DType dtype = x_part.dtype();
  const Device device = x_part.device();
  const std::int64_t first = plan.reverse ? plan.steps : 0;
  const auto begin_with = [&](const Tensor& initial) {
    Tensor all = Tensor::empty({plan.steps + 1, plan.batch, plan.hidden}, dtype, device);
    all.slice(first, first + 1).reshape(initial.shape()).copy_from(initial);
    return all;
  };
  RnnStates states;
  states.h = begin_with(h0);
  if (plan.mode == RnnMode::lstm) states.c = begin_with(c0);
  if (plan.mode == RnnMode::gru) {
    states.hidden_part = Tensor::empty({plan.steps, plan.batch, plan.hidden}, dtype, device);
  }
  if (math::device_math(device) != nullptr) {
    detail::rnn_forward_on_device(plan, states, x_part, weight_hh, bias_ih, bias_hh);
  } else {
    forward_by_host(plan, states, x_part, weight_hh, bias_ih, bias_hh);
  }
  // Those of the plain RNN follow from h.
  if (gates_of(plan.mode) > 1) states.gates = x_part;
  return states;
}

RnnGradients rnn_backward(const RnnPlan& plan, const RnnStates& states, const Tensor& weight_hh,
                          const Tensor& grad_out, const Tensor& grad_h_n, const Tensor& grad_c_n,
                          bool wants_h0) {
  const DType dtype = weight_hh.dtype();
  const Device device = weight_hh.device();
  const auto begin_with = [&](const Tensor& gradient) {
    Tensor t = Tensor::empty({plan.batch, plan.hidden}, dtype, device);
    if (gradient.defined()) {
      t.copy_from(gradient);
    } else {
      t.zero();
    }
    return t;
  };
  const auto of_gates = [&] {
    return Tensor::empty({plan.steps, plan.batch, gates_of(plan.mode) * plan.hidden}, dtype,
                         device);
  };
  RnnGradients gradients;
  gradients.x_part = of_gates();
  const std::int64_t width = gates_of(plan.mode) * plan.hidden;
  gradients.bias_ih = Tensor::zeros({width}, dtype, device);
  const bool gru = plan.mode == RnnMode::gru;
  gradients.hidden_part = gru ? of_gates() : gradients.x_part;
  gradients.bias_hh = gru ? Tensor::zeros({width}, dtype, device) : gradients.bias_ih;
  const Tensor grad_h = begin_with(grad_h_n);
  if (plan.mode == RnnMode::lstm) gradients.c0 = begin_with(grad_c_n);
  if (math::device_math(device) != nullptr) {
    detail::rnn_backward_on_device(plan, states, weight_hh, grad_out, grad_h, gradients, wants_h0);
  } else {
    backward_by_host(plan, states, weight_hh, grad_out, grad_h, gradients, wants_h0);
  }
  if (wants_h0) gradients.h0 = grad_h;
  return gradients;
}

}  // namespace lockstep
