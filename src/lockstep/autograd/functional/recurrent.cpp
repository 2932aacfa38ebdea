#include <lockstep/autograd/functional/recurrent.hpp>

#include <string>
#include <vector>

#include <lockstep/autograd/differentiation.hpp>
#include <lockstep/autograd/flop_counter.hpp>
#include <lockstep/autograd/functional/activation.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/linear.hpp>
#include <lockstep/autograd/functional/shape.hpp>
#include <lockstep/autograd/functional/where.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/data/index_check.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/kernels/linalg/linear.hpp>

namespace lockstep {
namespace {

/// bool [N, 1]: whether element t is after the end of each sequence.
Tensor ended_sequences(const RnnPlan& plan, std::int64_t t) {
  Tensor behind = Tensor::empty({plan.batch, 1}, DType::boolean, plan.lengths.device());
  mark_behind(plan, t, behind);
  return behind;
}

/// A copy of t[T, N, ...] with zeros after the sequences' ends; t itself if all sequences are
/// whole.
Tensor known_part(const RnnPlan& plan, const Tensor& t) {
  if (!plan.lengths.defined()) return t;
  Tensor copy = t.clone();
  zero_behind(plan, copy);
  return copy;
}

std::string lengths_sentence(std::int64_t batch, std::int64_t steps, const std::string& found) {
  return "a recurrent layer over " + std::to_string(batch) + " sequences of up to " +
         std::to_string(steps) + " elements takes lengths i64[" + std::to_string(batch) +
         "] on the host or beside x, each from 1 to " + std::to_string(steps) + ", not " + found;
}

std::string wrong_length(const IndexCheck& check, std::int64_t n, std::int64_t length_less_1) {
  return lengths_sentence(
      check.indices[0], check.count,
      std::to_string(length_less_1 + 1) + " (sequence " + std::to_string(n) + ")");
}

/// A copy beside x, as the caller may change its tensor before backward reads the lengths. Of the
/// host's lengths that waits for the device; a device's are checked there.
Tensor checked_lengths(const RnnPlan& plan, const Tensor& lengths, Device of_x) {
  const bool of_host = lengths.device().type == DeviceType::host;
  if (lengths.dtype() != DType::i64 || lengths.shape() != Shape{plan.batch} ||
      (!of_host && lengths.device() != of_x)) {
    throw ShapeError(lengths_sentence(plan.batch, plan.steps, describe(lengths)));
  }
  const IndexCheck check{
      .count = plan.steps, .sentence = wrong_length, .indices = Shape{plan.batch}};
  if (!of_host) {
    const Tensor less_1 = lengths.clone();
    less_1 -= 1;
    Tensor right = right_indices(check, less_1, 0);
    right += 1;
    return right;
  }
  for (std::int64_t n = 0; n < plan.batch; ++n) {
    const std::int64_t length = static_cast<const std::int64_t*>(lengths.data())[n];
    if (length < 1 || length > plan.steps) throw ShapeError(wrong_length(check, n, length - 1));
  }
  return of_x.type == DeviceType::host ? lengths.clone() : lengths.to(of_x);
}

/// A layer over all steps: one product with x, and one for each weight gradient.
class RecurrentNode : public MultiOutputNode<RecurrentNode> {
 public:
  enum Input { x, h0, c0, weight_ih, weight_hh, bias_ih, bias_hh };
  static constexpr std::uint32_t saved_inputs = 1U << x | 1U << weight_ih | 1U << weight_hh;

  /// x and weight_ih as multiplied, after any rounding.
  RecurrentNode(const RnnPlan& plan, RnnStates states, Tensor of_x, Tensor of_weight_ih)
      : plan_(plan),
        states_(std::move(states)),
        x_(std::move(of_x)),
        weight_ih_(std::move(of_weight_ih)) {}

