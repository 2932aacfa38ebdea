#include <lockstep/autograd/backward.hpp>

#include <algorithm>

#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// Keeps the gradients of the given inputs.
class InputGradients final : public GradSink {
 public:
  explicit InputGradients(std::span<const Variable> variables)
      : variables_(variables), gradients_(variables.size()) {}

  GradTarget target(const Variable& variable) override {
    const auto place = std::ranges::find(variables_, variable.record(), &Variable::record);
    if (place == variables_.end()) return {};
    Tensor& gradient = gradients_[static_cast<std::size_t>(place - variables_.begin())];
    const bool accumulate = gradient.defined();
    if (!accumulate) gradient = Tensor::empty_like(variable.data());
    return {true, accumulate, gradient};
  }

  [[nodiscard]] std::vector<Tensor> take() { return std::move(gradients_); }

 private:
  std::span<const Variable> variables_;
  std::vector<Tensor> gradients_;
};

void check_inputs(std::span<const Variable> inputs) {
  if (inputs.empty()) throw Error("grad() was called without inputs");
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i].requires_grad()) {
      throw Error("grad(): input " + std::to_string(i) +
                  (inputs[i].defined() ? ", " + describe(inputs[i].data()) + ", needs no gradient"
                                       : " is undefined"));
    }
    const auto before = inputs.first(i);
    if (std::ranges::find(before, inputs[i].record(), &Variable::record) != before.end()) {
      throw Error("grad(): input " + std::to_string(i) + ", " + describe(inputs[i].data()) +
                  ", is given twice");
    }
  }
}

}  // namespace

bool GradSink::takes(const Variable& /*leaf*/) const { return true; }

void backward_within(std::span<const Variable> roots, std::span<const Tensor> gradients,
                     GradSink& sink) {
  BackwardPass({.roots = roots, .gradients = gradients, .sink = &sink, .nested = true}).run();
}

void backward(std::span<const Variable> roots, std::span<const Tensor> gradients,
              const BackwardOptions& options) {
  BackwardPass({.roots = roots,
                .gradients = gradients,
                .retain_graph = options.retain_graph,
                .sink = options.sink})
      .run();
}

std::vector<Variable> grad(std::span<const Variable> outputs, std::span<const Variable> inputs,
                           const GradOptions& options) {
  check_inputs(inputs);
  std::vector<Tensor> grad_outputs;
  for (const Variable& gradient : options.grad_outputs) {
    grad_outputs.push_back(gradient.defined() ? gradient.data() : Tensor());
  }
  PassOptions pass{.roots = outputs,
                   .gradients = grad_outputs,
                   .retain_graph = options.retain_graph,
                   .inputs = inputs};
  std::vector<Variable> gradients;
  if (options.create_graph) {
    gradients = BackwardPass(pass).run_recorded(options.grad_outputs);
  } else {
    InputGradients sink(inputs);
    pass.sink = &sink;
    BackwardPass(pass).run();
    for (Tensor& gradient : sink.take()) {
      gradients.push_back(gradient.defined() ? Variable(std::move(gradient)) : Variable());
    }
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    if (gradients[i].defined() || options.allow_unused) continue;
    throw Error("grad(): the outputs do not depend on input " + std::to_string(i) + ", " +
                describe(inputs[i].data()) + "; allow_unused gives an undefined gradient instead");
  }
  return gradients;
}

std::vector<Variable> grad(const Variable& output, std::span<const Variable> inputs,
                           const GradOptions& options) {
  return grad(std::span(&output, 1), inputs, options);
}

Variable grad(const Variable& output, const Variable& input, const GradOptions& options) {
  return grad(std::span(&output, 1), std::span(&input, 1), options).front();
}

}  // namespace lockstep
