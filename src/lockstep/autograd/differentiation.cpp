#include <lockstep/autograd/differentiation.hpp>

#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// The sums of the gradients in a recorded pass.
class RecordedGradients {
 public:
  void give(const Variable& variable, const Variable& gradient) {
    Variable& sum = sums_[variable.record()];
    sum = sum.defined() ? add(sum, gradient) : gradient;
  }

  [[nodiscard]] Variable of(const Variable& variable) const {
    const auto place = sums_.find(variable.record());
    return place == sums_.end() ? Variable() : place->second;
  }

  void forget(const Variable& variable) { sums_.erase(variable.record()); }

 private:
  std::unordered_map<const detail::VariableRecord*, Variable> sums_;
};

/// Leaves accumulate nothing: a recorded pass returns its gradients.
struct NoLeafGradients final : GradSink {
  GradTarget target(const Variable& /*leaf*/) override { return {}; }
};

/// Another variable with the same value: `give_as` uses it to get the gradient of one use of a
/// variable.
class AliasNode : public PooledNode<AliasNode> {
 public:
  static constexpr bool mixes_layouts = true;
  static constexpr std::uint32_t saved_inputs = 0;
  static constexpr bool is_view = true;

  void backward(const Tensor& grad_output) override { pass_grad(0, grad_output); }
  void differentiate(Differentiation& d) override { d.give(0, d.grad_output()); }
  [[nodiscard]] const char* name() const noexcept override { return "alias"; }
};

/// While alive, a node reads its inputs as f32. This also holds where grad() is part of the
/// expression that made them and their 16-bit Operands still exist.
class WithoutRounding {
 public:
  WithoutRounding() = default;
  void cover(const Variable& input) {
    auto* const record = input.record();
    if (!record || record->rounds_results_to == DType::f32) return;
    rounded_.emplace_back(record, record->rounds_results_to);
    record->rounds_results_to = DType::f32;
  }
  ~WithoutRounding() {
    for (const auto& [record, dtype] : rounded_) record->rounds_results_to = dtype;
  }
  WithoutRounding(const WithoutRounding&) = delete;
  WithoutRounding& operator=(const WithoutRounding&) = delete;

 private:
  std::vector<std::pair<detail::VariableRecord*, DType>> rounded_;
};

std::vector<Tensor> values_of(std::span<const Variable> variables) {
  std::vector<Tensor> values;
  for (const Variable& v : variables) values.push_back(v.defined() ? v.data() : Tensor());
  return values;
}

}  // namespace

void Node::differentiate(Differentiation& d) {
  std::string what = "an unused output";
  for (int i = 0; i < output_count_; ++i) {
    if (d.output(i).defined()) what = describe(d.output(i).data());
  }
  throw Error(std::string(name()) + " has no second derivative: grad() with create_graph reached " +
              what +
              ", which it computed. Use operations that have a second derivative "
              "(docs/guide/second_derivatives.md), or ask for first derivatives only.");
}

std::vector<Variable> BackwardPass::run_recorded(std::span<const Variable> gradients) {
  const Running running(*this);
  NoLeafGradients no_leaf_gradients;
  options_.sink = &no_leaf_gradients;
  const std::vector<Tensor> values = values_of(gradients);
  options_.gradients = values;
  const Ending ending{*this};
  check();
  begin();
  const EnableGradGuard records;
  RecordedGradients found;
  for (std::size_t i = 0; i < options_.roots.size(); ++i) {
    const Variable& root = options_.roots[i];
    if (i < gradients.size() && gradients[i].defined()) {
      found.give(root, gradients[i]);
    } else {
      const Tensor seed = Tensor::empty_like(root.data());
      seed.fill(options_.seed);
      found.give(root, Variable(seed));
    }
  }
  std::vector<Variable> outputs, grad_outputs, grad_inputs;
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < reached_.size() && reached_[begin].sequence > 0;
       begin = end) {
    const IntrusivePtr<Node> node = reached_[begin].variable.record()->producer;
    outputs.assign(static_cast<std::size_t>(node->output_count_), Variable());
    grad_outputs.assign(outputs.size(), Variable());
    bool any_gradient = false;
    for (end = begin; end < reached_.size() && reached_[end].producer() == node.get(); ++end) {
      const Variable& output = reached_[end].variable;
      const auto place = static_cast<std::size_t>(output.record()->output);
      outputs[place] = output;
      grad_outputs[place] = found.of(output);
      any_gradient = any_gradient || grad_outputs[place].defined();
      if (!is_input(output)) found.forget(output);
    }
    if (!reached_[begin].needed || !any_gradient) continue;
    grad_inputs.assign(static_cast<std::size_t>(node->input_count_), Variable());
    {
      const TraceScope scope("backward", node->name(), node->layer_);
      const PrecisionGuard precision(node->precision_);
      node->expect_unchanged_inputs();
      WithoutRounding without_rounding;
      for (int k = 0; k < node->input_count_; ++k) without_rounding.cover(node->input(k));
      Differentiation differentiation(*this, *node, outputs, grad_outputs, grad_inputs);
      node->differentiate(differentiation);
    }
    for (int k = 0; k < node->input_count_; ++k) {
      const Variable& gradient = grad_inputs[static_cast<std::size_t>(k)];
      if (gradient.defined()) found.give(node->input(k), gradient);
    }
  }
  std::vector<Variable> results;
  for (const Variable& input : options_.inputs) results.push_back(found.of(input));
  return results;
}

Variable Differentiation::input_as(int i, const Tensor& value) const {
  return record<AliasNode>(value.to(node_.input(i).data().dtype()), {&node_.input(i)});
}

bool Differentiation::wants(int i) const { return pass_.leads_to_input(node_.input(i)); }

void Differentiation::give(int i, const Variable& gradient) {
  if (!wants(i)) return;
  const Tensor& value = node_.input(i).data();
  if (!detail::fits(gradient.data(), value)) {
    throw ShapeError(std::string("the second derivative of ") + node_.name() + " gave a gradient " +
                     describe(gradient.data()) + " to its input " + describe(value));
  }
  grad_inputs_[index(i)] = gradient;
}

std::vector<Variable> Differentiation::aliases() const {
  std::vector<Variable> inputs;
  for (int i = 0; i < node_.input_count(); ++i) {
    const Variable& input = node_.input(i);
    inputs.push_back(wants(i) ? record<AliasNode>(input.data(), {&input}) : input);
  }
  return inputs;
}

void Differentiation::give_gradients(std::span<const Variable> inputs,
                                     std::span<const Variable> outputs) {
  std::vector<Variable> asked, roots, of_roots;
  for (int i = 0; i < node_.input_count(); ++i) {
    if (wants(i)) asked.push_back(inputs[index(i)]);
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (!grad_outputs_[i].defined()) continue;
    // Autocast may have been on then and off now, or the other way round.
    roots.push_back(to(outputs[i], grad_outputs_[i].data().dtype()));
    of_roots.push_back(grad_outputs_[i]);
  }
  const auto gradients =
      BackwardPass({.roots = roots, .inputs = asked, .nested = true}).run_recorded(of_roots);
  for (int i = 0, next = 0; i < node_.input_count(); ++i) {
    if (!wants(i)) continue;
    if (const Variable& gradient = gradients[index(next++)]; gradient.defined()) give(i, gradient);
  }
}

}  // namespace lockstep