  void backward(std::span<const Tensor> grad_outputs) override {
    const bool lstm = plan_.mode == RnnMode::lstm;
    const RnnGradients gates =
        rnn_backward(plan_, states_, input(weight_hh).data(), grad_outputs[0], grad_outputs[1],
                     lstm ? grad_outputs[2] : Tensor(), input(h0).requires_grad());
    if (gates.h0.defined()) pass_grad(h0, gates.h0);
    if (gates.c0.defined()) pass_grad(c0, gates.c0);
    give_bias(bias_ih, gates.bias_ih);
    give_bias(bias_hh, gates.bias_hh);
    const Tensor x_part = product_operand(gates.x_part);
    const bool apart = plan_.mode == RnnMode::gru;
    const Tensor hidden_part = apart ? product_operand(gates.hidden_part) : x_part;
    if (const auto weight = grad_target(weight_ih); weight.wanted) {
      linear_backward_weight(x_part, x_, weight.accumulate, weight.tensor);
    }
    if (const auto weight = grad_target(weight_hh); weight.wanted) {
      linear_backward_weight(hidden_part, product_operand(RnnStates::before(plan_, states_.h)),
                             weight.accumulate, weight.tensor);
    }
    if (const auto sequence = grad_target(x); sequence.wanted) {
      linear_backward_input(x_part, weight_ih_, sequence.accumulate, sequence.tensor);
    }
  }
  void differentiate(Differentiation& d) override {
    d.give_as([this](std::span<const Variable> inputs) { return step_by_step(inputs); });
  }
  [[nodiscard]] const char* name() const noexcept override {
    constexpr const char* names[] = {"rnn_tanh", "rnn_relu", "lstm", "gru"};
    return names[static_cast<std::size_t>(plan_.mode)];
  }

 private:
  /// The outputs, computed by simpler operations.
  [[nodiscard]] std::vector<Variable> step_by_step(std::span<const Variable> v) const {
    const std::int64_t hidden = plan_.hidden;
    const auto initial = [&](Input state) {
      const Tensor& like = v[x].data();
      return v[state].defined()
                 ? v[state]
                 : Variable(Tensor::zeros({plan_.batch, hidden}, like.dtype(), like.device()));
    };
    const Variable parts = linear(known_elements(v[x]), v[weight_ih], v[bias_ih]);
    Variable h = initial(h0), c = initial(c0);
    std::vector<Variable> states(static_cast<std::size_t>(plan_.steps));
    for (std::int64_t step = 0; step < plan_.steps; ++step) {
      const std::int64_t t = plan_.reverse ? plan_.steps - 1 - step : step;
      const Variable of_x = reshape(narrow(parts, 0, t, 1), {plan_.batch, parts.shape()[2]});
      const Variable of_h = linear(h, v[weight_hh], v[bias_hh]);
      const auto gate = [&](const Variable& a, std::int64_t i) {
        return narrow(a, 1, i * hidden, hidden);
      };
      const Variable a = of_x + of_h, h_before = h, c_before = c;
      switch (plan_.mode) {
        case RnnMode::rnn_tanh:
          h = tanh(a);
          break;
        case RnnMode::rnn_relu:
          h = relu(a);
          break;
        case RnnMode::lstm:
          c = sigmoid(gate(a, 1)) * c + sigmoid(gate(a, 0)) * tanh(gate(a, 2));
          h = sigmoid(gate(a, 3)) * tanh(c);
          break;
        case RnnMode::gru: {
          const Variable n = tanh(gate(of_x, 2) + sigmoid(gate(a, 0)) * gate(of_h, 2));
          h = n + sigmoid(gate(a, 1)) * (h - n);
          break;
        }
      }
      Variable out = h;
      if (plan_.lengths.defined()) {
        const Tensor ended = ended_sequences(plan_, t);
        h = where(ended, h_before, h);
        if (plan_.mode == RnnMode::lstm) c = where(ended, c_before, c);
        out = masked_fill(h, ended, 0.0);
      }
      states[static_cast<std::size_t>(t)] = reshape(out, {1, plan_.batch, hidden});
    }
    std::vector<Variable> outputs{concat(states), h};
    if (plan_.mode == RnnMode::lstm) outputs.push_back(c);
    return outputs;
  }

  /// x with zeros after the sequences' ends, as multiplied.
  [[nodiscard]] Variable known_elements(const Variable& all) const {
    if (!plan_.lengths.defined()) return all;
    std::vector<Variable> steps;
    for (std::int64_t t = 0; t < plan_.steps; ++t) {
      const Variable one = reshape(narrow(all, 0, t, 1), {plan_.batch, all.shape()[2]});
      steps.push_back(reshape(masked_fill(one, ended_sequences(plan_, t), 0.0),
                              {1, plan_.batch, all.shape()[2]}));
    }
    return concat(steps);
  }

  /// Copies, because both biases may get the same gradient tensor.
  void give_bias(Input bias, const Tensor& gradient) {
    const GradTarget target = grad_target(bias);
    if (!target.wanted) return;
    if (target.accumulate) {
      add_scaled(gradient, 1.0, target.tensor);
    } else {
      target.tensor.copy_from(gradient);
    }
  }

