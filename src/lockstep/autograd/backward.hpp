#pragma once
#include <span>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// The destination of a contribution to one variable's gradient: written to `tensor`, added to its
/// values if `accumulate`, else overwriting them. `wanted` is false if nobody needs it.
struct GradTarget {
  bool wanted = false;
  bool accumulate = false;
  Tensor tensor;
};

/// Receives gradients of leaves from a backward pass in place of the leaves, e.g. one store per
/// pass for several passes that share parameters. A pass only reads the leaves that its sink takes,
/// so that threads may run passes at a time through graphs that share nothing else. Called by the
/// thread that runs the pass.
class GradSink {
 public:
  virtual ~GradSink() = default;

  /// True if this sink takes the leaf's gradient. Else it goes into the leaf as without a sink, and
  /// only then are the leaf's hooks called. Gives the same answer throughout a pass.
  [[nodiscard]] virtual bool takes(const Variable& leaf) const;

  /// The destination of a contribution to the leaf's gradient, which is written right after this
  /// call: to `tensor` (shape, dtype, layout and device of leaf.data()), added to its values if
  /// `accumulate`; or not `wanted`. Called for each contribution, in an order that the graph alone
  /// decides.
  [[nodiscard]] virtual GradTarget target(const Variable& leaf) = 0;
};

/// Options of backward().
struct BackwardOptions {
  bool retain_graph = false;  ///< the graph can be differentiated again
  GradSink* sink = nullptr;   ///< null: each leaf gets its own gradient
};

/// torch.autograd.backward: differentiates the sum over the roots of root * gradient with respect
/// to every leaf that they depend on and adds the result to the leaves' gradients; one pass,
/// however the roots' graphs overlap. gradients[i] has shape, dtype, layout and device of
/// roots[i].data() and is only read; it may be undefined, or `gradients` empty, for roots with one
/// element: 1. Then frees the graph, unless it is retained. With a sink or a retained graph, passes
/// may start anywhere, each time gradients arrive from another rank: their contributions add up.
///
/// Throws Error or ShapeError, before any gradient is touched, for: no root, an undefined root, a
/// root given twice or that needs no gradient, a missing gradient or one unlike its root, a freed
/// graph, a call inside a backward pass. After an error in an operation's backward, gradients are
/// incomplete.
void backward(std::span<const Variable> roots, std::span<const Tensor> gradients = {},
              const BackwardOptions& options = {});

/// The same from inside a backward pass, for an operation whose backward consists of recorded
/// operations; all leaves' gradients go to `sink`.
void backward_within(std::span<const Variable> roots, std::span<const Tensor> gradients,
                     GradSink& sink);

/// Options of grad().
struct GradOptions {
  /// One for each output, as backward() takes gradients of roots, or none.
  std::span<const Variable> grad_outputs = {};
  /// The gradients can themselves be differentiated, to any order: e.g. for a gradient penalty, or
  /// the residual of a differential equation. Keeps the graph. docs/guide/second_derivatives.md
  /// names the operations that can.
  bool create_graph = false;
  bool retain_graph = false;
  bool allow_unused =
      false;  ///< an undefined gradient for inputs on which the outputs do not depend
};

/// torch.autograd.grad: the gradients of `inputs`, leaves or results. Computes and frees only the
/// parts of the graph that lead to the inputs, and touches no leaf. Throws as backward() does, and
/// Error for an input on which the outputs do not depend, and, with create_graph, for an operation
/// without a second derivative.
[[nodiscard]] std::vector<Variable> grad(std::span<const Variable> outputs,
                                         std::span<const Variable> inputs,
                                         const GradOptions& options = {});
/// Of one output.
[[nodiscard]] std::vector<Variable> grad(const Variable& output, std::span<const Variable> inputs,
                                         const GradOptions& options = {});
[[nodiscard]] Variable grad(const Variable& output, const Variable& input,
                            const GradOptions& options = {});

}  // namespace lockstep
