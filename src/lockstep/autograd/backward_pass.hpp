#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/pass_followers.hpp>
#include <lockstep/autograd/pass_observer.hpp>

namespace lockstep {

/// A node that has run for some of its inputs, and will again for the rest (SplitBackward).
struct DeferredNode {
  IntrusivePtr<Node> node;
  std::vector<Tensor> grad_outputs;
};

/// The options of one backward pass. Refers to its caller's memory.
struct PassOptions {
  std::span<const Variable> roots = {};    ///< all with one element, unless they have gradients
  std::span<const Tensor> gradients = {};  ///< of the roots, as lockstep::backward takes them
  double seed = 1.0;                       ///< the gradient of a root without a given one
  bool retain_graph = false;
  GradSink* sink = nullptr;
  /// If any: nothing but the sink's gradients of these is wanted.
  std::span<const Variable> inputs = {};
  PassObserver* observer =
      nullptr;          ///< is notified of the pass even if it reaches none of its leaves
  bool nested = false;  ///< may run within the backward of a node; tells no observer
  /// Gets the nodes with inputs that the sink takes, for run_deferred(); newest first.
  std::vector<DeferredNode>* deferred = nullptr;
};

/// One backward pass: from the graph that its roots depend on to the gradients of the leaves. Runs
/// as a whole, or step by step. The destructor ends the pass at whatever step it is. The lists of a
/// pass are reused by later ones of the thread.
class BackwardPass {
 public:
  explicit BackwardPass(const PassOptions& options);
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  /// The whole pass. See Variable::backward and lockstep::backward for the errors thrown. Notifies
  /// the observers of the leaves that it reaches (PassObserver).
  void run();

  /// A pass through the leaves of deferred nodes alone, which tells their observers. Frees the
  /// nodes. `leaves_out`: the leaf for which they have run already.
  void run_deferred(std::vector<DeferredNode> nodes, const Variable& leaves_out);

  /// The whole pass, recorded: returns the gradients of options.inputs as differentiable variables;
  /// the roots' gradients are `gradients` in place of options.gradients. Calls Node::differentiate
  /// in place of Node::run, touches no leaf and keeps the graph. Undefined for an input that the
  /// roots do not depend on.
  [[nodiscard]] std::vector<Variable> run_recorded(std::span<const Variable> gradients);

  // In steps, for roots whose gradients arrive one by one (StagedBackward). No observer is told.

  /// Computes the dependencies. Nothing is checked; a root may be given several times.
  void begin();
  /// Takes one of the roots' gradients; undefined: none will arrive for it.
  void give(const Variable& root, const Tensor& gradient);
  /// Runs all nodes whose gradients are complete; or all that are left. An exception ends the pass.
  void advance(bool all);
  [[nodiscard]] bool has_rest() const noexcept {
    return !reached_.empty() && reached_.front().sequence > 0;
  }

 private:
  friend class Node;
  friend class Differentiation;
  /// On a thread while it runs a part of a pass. A nested pass runs within the backward of another
  /// pass's node; the outer pass continues afterwards. Throws Error for any other within a pass.
  class Running {
   public:
    explicit Running(BackwardPass& pass);
    ~Running() { innermost = outer_; }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;

   private:
    BackwardPass* outer_;
  };
  /// Ends a pass that is left by an exception.
  struct Ending {
    BackwardPass& pass;
    ~Ending() { pass.end(); }
  };

  /// A variable that the pass reaches.
  struct Reached {
    std::uint64_t sequence;  ///< of its producer; 0: a leaf
    Variable variable;
    bool needed = true;  ///< its producer has an input whose gradient is wanted

    [[nodiscard]] const Node* producer() const { return variable.record()->producer.get(); }
  };
  /// Empty lists, whose memory later passes of the thread reuse.
  struct Lists {
    std::vector<Reached> reached;
    std::vector<Tensor> grad_outputs;
    PassFollowers::Memory followers;
  };
  struct SpareLists;

  /// The pass whose nodes this thread is running.
  [[nodiscard]] static BackwardPass* running() noexcept { return innermost; }

  void check() const;
  void end() noexcept;
  /// Collects every variable that the roots depend on, newest first, and counts how often each one
  /// is used. Leaves of the sink are left alone: other threads' graphs may share them.
  void discover();
  void visit(const Variable& variable);
  /// Drops nodes that do not lead to the pass's inputs.
  void prune();
  /// See Node.
  [[nodiscard]] bool tell_when_over(PassObserver& observer);
  /// In a pass with inputs: whether the gradient of this input of a node that was reached is
  /// needed.
  [[nodiscard]] bool leads_to_input(const Variable& variable) const;
  [[nodiscard]] bool is_input(const Variable& variable) const;
  /// The sink that takes a leaf's gradient; null: the leaf keeps it.
  [[nodiscard]] GradSink* sink_of(const Variable& variable) const {
    if ((!options_.sink && !followers_.redirects()) || !variable.is_leaf()) return nullptr;
    if (options_.sink && options_.sink->takes(variable)) return options_.sink;
    return followers_.redirects() ? followers_.sink_of(variable) : nullptr;
  }
  void run_ready(bool all);
  void give_to_roots();
  void give_seed(const Variable& root);
  /// Runs the producer of reached_[begin, end) and, unless the graph is retained, lets go of
  /// everything only it needed.
  void run_producer(std::size_t begin, std::size_t end);
  /// Runs a node with the gradients of its outputs.
  void run_node(Node& node, std::span<const Tensor> grad_outputs);
  /// Runs it for the inputs that the sink does not take, and defers it if there are others.
  void run_and_defer(const IntrusivePtr<Node>& node, std::span<const Tensor> grad_outputs);
  void contribution_arrived(const Variable& variable) const;
  [[nodiscard]] GradTarget target_of(const Variable& variable) const;
  void pass_to(const Variable& variable, const Tensor& gradient) const;

  static constinit thread_local BackwardPass* innermost;

  PassOptions options_;
  std::vector<Reached> reached_;      ///< newest first
  std::vector<Tensor> grad_outputs_;  ///< of the node that runs, if it has several outputs
  PassFollowers followers_;
  std::uint64_t oldest_ = 0;  ///< nothing that leads to an input is older
  bool tells_observers_ = false;
  /// Not in steps: other trainers' steps move the parameters of a parameter server meanwhile.
  bool expects_unchanged_inputs_ = false;
  bool ended_ = false;
};

}  // namespace lockstep
