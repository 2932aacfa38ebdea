#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/base/pool.hpp>

// For those who write differentiable operations: derive from Node, call record() in the forward.

namespace lockstep {

/// Where a node's backward puts one input's gradient: into `tensor`, adding to what is there if
/// `accumulate`, else overwriting. `wanted` is false for inputs that need no gradient.
struct GradTarget {
  bool wanted = false;
  bool accumulate = false;
  Tensor tensor;
};

/// One recorded operation with one output. Nodes are pooled; they run newest first (by sequence
/// number), so that gradients become final in the same order every time.
class Node : public RefCounted<Node> {
 public:
  static constexpr int max_inputs = 4;

  /// Whether inputs and output may be of different layouts (Tensor::layout). Else record() refuses
  /// an input in another layout than the output's.
  static constexpr bool mixes_layouts = false;

  /// Turns the output's gradient into the inputs' (through grad_target(i)). Called once in each
  /// backward pass; what the node keeps stays as it is, for a pass that retains the graph.
  virtual void backward(const Tensor& grad_output) = 0;
  [[nodiscard]] virtual const char* name()
      const noexcept = 0;  ///< static string, for messages and traces

  [[nodiscard]] std::uint64_t sequence() const noexcept { return sequence_; }

 protected:
  Node();
  virtual ~Node() = default;

  /// Where input i's gradient goes. Call at most once an input, right before writing it.
  [[nodiscard]] GradTarget grad_target(int i);
  /// For operations whose gradient is the output's own, seen under another shape: input i's
  /// gradient becomes `gradient` without a copy where it is the first contribution, else it is
  /// added. Nobody else may write to `gradient` afterwards.
  void pass_grad(int i, const Tensor& gradient);
  [[nodiscard]] const Variable& input(int i) const { return inputs_[static_cast<std::size_t>(i)]; }

 private:
  friend class RefCounted<Node>;
  friend class Engine;
  template <class NodeType>
  friend class PooledNode;
  template <class NodeType, class... Args>
  friend Variable record(Tensor output, std::initializer_list<const Variable*> inputs,
                         Args&&... args);

  virtual void release() noexcept = 0;
  static void expect_layout(Layout layout, std::initializer_list<const Variable*> inputs);
  static bool any_requires_grad(std::initializer_list<const Variable*> inputs);
  static Variable attach(Tensor output, IntrusivePtr<Node> node,
                         std::initializer_list<const Variable*> inputs);

  std::array<Variable, max_inputs> inputs_;
  int input_count_ = 0;
  std::uint64_t sequence_;
  const char* layer_;  // that it was recorded in, for traces; nullptr: not traced
};

/// What concrete nodes derive from, naming themselves: struct ReluNode : PooledNode<ReluNode>.
template <class NodeType>
class PooledNode : public Node {
 private:
  void release() noexcept override {
    ObjectPool<NodeType>::instance().recycle(static_cast<NodeType*>(this));
  }
};

/// The variable for `output`, remembering how to differentiate it: a NodeType made from `args`,
/// unless gradients are off or no input needs one (then nothing is recorded and args are dropped).
/// A null or undefined input is one that is absent (an optional bias). Throws ShapeError for an
/// operation that knows nothing of channel blocks and was given an image in them.
template <class NodeType, class... Args>
Variable record(Tensor output, std::initializer_list<const Variable*> inputs, Args&&... args) {
  if constexpr (!NodeType::mixes_layouts) Node::expect_layout(output.layout(), inputs);
  if (!grad_enabled() || !Node::any_requires_grad(inputs)) return Variable(std::move(output));
  auto* node = ObjectPool<NodeType>::instance().make(std::forward<Args>(args)...);
  return Node::attach(std::move(output), IntrusivePtr<Node>(node), inputs);
}

}  // namespace lockstep
