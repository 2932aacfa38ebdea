#pragma once
#include <memory>
#include <span>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

/// A backward pass whose roots' gradients arrive one after the other, e.g. from a graph that
/// continues on other ranks: an operation runs once, when all gradients of its outputs are
/// complete. The graph is kept. One thread at a time, not always the same.
class StagedBackward {
 public:
  /// Computes the dependencies. A variable occurs among the roots once for each gradient that will
  /// arrive for it; all roots need a gradient. The sink takes the gradients of its leaves. Throws
  /// Error for a graph that was freed. `sink` outlives this.
  StagedBackward(std::span<const Variable> roots, GradSink& sink);
  ~StagedBackward();
  StagedBackward(const StagedBackward&) = delete;
  StagedBackward& operator=(const StagedBackward&) = delete;

  /// The gradient of one of the roots; undefined if none will come. Of the root's shape, dtype,
  /// layout and device, else ShapeError; Error once an error has ended the pass.
  void give(const Variable& root, const Tensor& gradient);
  /// Runs all operations whose gradients are complete. Throws an operation's exception, after which
  /// the pass is over and incomplete, and Error from inside a backward pass.
  void run();
  /// Runs everything else too, as if no more gradients would come.
  void run_all();
  /// Something still waits.
  [[nodiscard]] bool waits() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
