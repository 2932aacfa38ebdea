#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <span>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/variable.hpp>
#include <lockstep/base/pool.hpp>
#include <lockstep/tensor/precision.hpp>

// For authors of differentiable operations: derive from PooledNode, or from MultiOutputNode for
// several outputs, and call record() in the forward.

namespace lockstep {

class Differentiation;

/// The inputs of an operation, as record() is given them: `{&x, &weight}`, or a span of variables.
/// A null or undefined one is absent (an optional bias). Refers to its caller's memory.
class NodeInputs {
 public:
  NodeInputs(std::initializer_list<const Variable*> inputs)
      : pointers_(std::data(inputs)), size_(inputs.size()) {}
  NodeInputs(std::span<const Variable> inputs) : variables_(inputs.data()), size_(inputs.size()) {}

  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] const Variable* operator[](std::size_t i) const noexcept {
    return pointers_ ? pointers_[i] : variables_ + i;
  }

 private:
  const Variable* const* pointers_ = nullptr;
  const Variable* variables_ = nullptr;
  std::size_t size_;
};

/// One recorded operation with any number of inputs and outputs. Nodes are pooled; they run newest
/// first (by sequence number), so that gradients become final in the same order every time.
class Node : public RefCounted<Node> {
 public:
  /// Whether inputs and outputs may be of different layouts (Tensor::layout). Else record() refuses
  /// an input in another layout than the outputs'.
  static constexpr bool mixes_layouts = false;
  /// Whether backward() and differentiate() read values of inputs, beyond their shapes and types. A
  /// node that does not keeps them from nobody: an activation without handles and readers goes
  /// before the backward pass. differentiate() then takes inputs from Differentiation::input_as.
  static constexpr bool reads_inputs = true;
  /// Whether differentiate() reads the value of an output (Differentiation::output).
  static constexpr bool reads_outputs = true;
  /// The inputs, a bit each (the last for all from 31 on), whose values the backward pass needs as
  /// they were in forward, wherever the node keeps them: Variable::backward() throws if one was
  /// changed in place since (Variable::version).
  static constexpr std::uint32_t saved_inputs = ~std::uint32_t{0};
  /// Whether inputs 0 and 1 are needed for each other's gradient alone, as factors are.
  static constexpr bool is_bilinear = false;
  /// Whether the output shares the memory of input 0.
  static constexpr bool is_view = false;

  [[nodiscard]] virtual const char* name()
      const noexcept = 0;  ///< static string, for messages and traces

  /// Larger than the numbers of all nodes on which it depends, on whatever threads they were
  /// recorded.
  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }

 protected:
  Node();
  virtual ~Node();
  /// For constructors: input i is not needed after all, as this node keeps something else.
  void does_not_save(int i) noexcept { saved_inputs_ &= ~(std::uint32_t{1} << i); }

  /// The destination of input i's gradient. Call at most once an input, right before writing it.
  [[nodiscard]] GradTarget grad_target(int i);
  /// For operations whose gradient is the output's with another shape: input i's gradient becomes
  /// `gradient` without a copy if it is the first contribution, else it is added. Nobody else may
  /// write to `gradient` afterwards.
  void pass_grad(int i, const Tensor& gradient);
  /// The backward pass that runs calls observer.pass_is_over() at its end, once however often it is
  /// asked to. Does nothing and returns false for a pass that Variable::backward or
  /// lockstep::backward did not start.
  static bool tell_when_over(PassObserver& observer);
  [[nodiscard]] const Variable& input(int i) const {
    return i < inline_inputs ? inputs_[static_cast<std::size_t>(i)] : further_input(i);
  }
  [[nodiscard]] int input_count() const noexcept { return input_count_; }

  /// Computes the inputs' gradients from the outputs' by operations that record; replaces
  /// backward() in a pass that will be differentiated (differentiation.hpp). Throws Error for an
  /// operation that has not overridden it.
  virtual void differentiate(Differentiation& d);

 private:
  friend class RefCounted<Node>;
  friend class Differentiation;
  friend class BackwardPass;
  friend struct detail::VariableRecord;
  template <class NodeType, class... Args>
  friend void record(std::span<Tensor> outputs, std::span<Variable> results,
                     const NodeInputs& inputs, Args&&... args);

  static constexpr int inline_inputs = 4;
  struct FurtherInputs;

  /// Turns the outputs' gradients into the inputs'; called once in each backward pass.
  virtual void run(std::span<const Tensor> grad_outputs) = 0;
  virtual void release() noexcept = 0;
  /// Gives up an owner's share. A graph goes node after node, and not each within the one that it
  /// led to: it may be longer than the stack is deep.
  static void let_go(IntrusivePtr<Node> node) noexcept;

  static void expect_layout(std::span<const Tensor> outputs, const NodeInputs& inputs);
  static bool any_requires_grad(const NodeInputs& inputs);
  static DType result_dtype(const NodeInputs& inputs);
  static void attach(std::span<Tensor> outputs, std::span<Variable> results,
                     const IntrusivePtr<Node>& node, const NodeInputs& inputs);
  void add_input(const Variable& variable);
  /// Throws Error if one of saved_inputs was changed in place since it was recorded.
  void expect_unchanged_inputs() const;
  [[noreturn]] void refuse_changed(int i) const;
  /// The input as this node has it: one without a gradient gets none later either, though it may be
  /// trained before the backward pass.
  static Variable as_recorded(const Variable& input);
  /// inputs_[i] is an owner that does not need its value.
  void make_edge(std::size_t i) noexcept;
  [[nodiscard]] const Variable& further_input(int i) const;

  std::array<Variable, inline_inputs> inputs_;
  std::array<std::uint32_t, inline_inputs> versions_{};  ///< of inputs_, when they were recorded
  std::uint32_t saved_inputs_ = ~std::uint32_t{0};
  FurtherInputs* further_inputs_ = nullptr;
  int input_count_ = 0;
  int output_count_ = 0;
  bool discovered_ = false;  ///< during backward: its inputs are counted
  bool reads_inputs_ = true, reads_outputs_ = true, is_view_ = false, is_bilinear_ = false;
  std::uint8_t edges_ = 0;  ///< a bit for each of inputs_
  Precision precision_;     ///< of its thread when it was recorded
  std::uint64_t sequence_ = 0;
  const char* layer_;  // the layer that it was recorded in, for traces; nullptr: not traced
  Node* next_to_go_ = nullptr;
};

