#include <lockstep/autograd/backward_pass.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

namespace lockstep {
namespace {

std::string root_name(std::size_t i, const Variable& root) {
  return "root " + std::to_string(i) + ", " + describe(root.data()) + ",";
}

void check_root(std::size_t i, const Variable& root, const Tensor& gradient) {
  if (!root.defined()) throw Error("backward(): root " + std::to_string(i) + " is undefined");
  if (!root.requires_grad()) {
    throw Error("backward(): " + root_name(i, root) +
                " depends on no parameter. Was it computed under NoGradGuard, or is it a gradient "
                "that grad() computed without create_graph or of a linear function?");
  }
  const Tensor& value = root.data();
  if (!gradient.defined()) {
    if (value.numel() == 1) return;
    throw Error("backward(): " + root_name(i, root) +
                " has more than one element and so needs a gradient, which is missing");
  }
  if (!detail::fits(gradient, value)) {
    throw ShapeError("backward(): " + root_name(i, root) +
                     " was given a gradient of another kind, " + describe(gradient));
  }
}

void contribute(const Tensor& gradient, const GradTarget& target) {
  if (!target.wanted) return;
  if (target.accumulate) {
    add_scaled(gradient, 1.0, target.tensor);
  } else if (target.tensor.dtype() == gradient.dtype()) {
    target.tensor.copy_from(gradient);
  } else {
    convert(gradient, target.tensor);  // the f32 gradient of a leaf of 16 bits
  }
}

}  // namespace

void BackwardPass::check() const {
  const PassOptions& pass = options_;
  if (pass.roots.empty()) throw Error("backward() was called without roots");
  if (!pass.gradients.empty() && pass.gradients.size() != pass.roots.size()) {
    throw Error("backward() was given " + std::to_string(pass.roots.size()) + " roots and " +
                std::to_string(pass.gradients.size()) +
                " gradients: give one gradient per root, or none");
  }
  for (std::size_t i = 0; i < pass.roots.size(); ++i) {
    check_root(i, pass.roots[i], pass.gradients.empty() ? Tensor() : pass.gradients[i]);
    const auto before = pass.roots.first(i);
    if (std::ranges::find(before, pass.roots[i].record(), &Variable::record) != before.end()) {
      throw Error("backward(): " + root_name(i, pass.roots[i]) +
                  " is given twice: add its gradients");
    }
  }
}

constinit thread_local BackwardPass* BackwardPass::innermost = nullptr;

BackwardPass::Running::Running(BackwardPass& pass) : outer_(innermost) {
  if (outer_ && !pass.options_.nested) {
    throw Error("backward() was called from inside backward(), which is not supported");
  }
  innermost = &pass;
}

// Empty lists for later passes of this thread. There are at most as many as passes nested in one
// another, plus a few where passes begun by other threads end here. Nothing is kept once the thread
// has begun to end: a static object may own a pass.
struct BackwardPass::SpareLists {
  std::vector<Lists> lists;
  SpareLists() { lists.reserve(8); }
  ~SpareLists() { has_ended = true; }

