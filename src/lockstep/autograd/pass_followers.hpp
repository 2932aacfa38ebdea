#pragma once
#include <memory>
#include <utility>
#include <vector>

#include <lockstep/autograd/pass_observer.hpp>

namespace lockstep {

struct PassOptions;

/// The observers of one backward pass (PassObserver): who is told of it, and where the gradients of
/// their leaves go. Private to the layer.
class PassFollowers {
  struct Follower {
    PassObserver* observer;
    PassObserver::Answer answer = {};
    bool is_reached = false;           ///< the pass comes to a leaf of theirs
    std::shared_ptr<void> keeps = {};  ///< the observer, where it may end during the pass
  };

 public:
  /// Memory of one that has ended, for the next: it keeps its capacity.
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
  /// The pass has ended: tells all in order. Throws what an observer throws, after the others were
  /// told of a failure.
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
