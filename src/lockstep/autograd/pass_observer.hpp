#pragma once
#include <atomic>
#include <cstdint>
#include <memory>
#include <span>

#include <lockstep/autograd/backward.hpp>

namespace lockstep {

class GradStore;

/// Follows backward passes through some leaves: how DistributedDataParallel learns of a pass,
/// whoever started it. Given to Variable::add_grad_hook of each of these leaves. Passes whose own
/// sink takes the leaf are not followed, those of grad() among them.
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
  /// A pass has come to a leaf, or was begun with this observer (PassOptions::observer); nothing
  /// is computed so far, and it may still turn out that it cannot be. roots[i] starts with
  /// gradients[i], or with `seed` where there is none.
  virtual Answer pass_begins(std::span<const Variable> /*roots*/,
                             std::span<const Tensor> /*gradients*/, double /*seed*/) {
    return {};
  }
  /// All leaves that the pass reaches are known (Variable::awaits_gradient), and no gradient is
  /// touched yet. `first` of the observers that follow this pass: those are asked in the order in
  /// which they were made. `reached`: the pass comes to a leaf. What this throws ends the pass.
  virtual void leaves_are_known(bool /*first*/, bool /*reached*/) {}
  /// All gradients are there. Called by Variable::backward or lockstep::backward before it returns,
  /// in the order in which observers were made; throws what that is to throw. Where the pass goes
  /// on elsewhere (Node::tell_when_over), those whose leaves it has not come to are last: it may
  /// have come to them there.
  virtual void pass_is_over() = 0;
  /// The pass has thrown, or an observer before this one.
  virtual void pass_has_failed() noexcept {}

  /// What keeps this object until a pass is over that it was to be told of
  /// (Node::tell_when_over); null: whoever has it.
  [[nodiscard]] virtual std::shared_ptr<void> owner() { return nullptr; }

  /// In place of all these, for a pass that has put gradients of leaves into a store, such as one
  /// of dist_autograd: it is over.
  virtual void gradients_are_in(GradStore& /*store*/) {}
  /// The next pass is to be told of. Asked where it cannot be.
  [[nodiscard]] virtual bool awaits_pass() const noexcept { return false; }

  /// In the order in which they were made.
  [[nodiscard]] std::uint64_t number() const noexcept { return number_; }

 private:
  std::uint64_t number_;
};

}  // namespace lockstep
