#include <lockstep/autograd/engine.hpp>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise.hpp>

namespace lockstep {
namespace {

thread_local constinit Engine* running_engine = nullptr;

std::string root_name(std::size_t i, const Variable& root) {
  return "root " + std::to_string(i) + ", " + describe(root.data()) + ",";
}

void check_root(std::size_t i, const Variable& root, const Tensor& gradient) {
  if (!root.defined()) throw Error("backward(): root " + std::to_string(i) + " is undefined");
  if (!root.requires_grad()) {
    throw Error(
        "backward(): " + root_name(i, root) +
        " depends on no parameter: was it computed under NoGradGuard, or is it a gradient, of "
        "something linear or without create_graph?");
  }
  const Tensor& value = root.data();
  if (!gradient.defined()) {
    if (value.numel() == 1) return;
    throw Error("backward(): " + root_name(i, root) +
                " has more than one element and so needs a gradient, which is missing");
  }
  if (!detail::fits(gradient, value)) {
    throw ShapeError("backward(): " + root_name(i, root) + " was given another kind of gradient, " +
                     describe(gradient));
  }
}

void contribute(const Tensor& gradient, const GradTarget& target) {
  if (!target.wanted) return;
  if (target.accumulate) {
    add_scaled(gradient, 1.0, target.tensor);
  } else {
    target.tensor.copy_from(gradient);
  }
}

}  // namespace

Engine& Engine::instance() {
  thread_local Engine engine;
  return engine;
}

void Engine::check(const BackwardPass& pass) {
  if (pass.roots.empty()) throw Error("backward() was given no root to start from");
  if (!pass.gradients.empty() && pass.gradients.size() != pass.roots.size()) {
    throw Error("backward() was given " + std::to_string(pass.roots.size()) + " roots and " +
                std::to_string(pass.gradients.size()) +
                " gradients: there is one for each root, or none at all");
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

class Engine::Running {
 public:
  explicit Running(Engine& engine) {
    if (running_engine) {
      throw Error("backward() was called from inside backward(), which is not supported");
    }
    running_engine = &engine;
  }
  /// Within a node's backward: `outer` goes on afterwards.
  Running(Engine& engine, Engine* outer) : outer_(outer) { running_engine = &engine; }
  ~Running() { running_engine = outer_; }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;

 private:
  Engine* outer_ = nullptr;
};

void Engine::run(const BackwardPass& pass) {
  if (!running_engine && !followers_.empty()) {  // within pass_is_over()
    const auto other = std::make_unique<Engine>();
    return other->run(pass);
  }
  {
    const Running running(*this);
    tells_observers_ = pass.inputs.empty();
    try {
      run_pass(pass);
    } catch (...) {
      fail_following();
      throw;
    }
    tells_observers_ = false;
  }
  end_following();
}

void Engine::tell_observers(const Variable& leaf) {
  for (const detail::GradHookEntry& hook : leaf.record()->grad_hooks) {
    if (!hook.observer) continue;
    const auto place = std::ranges::find(followers_, hook.observer, &Follower::observer);
    if (place == followers_.end()) tell_of_pass(*hook.observer, true);
  }
}

void Engine::tell_of_pass(PassObserver& observer, bool is_reached) {
  Follower& follower =
      followers_.emplace_back(Follower{.observer = &observer, .is_reached = is_reached});
  follower.answer = observer.pass_begins(pass_->roots, pass_->gradients, pass_->seed);
  any_redirected_ = any_redirected_ || follower.answer.sink;
}

bool Engine::tell_when_over(PassObserver& observer) {
  if (!tells_observers_) return false;
  const auto place = std::ranges::find(followers_, &observer, &Follower::observer);
  if (place == followers_.end()) {
    followers_.push_back(
        {.observer = &observer, .answer = {.follows = true}, .keeps = observer.owner()});
  }
  return true;
}

GradSink* Engine::redirected_sink_of(const Variable& leaf) const {
  for (const Follower& follower : followers_) {
    if (follower.answer.sink && follower.answer.sink->takes(leaf)) return follower.answer.sink;
  }
  return nullptr;
}

void Engine::begin_following() {
  PassObserver* const asked = pass_->observer;
  if (asked && std::ranges::find(followers_, asked, &Follower::observer) == followers_.end())
    tell_of_pass(*asked, false);
  const auto is_out = [](const Follower& follower) { return !follower.answer.follows; };
  std::erase_if(followers_, is_out);
  std::ranges::sort(followers_, {},
                    [](const Follower& follower) { return follower.observer->number(); });
  for (std::size_t i = 0; i < followers_.size(); ++i) {
    followers_[i].observer->leaves_are_known(i == 0, followers_[i].is_reached);
  }
}

void Engine::end_following() {
  any_redirected_ = false;
  if (!followers_.empty() && followers_.back().keeps) {  // the pass goes on by way of that one
    const auto unreached = std::ranges::find_if(
        followers_, [](const Follower& one) { return !one.is_reached && !one.keeps; });
    if (unreached != followers_.end())
      std::rotate(unreached, unreached + 1,
                  followers_.end());  // one at most: BackwardPass::observer
  }
  for (; !followers_.empty(); followers_.erase(followers_.begin())) {
    PassObserver& observer = *followers_.front().observer;
    try {
      observer.pass_is_over();
    } catch (...) {
      followers_.erase(followers_.begin());
      fail_following();
      throw;
    }
  }
}

void Engine::fail_following() noexcept {
  tells_observers_ = any_redirected_ = false;
  for (const Follower& follower : followers_) {
    if (follower.answer.follows) follower.observer->pass_has_failed();
  }
  followers_.clear();
}

template <class Run>
auto Engine::within(const Run& run) {
  // One for each depth, its lists reused.
  thread_local std::vector<std::unique_ptr<Engine>> engines;
  thread_local std::size_t depth = 0;
  if (depth == engines.size()) engines.push_back(std::make_unique<Engine>());
  Engine& engine = *engines[depth];
  struct Deeper {
    Deeper() { ++depth; }
    ~Deeper() { --depth; }
  } const deeper;
  const Running running(engine, running_engine);
  return run(engine);
}

void Engine::run_within(const BackwardPass& pass) {
  within([&](Engine& engine) { engine.run_pass(pass); });
}

std::vector<Variable> Engine::run_recorded_within(const BackwardPass& pass,
                                                  std::span<const Variable> gradients) {
  return within([&](Engine& engine) { return engine.run_recorded_pass(pass, gradients); });
}

std::vector<Variable> Engine::run_recorded(const BackwardPass& pass,
                                           std::span<const Variable> gradients) {
  const Running running(*this);
  return run_recorded_pass(pass, gradients);
}

void Engine::run_pass(const BackwardPass& pass) {
  check(pass);
  const Ending ending{*this};
  begin(pass);
  begin_following();
  give_to_roots();
  run_ready(true);
}

void Engine::begin(const BackwardPass& pass) {
  pass_ = &pass;
  oldest_ = pass.inputs.empty() ? 0 : std::numeric_limits<std::uint64_t>::max();
  for (const Variable& input : pass.inputs) {
    const Node* const producer = input.record()->producer.get();
    oldest_ = std::min(oldest_, producer ? producer->sequence() : 0);
  }
  discover();
  if (!pass.inputs.empty()) prune();
}

void Engine::give(const Variable& root, const Tensor& gradient) {
  if (!pass_) throw Error("a gradient was given to a backward pass that an error has ended");
  if (gradient.defined()) contribute(gradient, target_of(root));
  contribution_arrived(root);
}

void Engine::advance(bool all) {
  const Running running(*this);
  run_ready(all);
  std::erase_if(reached_, [](const Reached& reached) { return !reached.variable.defined(); });
}

void Engine::run_ready(bool all) {
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

void Engine::discover() {
  for (const Variable& root : pass_->roots) visit(root);
  for (std::size_t i = 0; i < reached_.size(); ++i) {
    Node* const node = reached_[i].variable.record()->producer.get();
    if (!node || std::exchange(node->discovered_, true)) continue;
    for (int k = 0; k < node->input_count_; ++k) visit(node->input(k));
  }
  std::ranges::sort(reached_, [](const Reached& a, const Reached& b) {
    if (a.sequence != b.sequence) return a.sequence > b.sequence;
    return std::less<>()(a.producer(), b.producer());  // the outputs of a node side by side
  });
}

void Engine::visit(const Variable& variable) {
  if (!variable.requires_grad()) return;
  auto& record = *variable.record();
  if (record.graph_freed) {
    throw Error(
        "backward() came a second time to a result, " + describe(variable.data()) +
        ", whose graph an earlier backward() has freed. Where two losses share a part of the "
        "model, add the losses and call backward() once, or keep the graph in the calls before the "
        "last: backward(1.0, /*retain_graph=*/true). To start anew from a result's value, take "
        "Variable(result.data()).");
  }
  if (tells_observers_ && !record.grad_hooks.empty() && record.pending_uses == 0 &&
      !sink_of(variable)) {
    tell_observers(variable);
  }
  if (sink_of(variable)) return;
  if (record.producer && record.producer->sequence() < oldest_) return;
  if (record.pending_uses++ > 0) return;
  reached_.push_back({record.producer ? record.producer->sequence() : 0, variable});
}

bool Engine::is_input(const Variable& variable) const {
  return std::ranges::find(pass_->inputs, variable.record(), &Variable::record) !=
         pass_->inputs.end();
}

bool Engine::leads_to_input(const Variable& variable) const {
  if (!variable.requires_grad()) return false;
  return sink_of(variable) ? is_input(variable) : variable.record()->pending_uses > 0;
}

void Engine::prune() {
  for (auto place = reached_.rbegin(); place != reached_.rend(); ++place) {  // oldest first
    Reached& reached = *place;
    Node* const node = reached.variable.record()->producer.get();
    reached.needed = false;
    for (int k = 0; node && k < node->input_count_ && !reached.needed; ++k) {
      reached.needed = leads_to_input(node->input(k));
    }
    if (reached.needed || is_input(reached.variable)) continue;
    reached.variable.record()->pending_uses = 0;
    if (node) node->discovered_ = false;
    reached.variable = {};
  }
  std::erase_if(reached_, [](const Reached& reached) { return !reached.variable.defined(); });
}

void Engine::give_to_roots() {
  for (std::size_t i = 0; i < pass_->roots.size(); ++i) {
    const Variable& root = pass_->roots[i];
    if (!pass_->gradients.empty() && pass_->gradients[i].defined()) {
      give(root, pass_->gradients[i]);
    } else {
      give_seed(root);
    }
  }
}

void Engine::give_seed(const Variable& root) {
  const GradTarget target = target_of(root);
  if (target.wanted && !target.accumulate) {
    fill(target.tensor, pass_->seed);
  } else if (target.wanted) {
    const Tensor seed = Tensor::empty_like(target.tensor);
    fill(seed, pass_->seed);
    contribute(seed, target);
  }
  contribution_arrived(root);
}

void Engine::run_producer(std::size_t begin, std::size_t end) {
  detail::VariableRecord& first = *reached_[begin].variable.record();
  const IntrusivePtr<Node> node = first.producer;
  const bool needed = reached_[begin].needed;
  node->discovered_ = false;
  if (needed && !pass_->retain_graph) {
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
  if (!pass_->inputs.empty()) {
    for (const Reached& output : outputs) {
      if (!output.variable.record()->grad_holds_value || !is_input(output.variable)) continue;
      contribute(output.variable.record()->grad, pass_->sink->target(output.variable));
    }
  }
  if (needed && any_gradient) {
    const TraceScope scope("backward", node->name(), node->layer_);
    const PrecisionGuard precision(node->precision_);
    if (node->output_count_ == 1) {
      node->run(std::span(&first.grad, 1));
    } else {
      grad_outputs_.resize(static_cast<std::size_t>(node->output_count_));
      for (const Reached& output : outputs) {
        const auto& record = *output.variable.record();
        if (record.grad_holds_value) {
          grad_outputs_[static_cast<std::size_t>(record.output)] = record.grad;
        }
      }
      node->run(grad_outputs_);
      grad_outputs_.clear();
    }
  }
  for (Reached& output : outputs) {
    auto& record = *output.variable.record();
    record.grad = {};
    record.grad_holds_value = false;
    record.pending_uses = 0;
  }
  for (int k = 0; needed && k < node->input_count_; ++k) contribution_arrived(node->input(k));
  // A result nobody else holds is freed now, not at the end.
  for (Reached& output : outputs) output.variable = {};
}

void Engine::contribution_arrived(const Variable& variable) const {
  if (!variable.requires_grad() || sink_of(variable)) return;
  auto& record = *variable.record();
  if (record.pending_uses == 0 || --record.pending_uses > 0 || record.producer) return;
  for (const detail::GradHookEntry& hook : record.grad_hooks) hook.call();
}

GradTarget Engine::target_of(const Variable& variable) const {
  if (!variable.requires_grad()) return {};
  if (GradSink* const sink = sink_of(variable)) return sink->target(variable);
  auto& record = *variable.record();
  if (record.pending_uses == 0) return {};  // leads to no input of this pass
  return {true, std::exchange(record.grad_holds_value, true), variable.grad_buffer()};
}

void Engine::pass_to(const Variable& variable, const Tensor& gradient) const {
  if (!variable.requires_grad()) return;
  auto& record = *variable.record();
  if (record.producer && record.pending_uses > 0 && !record.grad_holds_value) {
    record.grad = gradient;
    record.grad_holds_value = true;
    return;
  }
  contribute(gradient, target_of(variable));
}

void Engine::end() noexcept {
  for (const Reached& reached : reached_) {
    if (!reached.variable.defined()) continue;
    auto& record = *reached.variable.record();
    record.pending_uses = 0;
    if (record.producer) record.producer->discovered_ = false;
    if (reached.variable.is_leaf()) continue;
    record.grad = {};  // half summed when an error came
    record.grad_holds_value = false;
  }
  reached_.clear();
  grad_outputs_.clear();
  pass_ = nullptr;
}

// --- Node: its inputs and its dealings with the engine
// ------------------------------------------------------------

namespace {

/// The newest node of this thread.
thread_local constinit std::uint64_t newest_sequence = 0;

}  // namespace

struct Node::FurtherInputs {
  std::array<Variable, 12> inputs;
  FurtherInputs* next = nullptr;
};

Node::Node()
    : precision_(product_precision()), layer_(tracing() ? LayerScope::current() : nullptr) {}

Node::~Node() {
  while (further_inputs_) {
    FurtherInputs* const block = std::exchange(further_inputs_, further_inputs_->next);
    ObjectPool<FurtherInputs>::instance().recycle(block);
  }
}

void Node::let_go(IntrusivePtr<Node> node) noexcept {
  thread_local constinit Node* waiting = nullptr;  // each has one owner: this list
  thread_local constinit bool going = false;
  if (node->owners() > 1) return;
  if (going) {
    node->add_owner();
    node->next_to_go_ = std::exchange(waiting, node.get());
    return;
  }
  going = true;
  node = {};
  while (waiting) {
    Node* const next = std::exchange(waiting, waiting->next_to_go_);
    next->drop_owner();
  }
  going = false;
}

void Node::add_input(const Variable& variable) {
  auto place = static_cast<std::size_t>(input_count_++);
  if (place < inputs_.size()) {
    inputs_[place] = variable;
    return;
  }
  place -= inputs_.size();
  FurtherInputs** block = &further_inputs_;
  for (; *block && place >= (*block)->inputs.size(); block = &(*block)->next) {
    place -= (*block)->inputs.size();
  }
  if (!*block) *block = ObjectPool<FurtherInputs>::instance().make();
  (*block)->inputs[place] = variable;
}

const Variable& Node::further_input(int i) const {
  auto place = static_cast<std::size_t>(i) - inputs_.size();
  const FurtherInputs* block = further_inputs_;
  for (; place >= block->inputs.size(); block = block->next) place -= block->inputs.size();
  return block->inputs[place];
}

GradTarget Node::grad_target(int i) { return running_engine->target_of(input(i)); }

void Node::pass_grad(int i, const Tensor& gradient) { running_engine->pass_to(input(i), gradient); }

bool Node::tell_when_over(PassObserver& observer) {
  return running_engine->tell_when_over(observer);
}

void Node::expect_layout(std::span<const Tensor> outputs, const NodeInputs& inputs) {
  for (const Tensor& output : outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Variable* const variable = inputs[i];
      if (!variable || !variable->defined() || variable->data().layout() == output.layout()) {
        continue;
      }
      throw ShapeError("an operation was given " + describe(variable->data()) +
                       (output.layout() == Layout::plain
                            ? ", which it cannot take: use from_channel_blocks first"
                            : " beside an image in channel blocks: both must be held alike"));
    }
  }
}

/// What results of f32 are rounded to: the type that all floating inputs had, if it has 16 bits.
DType Node::result_dtype(const NodeInputs& inputs) {
  DType dtype = DType::f32;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const auto* record = inputs[i] ? inputs[i]->record() : nullptr;
    if (!record || !is_floating(record->data.dtype())) continue;
    const DType wanted = record->rounds_results_to;
    if (wanted == DType::f32 || (dtype != DType::f32 && dtype != wanted)) return DType::f32;
    dtype = wanted;
  }
  return dtype;
}

bool Node::any_requires_grad(const NodeInputs& inputs) {
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] && inputs[i]->requires_grad()) return true;
  }
  return false;
}

void Node::attach(std::span<Tensor> outputs, std::span<Variable> results,
                  const IntrusivePtr<Node>& node, const NodeInputs& inputs) {
  if (node) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      node->add_input(inputs[i] ? *inputs[i] : Variable());
      const auto* record = inputs[i] ? inputs[i]->record() : nullptr;
      if (!record || !record->producer) continue;
      // Made by another thread, it may be ahead of this one (Lamport 1978).
      newest_sequence = std::max(newest_sequence, record->producer->sequence_);
    }
    node->sequence_ = ++newest_sequence;
    node->output_count_ = static_cast<int>(outputs.size());
  }
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    results[i] = Variable(std::move(outputs[i]), static_cast<bool>(node));
    if (!node) continue;
    auto& record = *results[i].record();
    record.producer = node;
    record.output = static_cast<std::int32_t>(i);
    if (i > 0) results[0].record()->join_outputs(record);
  }
  const DType dtype = result_dtype(inputs);
  if (dtype == DType::f32) return;
  for (Variable& result : results) {
    if (result.data().dtype() == DType::f32) result = to(result, dtype);
  }
}

}  // namespace lockstep
