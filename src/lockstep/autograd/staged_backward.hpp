#pragma once
#include <memory>
#include <span>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

/// A backward pass whose roots' gradients arrive one after the other, such as those of a graph that
/// continues on other ranks: an operation runs, once, when all that its outputs wait for is there.
/// The graph is kept. One thread at a time, not always the same.
class StagedBackward {
 public:
  /// Finds what depends on what. A variable stands among the roots once for each gradient that will
  /// come for it; all need one. Leaves that the sink takes get theirs there. Throws Error for a
  /// graph that was freed. `sink` outlives this.
  StagedBackward(std::span<const Variable> roots, GradSink& sink);
  ~StagedBackward();
  StagedBackward(const StagedBackward&) = delete;
  StagedBackward& operator=(const StagedBackward&) = delete;

  /// The gradient of one of the roots; undefined if none will come. Of the root's shape, dtype,
  /// layout and device, else ShapeError; Error once an error has ended the pass.
  void give(const Variable& root, const Tensor& gradient);
  /// Runs what waits for nothing any more. Throws what an operation throws, after which the pass is
  /// over and incomplete, and Error from inside a backward pass.
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
