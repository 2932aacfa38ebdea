#pragma once
#include <memory>
#include <span>
#include <vector>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/pass_observer.hpp>

namespace lockstep {

/// What one backward pass is to do.
struct BackwardPass {
  std::span<const Variable> roots;    ///< all with one element, unless they have gradients
  std::span<const Tensor> gradients;  ///< of the roots, as lockstep::backward takes them
  double seed = 1.0;                  ///< the gradient of a root that has none
  bool retain_graph = false;
  GradSink* sink = nullptr;
  std::span<const Variable>
      inputs;  ///< if any: nothing but the sink's gradients of these is wanted
  PassObserver* observer = nullptr;  ///< is told of the pass also if it comes to none of its leaves
};

/// Runs backward passes. One engine a thread, its lists reused from pass to pass.
class Engine {
 public:
  /// This thread's engine.
  static Engine& instance();

  /// See Variable::backward and lockstep::backward, which name what is thrown. Observers of the
  /// leaves that it comes to are told (PassObserver).
  void run(const BackwardPass& pass);

  /// The same within the backward of a node, by an engine of its own.
  static void run_within(const BackwardPass& pass);

  /// The gradients of pass.inputs as variables that can be differentiated; those of the roots are
  /// `gradients` in place of pass.gradients. Calls Node::differentiate in place of
  /// Node::run, touches no leaf and keeps the graph. Undefined for an input that the roots do not
  /// depend on.
  [[nodiscard]] std::vector<Variable> run_recorded(const BackwardPass& pass,
                                                   std::span<const Variable> gradients);
  /// The same within Node::differentiate, by an engine of its own.
  [[nodiscard]] static std::vector<Variable> run_recorded_within(
      const BackwardPass& pass, std::span<const Variable> gradients);

  // The parts of run(), for a pass whose roots' gradients come one by one: StagedBackward.

  /// What is checked has been; `pass` outlives the pass. A root may be given several times.
  void begin(const BackwardPass& pass);
  /// One of the roots' gradients, or, undefined, that none will come for it.
  void give(const Variable& root, const Tensor& gradient);
  /// Runs what waits for no gradient any more; or all that is left.
  void advance(bool all);
  [[nodiscard]] bool has_rest() const noexcept {
    return !reached_.empty() && reached_.front().sequence > 0;
  }
  void end() noexcept;

 private:
  friend class Node;
  friend class Differentiation;
  /// On a thread while it runs a part of a pass.
  class Running;

  /// A variable that the pass comes to.
  struct Reached {
    std::uint64_t sequence;  ///< of its producer; 0: a leaf
    Variable variable;
    bool needed = true;  ///< its producer has an input whose gradient is wanted

    [[nodiscard]] const Node* producer() const { return variable.record()->producer.get(); }
  };

  /// Who follows the pass, and where the gradients of their leaves go.
  struct Follower {
    PassObserver* observer;
    PassObserver::Answer answer = {};
    bool is_reached = false;           ///< the pass comes to a leaf of theirs
    std::shared_ptr<void> keeps = {};  ///< the observer, where it may end during the pass
  };

  struct Ending {
    Engine& engine;
    ~Ending() { engine.end(); }
  };

  template <class Run>
  static auto within(const Run& run);
  void run_pass(const BackwardPass& pass);
  std::vector<Variable> run_recorded_pass(const BackwardPass& pass,
                                          std::span<const Variable> gradients);
  static void check(const BackwardPass& pass);
  /// Collects every variable that the roots depend on, newest first, and counts how often each one
  /// is used. Leaves of the sink are left alone: other threads' graphs may share them.
  void discover();
  void visit(const Variable& variable);
  /// Tells observers of a leaf, if this is the pass's first one of theirs.
  void tell_observers(const Variable& leaf);
  void tell_of_pass(PassObserver& observer, bool is_reached);
  /// See Node.
  [[nodiscard]] bool tell_when_over(PassObserver& observer);
  void begin_following();
  /// Without what it throws itself.
  void end_following();
  void fail_following() noexcept;
  /// Drops what does not lead to the pass's inputs.
  void prune();
  /// In a pass with inputs: whether the gradient of this input of a node that was reached is
  /// needed.
  [[nodiscard]] bool leads_to_input(const Variable& variable) const;
  [[nodiscard]] bool is_input(const Variable& variable) const;
  /// Where a leaf's gradient goes in its stead; null: it gets its own.
  [[nodiscard]] GradSink* sink_of(const Variable& variable) const {
    if ((!pass_->sink && !any_redirected_) || !variable.is_leaf()) return nullptr;
    if (pass_->sink && pass_->sink->takes(variable)) return pass_->sink;
    return any_redirected_ ? redirected_sink_of(variable) : nullptr;
  }
  [[nodiscard]] GradSink* redirected_sink_of(const Variable& leaf) const;
  void run_ready(bool all);
  void give_to_roots();
  void give_seed(const Variable& root);
  /// Runs the producer of reached_[begin, end) and, unless the graph is retained, lets go of
  /// everything only it needed.
  void run_producer(std::size_t begin, std::size_t end);
  void contribution_arrived(const Variable& variable) const;
  [[nodiscard]] GradTarget target_of(const Variable& variable) const;
  void pass_to(const Variable& variable, const Tensor& gradient) const;
  const BackwardPass* pass_ = nullptr;  ///< the one that runs
  std::uint64_t oldest_ = 0;            ///< nothing that leads to an input is older
  std::vector<Reached> reached_;
  std::vector<Tensor> grad_outputs_;  ///< of the node that runs, if it has several outputs
  std::vector<Follower> followers_;
  bool tells_observers_ = false;
  bool any_redirected_ = false;  ///< some follower has a sink
};

}  // namespace lockstep