  static constinit thread_local bool has_ended;
  static SpareLists* of_this_thread() {
    if (has_ended) return nullptr;
    thread_local SpareLists spare;
    return &spare;
  }
};

constinit thread_local bool BackwardPass::SpareLists::has_ended = false;

BackwardPass::BackwardPass(const PassOptions& options) : options_(options) {
  SpareLists* const spare = SpareLists::of_this_thread();
  if (!spare || spare->lists.empty()) return;
  reached_ = std::move(spare->lists.back().reached);
  grad_outputs_ = std::move(spare->lists.back().grad_outputs);
  followers_ = PassFollowers(std::move(spare->lists.back().followers));
  spare->lists.pop_back();
}

BackwardPass::~BackwardPass() {
  end();
  SpareLists* const spare = SpareLists::of_this_thread();
  if (spare && spare->lists.size() < spare->lists.capacity()) {
    spare->lists.push_back(
        {std::move(reached_), std::move(grad_outputs_), followers_.give_memory()});
  }
}

void BackwardPass::run() {
  {
    const Running running(*this);
    tells_observers_ = options_.inputs.empty() && !options_.nested;
    expects_unchanged_inputs_ = true;
    try {
      const Ending ending{*this};
      check();
      begin();
      followers_.graph_is_known(options_);
      give_to_roots();
      run_ready(true);
    } catch (...) {
      followers_.pass_has_failed();
      throw;
    }
  }
  followers_.pass_is_over();
}

void BackwardPass::begin() {
  oldest_ = options_.inputs.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  for (const Variable& input : options_.inputs) {
    const Node* const producer = input.record()->producer.get();
    oldest_ = std::min(oldest_, producer ? producer->sequence() : 0);
  }
  discover();
  if (!options_.inputs.empty()) prune();
}

void BackwardPass::give(const Variable& root, const Tensor& gradient) {
  if (ended_) throw Error("a gradient was passed to a backward pass that an error has ended");
  if (gradient.defined()) contribute(gradient, target_of(root));
  contribution_arrived(root);
}

void BackwardPass::advance(bool all) {
  try {
    const Running running(*this);
    run_ready(all);
  } catch (...) {
    end();
    throw;
  }
  std::erase_if(reached_, [](const Reached& one) { return !one.variable.defined(); });
}

bool BackwardPass::tell_when_over(PassObserver& observer) {
  if (tells_observers_) followers_.tell_when_over(observer);
  return tells_observers_;
}

void BackwardPass::run_ready(bool all) {
  std::size_t end = 0;
  for (std::size_t begin = 0; begin < reached_.size() && reached_[begin].sequence > 0;
       begin = end) {
    const Node* const node = reached_[begin].producer();
    bool ready = true;
    for (end = begin; end < reached_.size() && reached_[end].producer() == node; ++end) {
      ready = all || (ready && !reached_[end].variable.awaits_gradient());
    }
    if (ready) run_producer(begin, end);
  }
}

void BackwardPass::discover() {
  for (const Variable& root : options_.roots) visit(root);
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    Node* const node = reached_[i].variable.record()->producer.get();
    if (!node || std::exchange(node->discovered_, true)) continue;
    for (int k = 0; k < node->input_count_; ++k) visit(node->input(k));
  }
  std::ranges::sort(reached_, [](const Reached& a, const Reached& b) {
    if (a.sequence != b.sequence) return a.sequence > b.sequence;
    return std::less<>()(a.producer(), b.producer());  // the outputs of one node next to each other
  });
}

void BackwardPass::visit(const Variable& variable) {
  if (!variable.requires_grad()) return;
  auto& record = *variable.record();
  if (record.graph_freed) {
    throw Error("backward() reached a result a second time, " + describe(variable.data()) +
                ", whose graph an earlier backward() has freed. If two losses share a part of the "
                "model, add them and call backward() once, or keep the graph in all calls but the "
                "last: backward(1.0, /*retain_graph=*/true). To start a new graph from a result's "
                "value, use Variable(result.data()).");
  }
  if (tells_observers_ && !record.grad_hooks.empty() && record.pending_uses == 0 &&
      !sink_of(variable)) {
    followers_.leaf_is_reached(variable, options_);
  }
  if (sink_of(variable)) return;
  if (record.producer && record.producer->sequence() < oldest_) return;
  if (record.pending_uses++ > 0) return;
  reached_.push_back({record.producer ? record.producer->sequence() : 0, variable});
}

bool BackwardPass::is_input(const Variable& variable) const {
  return std::ranges::find(options_.inputs, variable.record(), &Variable::record) !=
         options_.inputs.end();
}

bool BackwardPass::leads_to_input(const Variable& variable) const {
  if (!variable.requires_grad()) return false;
  return sink_of(variable) ? is_input(variable) : variable.record()->pending_uses > 0;
}

