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

/// What one backward pass is to do. Refers to its caller's memory.
struct PassOptions {
  std::span<const Variable> roots = {};    ///< all with one element, unless they have gradients
  std::span<const Tensor> gradients = {};  ///< of the roots, as lockstep::backward takes them
  double seed = 1.0;                       ///< the gradient of a root that has none
  bool retain_graph = false;
  GradSink* sink = nullptr;
  /// If any: nothing but the sink's gradients of these is wanted.
  std::span<const Variable> inputs = {};
  PassObserver* observer = nullptr;  ///< is told of the pass also if it comes to none of its leaves
  bool nested = false;               ///< may run within the backward of a node; tells no observer
};

/// One backward pass: from the graph that its roots depend on to the gradients of the leaves. Runs
/// as a whole, or step by step. The destructor ends it wherever it is. The lists of a pass are
/// reused by later ones of the thread.
class BackwardPass {
 public:
  explicit BackwardPass(const PassOptions& options);
  ~BackwardPass();
  BackwardPass(const BackwardPass&) = delete;
  BackwardPass& operator=(const BackwardPass&) = delete;

  /// The whole pass. See Variable::backward and lockstep::backward, which name what is thrown.
  /// Tells the observers of the leaves that it comes to (PassObserver).
  void run();

  /// The whole pass, recorded: the gradients of options.inputs as variables that can be
  /// differentiated; those of the roots are `gradients` in place of options.gradients. Calls
  /// Node::differentiate in place of Node::run, touches no leaf and keeps the graph. Undefined for
  /// an input that the roots do not depend on.
  [[nodiscard]] std::vector<Variable> run_recorded(std::span<const Variable> gradients);

  // Step by step, where the roots' gradients come one by one (StagedBackward). No observer is told.

  /// Finds what depends on what. Nothing is checked; a root may be given several times.
  void begin();
  /// One of the roots' gradients, or, undefined, that none will come for it.
  void give(const Variable& root, const Tensor& gradient);
  /// Runs what waits for no gradient any more; or all that is left. What it throws ends the pass.
  void advance(bool all);
  [[nodiscard]] bool has_rest() const noexcept {
    return !reached_.empty() && reached_.front().sequence > 0;
  }

 private:
  friend class Node;
  friend class Differentiation;
  /// On a thread while it runs a part of a pass. A nested pass runs within the backward of a node
  /// of another one, which goes on afterwards. Throws Error for any other within a pass.
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

  /// A variable that the pass comes to.
  struct Reached {
    std::uint64_t sequence;  ///< of its producer; 0: a leaf
    Variable variable;
    bool needed = true;  ///< its producer has an input whose gradient is wanted

    [[nodiscard]] const Node* producer() const { return variable.record()->producer.get(); }
  };
  /// Empty lists, whose memory later passes of the thread will use.
  struct Lists {
    std::vector<Reached> reached;
    std::vector<Tensor> grad_outputs;
    PassFollowers::Memory followers;
  };
  struct SpareLists;

  /// The pass whose nodes this thread runs.
  [[nodiscard]] static BackwardPass* running() noexcept { return innermost; }

  void check() const;
  void end() noexcept;
  /// Collects every variable that the roots depend on, newest first, and counts how often each one
  /// is used. Leaves of the sink are left alone: other threads' graphs may share them.
  void discover();
  void visit(const Variable& variable);
  /// Drops what does not lead to the pass's inputs.
  void prune();
  /// See Node.
  [[nodiscard]] bool tell_when_over(PassObserver& observer);
  /// In a pass with inputs: whether the gradient of this input of a node that was reached is
  /// needed.
  [[nodiscard]] bool leads_to_input(const Variable& variable) const;
  [[nodiscard]] bool is_input(const Variable& variable) const;
  /// Where a leaf's gradient goes in its stead; null: it gets its own.
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
  bool ended_ = false;
};

}  // namespace lockstep