  RnnPlan plan_;
  RnnStates states_;
  Tensor x_, weight_ih_;
};

/// Throws ShapeError unless t has this shape, and dtype and device of x.
void expect_shape(const char* what, const Tensor& t, const Shape& shape, const Tensor& x) {
  if (t.shape() == shape && t.dtype() == x.dtype() && t.device() == x.device()) return;
  throw ShapeError(std::string("a recurrent layer takes ") + what + " " +
                   std::string(name_of(x.dtype())) + to_string(shape) +
                   (t.device() == x.device() ? "" : " on " + to_string(x.device())) + ", not " +
                   describe(t));
}

RnnPlan plan_of(RnnMode mode, const Tensor& x, const RecurrentWeights& weights, bool reverse) {
  const Tensor& hh = weights.weight_hh.data();
  if (x.dims() != 3 || x.size(0) < 1 || hh.dims() != 2) {
    throw ShapeError(
        "a recurrent layer takes x [T, N, I] with at least one step and weight_hh "
        "[gates H, H], not " +
        describe(x) + " and " + describe(hh));
  }
  RnnPlan plan{.mode = mode,
               .steps = x.size(0),
               .batch = x.size(1),
               .hidden = hh.size(1),
               .reverse = reverse};
  const std::int64_t width = gates_of(mode) * plan.hidden;
  expect_shape("weight_hh", hh, {width, plan.hidden}, x);
  expect_shape("weight_ih", weights.weight_ih.data(), {width, x.size(2)}, x);
  for (const Variable* bias : {&weights.bias_ih, &weights.bias_hh}) {
    if (bias->defined()) expect_shape("a bias", bias->data(), {width}, x);
  }
  return plan;
}

}  // namespace

RecurrentOutput recurrent_layer(RnnMode mode, const Operand& x, const Operand& h0,
                                const Operand& c0, const RecurrentWeights& given, bool reverse,
                                const Tensor& lengths) {
  const Operand weight_ih_operand = given.weight_ih, weight_hh_operand = given.weight_hh,
                bias_ih_operand = given.bias_ih, bias_hh_operand = given.bias_hh;
  const RecurrentWeights weights{weight_ih_operand, weight_hh_operand, bias_ih_operand,
                                 bias_hh_operand};
  RnnPlan plan = plan_of(mode, x.data(), weights, reverse);
  if (lengths.defined()) plan.lengths = checked_lengths(plan, lengths, x.data().device());
  // Padding may hold anything, and the weight gradient is a product with all of x, so it is zeroed.
  const Tensor sequence = known_part(plan, x.data());
  const auto initial = [&](const char* what, const Variable& state) {
    const Shape shape{plan.batch, plan.hidden};
    if (!state.defined()) return Tensor::zeros(shape, sequence.dtype(), sequence.device());
    expect_shape(what, state.data(), shape, sequence);
    return state.data();
  };
  const auto bias = [](const Variable& b) { return b.defined() ? b.data() : Tensor(); };
  const Tensor& weight_ih = weights.weight_ih.data();
  const std::int64_t width = weight_ih.size(0);
  const Tensor x_part =
      Tensor::empty({plan.steps, plan.batch, width}, sequence.dtype(), sequence.device());
  Tensor x_operand = product_operand(sequence), ih_operand = product_operand(weight_ih);
  linear_forward(x_operand, ih_operand, {}, x_part);
  count_flops(2 * x_part.numel() * (sequence.size(2) + plan.hidden));

  const bool lstm = mode == RnnMode::lstm;
  RnnStates states =
      rnn_forward(plan, x_part, initial("h0", h0), lstm ? initial("c0", c0) : Tensor(),
                  weights.weight_hh.data(), bias(weights.bias_ih), bias(weights.bias_hh));
  std::array<Tensor, 3> outputs{known_part(plan, RnnStates::after(plan, states.h)),
                                RnnStates::last(plan, states.h),
                                lstm ? RnnStates::last(plan, states.c) : Tensor()};
  const std::size_t count = lstm ? 3 : 2;
  std::array<Variable, 3> results;
  record<RecurrentNode>(
      std::span(outputs).first(count), std::span(results).first(count),
      {&x, &h0, &c0, &weights.weight_ih, &weights.weight_hh, &weights.bias_ih, &weights.bias_hh},
      plan, std::move(states), std::move(x_operand), std::move(ih_operand));
  return {std::move(results[0]), std::move(results[1]), std::move(results[2])};
}

}  // namespace lockstep
