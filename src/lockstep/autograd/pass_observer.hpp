#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

class GradStore;

/// Observes backward passes through some leaves: DistributedDataParallel uses it to see every pass,
/// whichever call started it. Given to Variable::add_grad_hook of each of these leaves. Passes
/// whose own sink takes the leaf are not observed; grad() is one of these.
/// Called by the thread that runs the pass; pass_begins() comes first, once a pass.
class PassObserver {
 public:
  PassObserver() noexcept {
    static constinit std::atomic<std::uint64_t> last = 0;
    number_ = ++last;
  }
  virtual ~PassObserver() = default;
  PassObserver(const PassObserver&) = delete;
  PassObserver& operator=(const PassObserver&) = delete;

  /// Whether the observer follows a pass, and where its gradients go.
  struct Answer {
    bool follows = false;      ///< false: nothing else is told of this pass
    GradSink* sink = nullptr;  ///< takes gradients of leaves in this pass; null: they get their own
  };
  /// A pass has reached a leaf, or was started with this observer (PassOptions::observer). Nothing
  /// has been computed so far, and the pass may still turn out to be impossible. roots[i] starts
  /// with gradients[i], or with `seed` if there is none.
  virtual Answer pass_begins(std::span<const Variable> /*roots*/,
                             std::span<const Tensor> /*gradients*/, double /*seed*/) {
    return {};
  }
  /// All leaves that the pass reaches are known (Variable::awaits_gradient), and no gradient is
  /// touched yet. `first` among the observers of this pass, which are called in the order of their
  /// creation. `reached`: the pass reaches a leaf. An exception ends the pass.
  virtual void leaves_are_known(bool /*first*/, bool /*reached*/) {}
  /// All gradients are complete. Called by Variable::backward or lockstep::backward before it
  /// returns, in the order of the observers' creation; its exceptions propagate. If the pass
  /// continues on other ranks (Node::tell_when_over), observers whose leaves it has not reached
  /// here come last: the remote part may have reached them.
  virtual void pass_is_over() = 0;
  /// The pass has thrown, or an observer before this one.
  virtual void pass_has_failed() noexcept {}

  /// The owner that keeps this object alive until the end of a pass that notifies it
  /// (Node::tell_when_over); null: its usual owner.
  [[nodiscard]] virtual std::shared_ptr<void> owner() { return nullptr; }

  /// Replaces all these for a pass that has put gradients of leaves into a store, e.g. one of
  /// dist_autograd: the pass has ended.
  virtual void gradients_are_in(GradStore& /*store*/) {}
  /// The next pass notifies this observer. Called where that is not possible.
  [[nodiscard]] virtual bool awaits_pass() const noexcept { return false; }

  /// In the order of their creation.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  std::uint64_t number_;
};

}  // namespace lockstep