/// Base class of concrete nodes with one output (CRTP):
/// class ReluNode : public PooledNode<ReluNode>.
template <class NodeType>
class PooledNode : public Node {
 public:
  /// Turns the output's gradient into the inputs' (through grad_target(i)). Keeps saved values, for
  /// a pass that retains the graph.
  virtual void backward(const Tensor& grad_output) = 0;

 private:
  void run(std::span<const Tensor> grad_outputs) final { backward(grad_outputs[0]); }
  void release() noexcept override {
    ObjectPool<NodeType>::instance().recycle(static_cast<NodeType*>(this));
  }
};

/// The same for nodes with several outputs.
template <class NodeType>
class MultiOutputNode : public Node {
 public:
  /// As PooledNode::backward. The gradient of an output that the roots do not depend on is
  /// undefined; one at least is defined.
  virtual void backward(std::span<const Tensor> grad_outputs) = 0;

 private:
  void run(std::span<const Tensor> grad_outputs) final { backward(grad_outputs); }
  void release() noexcept override {
    ObjectPool<NodeType>::instance().recycle(static_cast<NodeType*>(this));
  }
};

/// results[i] becomes the variable for outputs[i], with a NodeType made from `args` as its
/// producer, unless gradients are off or no input needs one (then nothing is recorded and args are
/// dropped). Throws ShapeError if an operation without support for channel blocks was given an
/// image in them.
template <class NodeType, class... Args>
void record(std::span<Tensor> outputs, std::span<Variable> results, const NodeInputs& inputs,
            Args&&... args) {
  if constexpr (!NodeType::mixes_layouts) Node::expect_layout(outputs, inputs);
  IntrusivePtr<Node> node;
  if (grad_enabled() && Node::any_requires_grad(inputs)) {
    node = IntrusivePtr<Node>(ObjectPool<NodeType>::instance().make(std::forward<Args>(args)...));
    node->reads_inputs_ = NodeType::reads_inputs;
    node->reads_outputs_ = NodeType::reads_outputs;
    node->saved_inputs_ &= NodeType::saved_inputs;
    node->is_bilinear_ = NodeType::is_bilinear;
    node->is_view_ = NodeType::is_view;
  }
  Node::attach(outputs, results, node, inputs);
}

/// The same for one output.
template <class NodeType, class... Args>
Variable record(Tensor output, const NodeInputs& inputs, Args&&... args) {
  Variable result;
  record<NodeType>(std::span(&output, 1), std::span(&result, 1), inputs,
                   std::forward<Args>(args)...);
  return result;
}

/// The same for a fixed number of outputs.
template <class NodeType, std::size_t n, class... Args>
std::array<Variable, n> record(std::array<Tensor, n> outputs, const NodeInputs& inputs,
                               Args&&... args) {
  std::array<Variable, n> results;
  record<NodeType>(std::span<Tensor>(outputs), std::span<Variable>(results), inputs,
                   std::forward<Args>(args)...);
  return results;
}

}  // namespace lockstep