void BackwardPass::prune() {
  for (auto place = reached_.rbegin(); place != reached_.rend(); ++place) {  // oldest first
    Reached& one = *place;
    Node* const node = one.variable.record()->producer.get();
    one.needed = false;
    for (int k = 0; node && k < node->input_count_ && !one.needed; ++k) {
      one.needed = leads_to_input(node->input(k));
    }
    if (one.needed || is_input(one.variable)) continue;
    one.variable.record()->pending_uses = 0;
    if (node) node->discovered_ = false;
    one.variable = {};
  }
  std::erase_if(reached_, [](const Reached& one) { return !one.variable.defined(); });
}

void BackwardPass::give_to_roots() {
  for (std::size_t i = 0; i < options_.roots.size(); ++i) {
    const Variable& root = options_.roots[i];
    if (!options_.gradients.empty() && options_.gradients[i].defined()) {
      give(root, options_.gradients[i]);
    } else {
      give_seed(root);
    }
  }
}

void BackwardPass::give_seed(const Variable& root) {
  const GradTarget target = target_of(root);
  if (target.wanted && !target.accumulate) {
    fill(target.tensor, options_.seed);
  } else if (target.wanted) {
    const Tensor seed = Tensor::empty_like(target.tensor);
    fill(seed, options_.seed);
    contribute(seed, target);
  }
  contribution_arrived(root);
}

void BackwardPass::run_producer(std::size_t begin, std::size_t end) {
  detail::VariableRecord& first = *reached_[begin].variable.record();
  const IntrusivePtr<Node> node = first.producer;
  const bool needed = reached_[begin].needed;
  node->discovered_ = false;
  if (needed && !options_.retain_graph) {
    const auto free = [](detail::VariableRecord& output) {
      output.leave_outputs();
      output.producer = {};
      output.graph_freed = true;
    };
    while (first.next_output != &first) free(*first.next_output);
    free(first);
  }
  const std::span<Reached> outputs = std::span(reached_).subspan(begin, end - begin);
  const bool any_gradient = std::ranges::any_of(
      outputs, [](const Reached& o) { return o.variable.record()->grad_holds_value; });
  if (!options_.inputs.empty()) {
    for (const Reached& output : outputs) {
      if (!output.variable.record()->grad_holds_value || !is_input(output.variable)) continue;
      contribute(output.variable.record()->grad, options_.sink->target(output.variable));
    }
  }
  if (needed && any_gradient) {
    std::span<const Tensor> grad_outputs(&first.grad, 1);
    if (node->output_count_ != 1) {
      grad_outputs_.resize(static_cast<std::size_t>(node->output_count_));
      for (const Reached& output : outputs) {
        const auto& record = *output.variable.record();
        if (record.grad_holds_value) {
          grad_outputs_[static_cast<std::size_t>(record.output)] = record.grad;
        }
      }
      grad_outputs = grad_outputs_;
    }
    if (options_.deferred) {
      run_and_defer(node, grad_outputs);
    } else {
      run_node(*node, grad_outputs);
    }
    grad_outputs_.clear();
  }
  for (Reached& output : outputs) {
    auto& record = *output.variable.record();
    record.grad = {};
    record.grad_holds_value = false;
    record.pending_uses = 0;
  }
  for (int k = 0; needed && k < node->input_count_; ++k) contribution_arrived(node->input(k));
  // Free a result with no other owner now instead of at the end.
  for (Reached& output : outputs) output.variable = {};
}

void BackwardPass::run_node(Node& node, std::span<const Tensor> grad_outputs) {
  const TraceScope scope("backward", node.name(), node.layer_);
  const PrecisionGuard precision(node.precision_);
  if (expects_unchanged_inputs_) node.expect_unchanged_inputs();
  node.run(grad_outputs);
}

