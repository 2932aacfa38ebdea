#pragma once
#include <cstdint>
#include <functional>

#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

class Node;
class Variable;

namespace detail {

/// What a Variable is a handle to.
struct VariableRecord : RefCounted<VariableRecord> {
  VariableRecord();
  ~VariableRecord();
  void release() noexcept;

  Tensor data;
  Tensor grad;
  bool requires_grad = false;
  bool grad_holds_value =
      false;  ///< false: the next contribution overwrites grad instead of adding
  std::int32_t pending_uses = 0;  ///< during backward: contributions still to come
  IntrusivePtr<Node> producer;    ///< null for leaves
  std::function<void()> grad_hook;
};

}  // namespace detail

/// A tensor that takes part in differentiation: a cheap handle, copies share value and gradient.
/// Leaves (parameters, inputs) are made from tensors; the rest are results of operations
/// (functional.hpp). One thread at a time may use a graph; different threads may use different
/// ones.
class Variable {
 public:
  Variable() = default;
  explicit Variable(Tensor data, bool requires_grad = false);

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(record_); }
  [[nodiscard]] const Tensor& data() const { return record_->data; }
  [[nodiscard]] const Shape& shape() const { return record_->data.shape(); }
  [[nodiscard]] bool requires_grad() const noexcept { return record_ && record_->requires_grad; }
  [[nodiscard]] bool is_leaf() const noexcept { return !record_->producer; }

  /// The gradient accumulated since the last zero_grad(); undefined if there is none.
  [[nodiscard]] Tensor grad() const { return record_->grad_holds_value ? record_->grad : Tensor(); }
  /// Forgets the gradient; its memory is kept and overwritten by the next backward.
  void zero_grad() const { record_->grad_holds_value = false; }

  /// From now on the gradient lives in `buffer` (shape and dtype of data()): how
  /// DistributedDataParallel makes gradients views of its buckets. Drops a gradient held so far.
  void set_grad_buffer(Tensor buffer) const;
  /// The memory of the gradient, made if need be; its contents count only if grad() is defined.
  [[nodiscard]] Tensor grad_buffer() const;
  /// Declares the present contents of grad_buffer() to be the gradient.
  void mark_grad_present() const { record_->grad_holds_value = true; }

  /// Called during backward, once a leaf's gradient is final; at most one hook a variable; an empty
  /// function removes it.
  void set_grad_hook(std::function<void()> hook) const { record_->grad_hook = std::move(hook); }

  /// Differentiates this one-element variable with respect to every leaf that it depends on,
  /// adding `seed` times the gradient into each; then frees the graph. `seed` is how a rank's share
  /// of a global mean enters without a pass over the gradients.
  void backward(double seed = 1.0) const;

  [[nodiscard]] detail::VariableRecord* record() const noexcept { return record_.get(); }

 private:
  friend class Engine;
  explicit Variable(IntrusivePtr<detail::VariableRecord> record) : record_(std::move(record)) {}

  IntrusivePtr<detail::VariableRecord> record_;
};

/// While alive, operations on this thread record nothing: for evaluation.
class NoGradGuard {
 public:
  NoGradGuard();
  ~NoGradGuard();
  NoGradGuard(const NoGradGuard&) = delete;
  NoGradGuard& operator=(const NoGradGuard&) = delete;

 private:
  bool before_;
};

/// True unless a NoGradGuard is alive on this thread.
[[nodiscard]] bool grad_enabled() noexcept;

}  // namespace lockstep
