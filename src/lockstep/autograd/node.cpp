#include <lockstep/autograd/node.hpp>

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/layer_scope.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

/// The newest node of this thread.
thread_local constinit std::uint64_t newest_sequence = 0;

/// Whether input i is among `inputs`, as Node::saved_inputs names them.
bool has_input(std::uint32_t inputs, int i) {
  return (inputs >> static_cast<unsigned>(std::min(i, 31)) & 1U) != 0;
}

}  // namespace

struct Node::FurtherInputs {
  std::array<Variable, 12> inputs;
  std::array<std::uint32_t, 12> versions{};
  FurtherInputs* next = nullptr;
};

Node::Node()
    : precision_(product_precision()), layer_(tracing() ? LayerScope::current() : nullptr) {}

Node::~Node() {
  for (std::size_t i = 0; edges_ != 0; ++i, edges_ >>= 1U) {
    if ((edges_ & 1U) != 0) inputs_[i].record()->edges.fetch_sub(1, std::memory_order_relaxed);
  }
  while (further_inputs_) {
    FurtherInputs* const block = std::exchange(further_inputs_, further_inputs_->next);
    ObjectPool<FurtherInputs>::instance().recycle(block);
  }
}

void Node::let_go(IntrusivePtr<Node> node) noexcept {
  thread_local constinit Node* waiting = nullptr;  // this list owns each of its nodes
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

Variable Node::as_recorded(const Variable& input) {
  if (!input.defined() || input.requires_grad()) return input;
  Variable constant(input.data());
  constant.record()->rounds_results_to = input.record()->rounds_results_to;
  return constant;
}

void Node::add_input(const Variable& variable) {
  const std::uint32_t version = has_input(saved_inputs_, input_count_) ? variable.version() : 0;
  auto place = static_cast<std::size_t>(input_count_++);
  if (place < inputs_.size()) {
    inputs_[place] = variable;
    versions_[place] = version;
    if (!reads_inputs_) make_edge(place);
    return;
  }
  place -= inputs_.size();
  FurtherInputs** block = &further_inputs_;
  for (; *block && place >= (*block)->inputs.size(); block = &(*block)->next) {
    place -= (*block)->inputs.size();
  }
  if (!*block) *block = ObjectPool<FurtherInputs>::instance().make();
  (*block)->inputs[place] = variable;
  (*block)->versions[place] = version;
}

void Node::expect_unchanged_inputs() const {
  if (saved_inputs_ == 0) return;
  int i = 0;
  const auto expect = [&](const Variable& input, std::uint32_t version) {
    if (has_input(saved_inputs_, i) && input.version() != version) refuse_changed(i);
    ++i;
  };
  for (std::size_t k = 0; k < inputs_.size() && i < input_count_; ++k)
    expect(inputs_[k], versions_[k]);
  for (const FurtherInputs* block = further_inputs_; block; block = block->next) {
    for (std::size_t k = 0; k < block->inputs.size() && i < input_count_; ++k)
      expect(block->inputs[k], block->versions[k]);
  }
}

void Node::refuse_changed(int i) const {
  throw Error(std::string("backward() of ") + name() + " needs input " + std::to_string(i) + ", " +
              describe(input(i).data()) +
              ", as it was in the forward pass, but it was changed in place since then: by an "
              "optimizer's step(), load_state_dict(), or an assignment under NoGradGuard. Call "
              "backward() before the change, or compute the loss again after it");
}

void Node::make_edge(std::size_t i) noexcept {
  auto* const record = inputs_[i].record();
  if (!record || !record->producer || record->producer->reads_outputs_) return;
  record->edges.fetch_add(1, std::memory_order_relaxed);
  edges_ |= static_cast<std::uint8_t>(1U << i);
}

const Variable& Node::further_input(int i) const {
  auto place = static_cast<std::size_t>(i) - inputs_.size();
  const FurtherInputs* block = further_inputs_;
  for (; place >= block->inputs.size(); block = block->next) place -= block->inputs.size();
  return block->inputs[place];
}

void Node::expect_layout(std::span<const Tensor> outputs, const NodeInputs& inputs) {
  for (const Tensor& output : outputs) {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Variable* const variable = inputs[i];
      if (!variable || !variable->defined() || variable->data().layout() == output.layout()) {
        continue;
      }
      throw ShapeError(
          "an operation was given " + describe(variable->data()) +
          (output.layout() == Layout::plain
               ? ", which it does not support: use from_channel_blocks first"
               : " together with an image in channel blocks: both must have the same layout"));
    }
  }
}

/// The type to which f32 results are rounded: the common 16-bit type of all floating inputs, else
/// f32.
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
      node->add_input(inputs[i] ? as_recorded(*inputs[i]) : Variable());
      const auto* record = inputs[i] ? inputs[i]->record() : nullptr;
      if (!record || !record->producer) continue;
      // Another thread made it, so its number may be ahead of this thread's (Lamport 1978).
      newest_sequence = std::max(newest_sequence, record->producer->sequence_);
    }
    for (const int i : {0, 1}) {
      if (node->is_bilinear_ && !node->input(1 - i).requires_grad()) node->does_not_save(i);
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
