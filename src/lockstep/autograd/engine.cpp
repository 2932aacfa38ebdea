#include <lockstep/autograd/engine.hpp>

#include <algorithm>
#include <string>

#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {

Engine& Engine::instance() {
  thread_local Engine engine;
  return engine;
}

void Engine::run(const Variable& root, double seed, bool retain_graph,
                 const std::function<void()>& once_discovered) {
  if (!root.defined() || root.data().numel() != 1) {
    throw Error(
        "backward() starts from a variable with one element, such as a mean loss, not from " +
        (root.defined() ? describe(root.data()) : "an undefined variable"));
  }
  if (!root.requires_grad()) {
    throw Error(
        "backward() from a variable that depends on no parameter: was it computed under "
        "NoGradGuard?");
  }
  if (running_) throw Error("backward() was called from inside backward(), which is not supported");
  running_ = true;
  struct Finally {
    Engine& engine;
    ~Finally() { engine.forget(); }
  } const finally{*this};

  discover(root);
  if (once_discovered) once_discovered();
  fill(root.grad_buffer(), seed);
  root.mark_grad_present();
  std::ranges::sort(variables_, [](const Variable& a, const Variable& b) {
    const auto order = [](const Variable& v) {
      return v.is_leaf() ? 0 : v.record()->producer->sequence();
    };
    return order(a) > order(b);
  });
  for (Variable& variable : variables_) {
    if (variable.is_leaf()) break;
    run_producer(*variable.record(), retain_graph);
    variable = {};  // a result nobody else holds is freed now, not at the end
  }
}

void Engine::discover(const Variable& root) {
  visit(root);
  for (std::size_t i = 0; i < variables_.size(); ++i) {
    const auto& producer = variables_[i].record()->producer;
    if (!producer) continue;
    for (int k = 0; k < producer->input_count_; ++k) visit(producer->input(k));
  }
}

void Engine::visit(const Variable& variable) {
  if (!variable.requires_grad()) return;
  if (variable.record()->graph_freed) {
    throw Error(
        "backward() came a second time to a result, " + describe(variable.data()) +
        ", whose graph an earlier backward() has freed. Where two losses share a part of the "
        "model, add the losses and call backward() once, or keep the graph in the calls before the "
        "last: backward(1.0, /*retain_graph=*/true). To start anew from a result's value, take "
        "Variable(result.data()).");
  }
  if (variable.record()->pending_uses++ == 0) variables_.push_back(variable);
}

void Engine::run_producer(detail::VariableRecord& output, bool retain_graph) {
  const IntrusivePtr<Node> node = output.producer;
  if (!retain_graph) {
    output.producer = {};
    output.graph_freed = true;
  }
  if (output.grad_holds_value) {
    const TraceScope scope("backward", node->name(), node->layer_);
    node->backward(output.grad);
  }
  output.grad = {};
  output.grad_holds_value = false;
  output.pending_uses = 0;  // the root's one use is this pass
  for (int k = 0; k < node->input_count_; ++k) {
    Variable& input = node->inputs_[static_cast<std::size_t>(k)];
    if (!input.requires_grad()) continue;
    auto& record = *input.record();
    if (--record.pending_uses > 0 || record.producer) continue;
    for (const detail::GradHookEntry& hook : record.grad_hooks) hook.call();
  }
}

void Engine::forget() noexcept {
  for (const Variable& variable : variables_) {
    if (!variable.defined()) continue;
    auto& record = *variable.record();
    record.pending_uses = 0;
    if (!record.producer) continue;
    record.grad = {};  // half summed when an error came
    record.grad_holds_value = false;
  }
  variables_.clear();
  running_ = false;
}

// --- Node: its dealings with the engine
// ------------------------------------------------------------

namespace {

std::uint64_t next_sequence() {
  thread_local std::uint64_t sequence = 0;
  return ++sequence;
}

}  // namespace

Node::Node() : sequence_(next_sequence()), layer_(tracing() ? LayerScope::current() : nullptr) {}

GradTarget Node::grad_target(int i) {
  const Variable& variable = input(i);
  if (!variable.requires_grad()) return {};
  GradTarget target{true, variable.record()->grad_holds_value, variable.grad_buffer()};
  variable.mark_grad_present();
  return target;
}

void Node::pass_grad(int i, const Tensor& gradient) {
  const Variable& variable = input(i);
  if (!variable.requires_grad()) return;
  auto& record = *variable.record();
  if (!record.grad_holds_value && record.producer) {
    record.grad = gradient;
    record.grad_holds_value = true;
    return;
  }
  const GradTarget target = grad_target(i);
  if (target.accumulate) {
    add_scaled(gradient, 1.0, target.tensor);
  } else {
    target.tensor.copy_from(gradient);
  }
}

void Node::expect_layout(Layout layout, std::initializer_list<const Variable*> inputs) {
  for (const Variable* variable : inputs) {
    if (!variable || !variable->defined() || variable->data().layout() == layout) continue;
    throw ShapeError("an operation was given " + describe(variable->data()) +
                     (layout == Layout::plain
                          ? ", which it cannot take: use from_channel_blocks first"
                          : " beside an image in channel blocks: both must be held alike"));
  }
}

bool Node::any_requires_grad(std::initializer_list<const Variable*> inputs) {
  return std::ranges::any_of(inputs, [](const Variable* v) { return v && v->requires_grad(); });
}

Variable Node::attach(Tensor output, IntrusivePtr<Node> node,
                      std::initializer_list<const Variable*> inputs) {
  if (inputs.size() > static_cast<std::size_t>(max_inputs)) {
    throw Error(std::string(node->name()) + " has more than " + std::to_string(max_inputs) +
                " inputs");
  }
  for (const Variable* variable : inputs) {
    node->inputs_[static_cast<std::size_t>(node->input_count_++)] =
        variable ? *variable : Variable();
  }
  Variable result(std::move(output), true);
  result.record()->producer = std::move(node);
  return result;
}

}  // namespace lockstep
