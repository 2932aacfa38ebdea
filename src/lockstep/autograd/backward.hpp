#pragma once
#include <span>
#include <vector>

#include <lockstep/autograd/variable.hpp>

namespace lockstep {

/// Where a contribution to one variable's gradient is written: into `tensor`, adding to what is
/// there if `accumulate`, else overwriting. `wanted` is false if nobody needs it.
struct GradTarget {
  bool wanted = false;
  bool accumulate = false;
  Tensor tensor;
};

/// Where a backward pass puts gradients of leaves instead of into the leaves, for instance into one
/// store for each of several passes that share parameters. A pass only reads the leaves that its
/// sink takes, so that threads may run passes at a time through graphs that share nothing else.
/// Called by the thread that runs the pass.
class GradSink {
 public:
  virtual ~GradSink() = default;

  /// Whether this leaf's gradient comes here. Else it goes into the leaf as without a sink, and
  /// only then are the leaf's hooks called. Gives the same answer throughout a pass.
  [[nodiscard]] virtual bool takes(const Variable& leaf) const;

  /// Where a contribution to the leaf's gradient is written, right after this call: to `tensor`
  /// (shape, dtype, layout and device of leaf.data()), added to what is there if `accumulate`; or
  /// not `wanted`. Called for each contribution, in an order that the graph alone decides.
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
/// element: 1. Then frees the graph, unless it is retained. A sink or a retained graph lets passes
/// start anywhere and as often as gradients arrive from elsewhere: their contributions add up.
///
/// Throws Error or ShapeError, before any gradient is touched: no root, an undefined one, one given
/// twice or that needs no gradient, a gradient missing or unlike its root, a graph that was freed,
/// a call from inside a backward pass. After an error in an operation's backward, gradients are
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
  /// The gradients can be differentiated themselves, and so on: a penalty on a gradient, the
  /// residual of a differential equation. Keeps the graph. docs/guide/second_derivatives.md names
  /// the operations that can.
  bool create_graph = false;
  bool retain_graph = false;
  bool allow_unused = false;  ///< an undefined gradient for what the outputs do not depend on
};

/// torch.autograd.grad: the gradients of `inputs`, leaves or results. Computes and frees nothing
/// that leads elsewhere, and touches no leaf. Throws as backward(), and Error for an input that the
/// outputs do not depend on, and, with create_graph, for an operation without second derivative.
[[nodiscard]] std::vector<Variable> grad(std::span<const Variable> outputs,
                                         std::span<const Variable> inputs,
                                         const GradOptions& options = {});
/// Of one output.
[[nodiscard]] std::vector<Variable> grad(const Variable& output, std::span<const Variable> inputs,
                                         const GradOptions& options = {});
[[nodiscard]] Variable grad(const Variable& output, const Variable& input,
                            const GradOptions& options = {});

}  // namespace lockstep
