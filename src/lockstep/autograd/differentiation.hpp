#pragma once
#include <span>
#include <type_traits>
#include <vector>

#include <lockstep/autograd/node.hpp>

// For authors of operations that can be differentiated more than once: override
// Node::differentiate() in addition to backward(). See also linear_map.hpp and trilinear.hpp.

namespace lockstep {

class BackwardPass;

/// A node's part in a recorded backward pass (GradOptions::create_graph): it takes the gradients of
/// its outputs as variables, and returns those of its inputs, made by operations.
class Differentiation {
 public:
  /// The gradient of output i; undefined if the roots do not depend on it.
  [[nodiscard]] const Variable& grad_output(int i = 0) const { return grad_outputs_[index(i)]; }
  /// Output i itself, so that values that a node has saved from it depend on the inputs; undefined
  /// as above.
  [[nodiscard]] const Variable& output(int i = 0) const { return outputs_[index(i)]; }

  /// Input i with a value that the node kept, of its shape and dtype: for nodes that read no
  /// inputs.
  [[nodiscard]] Variable input_as(int i, const Tensor& value) const;

  /// True if input i's gradient leads to a requested input.
  [[nodiscard]] bool wants(int i) const;
  /// Input i's gradient, of its shape; at most once an input. Dropped if it is not wanted.
  void give(int i, const Variable& gradient);

  /// Gives each input the gradient that it has in parts(std::span<const Variable> inputs), which
  /// computes the output, or a range of all outputs, by other operations: for fused operations.
  template <class Parts>
  void give_as(const Parts& parts) {
    const std::vector<Variable> inputs = aliases();
    const auto outputs = parts(std::span(inputs));
    if constexpr (std::is_same_v<decltype(outputs), const Variable>) {
      give_gradients(inputs, std::span(&outputs, 1));
    } else {
      give_gradients(inputs, outputs);
    }
  }

 private:
  friend class BackwardPass;
  Differentiation(const BackwardPass& pass, Node& node, std::span<const Variable> outputs,
                  std::span<const Variable> grad_outputs, std::span<Variable> grad_inputs)
      : pass_(pass),
        node_(node),
        outputs_(outputs),
        grad_outputs_(grad_outputs),
        grad_inputs_(grad_inputs) {}
  /// The inputs; wanted ones are separate variables.
  [[nodiscard]] std::vector<Variable> aliases() const;
  void give_gradients(std::span<const Variable> inputs, std::span<const Variable> outputs);
  [[nodiscard]] static std::size_t index(int i) { return static_cast<std::size_t>(i); }

  const BackwardPass& pass_;
  Node& node_;
  std::span<const Variable> outputs_, grad_outputs_;
  std::span<Variable> grad_inputs_;
};

}  // namespace lockstep
