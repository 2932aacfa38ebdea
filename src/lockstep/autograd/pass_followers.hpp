#pragma once
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/autograd/pass_observer.hpp>

namespace lockstep {

struct PassOptions;

/// The observers of one backward pass (PassObserver), and the destinations of their leaves'
/// gradients. Private to the layer.
class PassFollowers {
  struct Follower {
    PassObserver* observer;
    PassObserver::Answer answer = {};
    bool is_reached = false;           ///< the pass reaches one of their leaves
    std::shared_ptr<void> keeps = {};  ///< the observer, if it may be destroyed during the pass
  };

 public:
  /// Memory of an ended pass, for the next: it keeps its capacity.
  using Memory = std::vector<Follower>;
  PassFollowers() = default;
  explicit PassFollowers(Memory memory) noexcept : followers_(std::move(memory)) {}
  [[nodiscard]] Memory give_memory() noexcept {
    followers_.clear();
    return std::move(followers_);
  }

  /// Tells the observers of a leaf that the pass reaches, once each.
  void leaf_is_reached(const Variable& leaf, const PassOptions& pass);
  /// All leaves are known. Tells the pass's own observer, too.
  void graph_is_known(const PassOptions& pass);
  /// See Node::tell_when_over.
  void tell_when_over(PassObserver& observer);
  /// The pass has ended: tells all in order. Throws an observer's exception, after the others were
  /// notified of a failure.
  void pass_is_over();
  /// The pass has thrown.
  void pass_has_failed() noexcept;

  /// Some observer's sink may take leaves.
  [[nodiscard]] bool redirects() const noexcept { return redirects_; }
  /// The sink that takes this leaf's gradient; null: none.
  [[nodiscard]] GradSink* sink_of(const Variable& leaf) const;

 private:
  [[nodiscard]] bool has(const PassObserver& observer) const;
  void tell_of_pass(PassObserver& observer, bool is_reached, const PassOptions& pass);

  Memory followers_;
  bool redirects_ = false;
};

}  // namespace lockstep
