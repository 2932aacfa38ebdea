#pragma once
#include <vector>

#include <lockstep/autograd/node.hpp>

namespace lockstep {

/// The backward pass over one graph. One engine a thread, its list reused from pass to pass.
class Engine {
 public:
  /// This thread's engine.
  static Engine& instance();

  /// See Variable::backward. Throws Error if root has more than one element or needs no gradient,
  /// or if its graph was freed.
  void run(const Variable& root, double seed, bool retain_graph,
           const std::function<void()>& once_discovered);

 private:
  /// Collects every variable that root depends on and counts how often each one is used.
  void discover(const Variable& root);
  void visit(const Variable& variable);
  /// Runs one variable's producer and, unless the graph is retained, lets go of everything only it
  /// needed.
  static void run_producer(detail::VariableRecord& output, bool retain_graph);
  void forget() noexcept;

  std::vector<Variable> variables_;  ///< leaves and results; results run newest first
  bool running_ = false;
};

}  // namespace lockstep