void BackwardPass::run_and_defer(const IntrusivePtr<Node>& node,
                                 std::span<const Tensor> grad_outputs) {
  bool any_taken = false, any_left = false;
  for (int k = 0; k < node->input_count_; ++k) {
    const Variable& input = node->input(k);
    if (input.requires_grad()) (sink_of(input) ? any_taken : any_left) = true;
  }
  if (any_left) run_node(*node, grad_outputs);
  if (!any_taken) return;
  DeferredNode& one = options_.deferred->emplace_back(
      DeferredNode{node, {grad_outputs.begin(), grad_outputs.end()}});
  for (int k = 0; k < node->input_count_; ++k) {
    // The node may have handed on a gradient as its input's (pass_grad), to which others add.
    const Tensor& handed_on = node->input(k).defined() ? node->input(k).record()->grad : Tensor();
    for (Tensor& gradient : one.grad_outputs) {
      if (handed_on.defined() && gradient.defined() && handed_on.storage() == gradient.storage())
        gradient = gradient.clone();
    }
  }
}

void BackwardPass::run_deferred(std::vector<DeferredNode> nodes, const Variable& leaves_out) {
  const auto each_leaf = [&](const Node& node, const auto& visit) {
    for (int k = 0; k < node.input_count_; ++k) {
      const Variable& input = node.input(k);
      if (input.requires_grad() && input.is_leaf() && input.record() != leaves_out.record())
        visit(input);
    }
  };
  {
    const Running running(*this);
    tells_observers_ = expects_unchanged_inputs_ = true;
    try {
      const Ending ending{*this};
      for (const DeferredNode& one : nodes) {
        each_leaf(*one.node, [&](const Variable& leaf) { this->visit(leaf); });
      }
      followers_.graph_is_known(options_);
      for (DeferredNode& one : nodes) {
        run_node(*one.node, one.grad_outputs);
        each_leaf(*one.node, [&](const Variable& leaf) { contribution_arrived(leaf); });
        one = {};
      }
    } catch (...) {
      followers_.pass_has_failed();
      throw;
    }
  }
  followers_.pass_is_over();
}

void BackwardPass::contribution_arrived(const Variable& variable) const {
  if (!variable.requires_grad() || sink_of(variable)) return;
  auto& record = *variable.record();
  if (record.pending_uses == 0 || --record.pending_uses > 0 || record.producer) return;
  for (const detail::GradHookEntry& hook : record.grad_hooks) hook.call();
}

GradTarget BackwardPass::target_of(const Variable& variable) const {
  if (!variable.requires_grad()) return {};
  if (GradSink* const sink = sink_of(variable)) return sink->target(variable);
  auto& record = *variable.record();
  if (record.pending_uses == 0) return {};  // no input of this pass depends on it
  return {true, std::exchange(record.grad_holds_value, true), variable.grad_buffer()};
}

void BackwardPass::pass_to(const Variable& variable, const Tensor& gradient) const {
  if (!variable.requires_grad()) return;
  auto& record = *variable.record();
  if (record.producer && record.pending_uses > 0 && !record.grad_holds_value) {
    record.grad = gradient;
    record.grad_holds_value = true;
    return;
  }
  contribute(gradient, target_of(variable));
}

// Defined in this file so that the compiler can inline it.

GradTarget Node::grad_target(int i) { return BackwardPass::running()->target_of(input(i)); }

void Node::pass_grad(int i, const Tensor& gradient) {
  BackwardPass::running()->pass_to(input(i), gradient);
}

bool Node::tell_when_over(PassObserver& observer) {
  return BackwardPass::running()->tell_when_over(observer);
}

void BackwardPass::end() noexcept {
  for (const Reached& one : reached_) {
    if (!one.variable.defined()) continue;
    auto& record = *one.variable.record();
    record.pending_uses = 0;
    if (record.producer) record.producer->discovered_ = false;
    if (one.variable.is_leaf()) continue;
    record.grad = {};  // incomplete after an error
    record.grad_holds_value = false;
  }
  reached_.clear();
  grad_outputs_.clear();
  ended_ = true;
}

}  // namespace lockstep
