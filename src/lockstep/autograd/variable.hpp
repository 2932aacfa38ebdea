#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/tensor/tensor.hpp>

namespace lockstep {

class GradHook;
class Node;
class PassObserver;
class Variable;

namespace detail {

[[noreturn]] void refuse_undefined();
/// Shape, dtype, layout and device are the same.
[[nodiscard]] bool fits(const Tensor& buffer, const Tensor& data);

struct GradHookEntry {
  std::uint64_t number;
  std::function<void()> call;
  PassObserver* observer;  ///< of passes that reach this leaf; null: none
};

/// The object behind a Variable.
struct VariableRecord : RefCounted<VariableRecord> {
  VariableRecord();
  ~VariableRecord();
  void release() noexcept;
  /// As RefCounted's. Lets go of a value that nobody is left to read.
  void drop_owner() const noexcept {
    const std::int32_t unread = edges.load(std::memory_order_relaxed);
    if (unread != 0 && owners() == unread + 1) const_cast<VariableRecord*>(this)->drop_value();
    RefCounted::drop_owner();
  }

  Tensor data;
  Tensor grad;
  bool requires_grad = false;
  bool graph_freed = false;  ///< a backward has been through its producer and let go of it
  bool grad_holds_value =
      false;  ///< false: the next contribution overwrites grad instead of adding
  DType rounds_results_to = DType::f32;  ///< bf16 or f16: an Operand's f32 copy of such a variable
  std::int32_t pending_uses = 0;         ///< during backward: contributions still to come
  std::int32_t output = 0;               ///< of the producer: its number
  /// Changes of the value in place. Several trainers may step a parameter server's parameters while
  /// others compute with them.
  mutable std::atomic<std::uint32_t> version = 0;
  /// Owners that are inputs of nodes which do not read the value. Counted by the thread that uses
  /// the graph; others may drop handles meanwhile.
  std::atomic<std::int32_t> edges = 0;
  IntrusivePtr<Node> producer;  ///< null for leaves
  /// The producer's living outputs form a ring, so the code that frees the producer finds outputs
  /// that backward did not reach.
  VariableRecord *previous_output = this, *next_output = this;
  std::vector<GradHookEntry> grad_hooks;

  /// What this is a view of (Node::is_view), or itself: views and their base share a version.
  [[nodiscard]] const VariableRecord& base() const noexcept;

  void join_outputs(VariableRecord& other) noexcept;  ///< not in a ring so far
  void leave_outputs() noexcept;

 private:
  /// Keeps shape, dtype, layout and device of the value. Only on the thread that recorded it:
  /// another may drop a handle while a backward pass reads them.
  void drop_value() noexcept;
  const void* recorder_;  ///< stands for a thread
};

}  // namespace detail

/// A tensor that takes part in differentiation. It is a cheap handle: copies share value and
/// gradient. Leaves (parameters, inputs) are made from tensors; the rest are results of operations
/// (functional.hpp). One thread at a time may use a graph; different threads may use different
/// ones. An undefined Variable represents an omitted argument: all members but defined(),
/// requires_grad() and record() then throw Error, as do operations where the argument is required.
class Variable {
 public:
  Variable() = default;
  ~Variable() = default;
  Variable(const Variable&) = default;
  Variable(Variable&&) = default;
  /// Another variable for this handle. Lvalues only: on a temporary, `x[i] = y` would have no
  /// effect.
  Variable& operator=(const Variable&) & = default;
  Variable& operator=(Variable&&) & = default;
  /// Throws Error for an undefined tensor, and for a gradient of a non-floating tensor.
  explicit Variable(Tensor data, bool requires_grad = false);

  [[nodiscard]] bool defined() const noexcept { return static_cast<bool>(record_); }
  [[nodiscard]] const Tensor& data() const& { return value().data; }
  [[nodiscard]] Tensor data() const&& { return value().data; }
  [[nodiscard]] const Shape& shape() const& { return value().data.shape(); }
  [[nodiscard]] Shape shape() const&& { return value().data.shape(); }
  /// The value of a variable of one element.
  [[nodiscard]] double item() const { return data().item(); }
  /// Row `i` of the leading dimension, without that dimension; counts from the end if negative. A
  /// copy, whose gradient goes to that row. Throws ShapeError if there is no such row.
  [[nodiscard]] Variable operator[](std::int64_t i) const;

  /// If operations record: x becomes the result of x + y, with its gradient; other handles to the
  /// old x, and results computed from it, keep the old value. A leaf that requires a gradient
  /// throws Error, as in PyTorch, and so does one that other handles share if the result needs no
  /// gradient either, since these would keep the old value. Under NoGradGuard: the value changes in
  /// place, for every handle to x. Throws ShapeError if y cannot be repeated to the shape of x.
  Variable& operator+=(const Variable& y) &;
  Variable& operator-=(const Variable& y) &;
  Variable& operator*=(const Variable& y) &;
  Variable& operator/=(const Variable& y) &;
  Variable& operator+=(double number) &;
  Variable& operator-=(double number) &;
  Variable& operator*=(double number) &;
  Variable& operator/=(double number) &;

  [[nodiscard]] bool requires_grad() const noexcept { return record_ && record_->requires_grad; }
  /// Freezes this leaf (its gradient is dropped and no longer computed), or makes it trainable
  /// again. Throws Error for an operation's result, and for a gradient of a non-floating tensor.
  void set_requires_grad(bool on) const;
  /// Converts the value of this leaf and drops its gradient, unless it has this dtype. Throws Error
  /// for the result of an operation, and for a dtype that is not floating.
  void set_dtype(DType dtype) const;
  /// Moves the value of this leaf, and its gradient, to a device. Tensors taken from data() before
  /// keep the old memory. Throws Error for the result of an operation.
  void set_device(Device device) const;
  /// How often the value was changed in place: by optimizers, load_state_dict(), `x += y` under
  /// NoGradGuard and the setters above. A backward pass through an operation that read the earlier
  /// value throws Error. 0 if undefined.
  [[nodiscard]] std::uint32_t version() const noexcept;
  /// For code that writes to the memory of data(), whose changes do not count by themselves.
  void increment_version() const;
  /// Made from a tensor, not by an operation that was recorded.
  [[nodiscard]] bool is_leaf() const { return !value().producer && !record_->graph_freed; }

  /// The gradient accumulated since the last zero_grad(); undefined if there is none.
  [[nodiscard]] Tensor grad() const { return value().grad_holds_value ? record_->grad : Tensor(); }
  /// Forgets the gradient; its memory is kept and overwritten by the next backward.
  void zero_grad() const { value().grad_holds_value = false; }

  /// From now on the gradient lives in `buffer` (shape, dtype and layout of data(), or f32 for one
  /// of 16 bits): how DistributedDataParallel makes gradients views of its buckets. Drops the
  /// current gradient.
  void set_grad_buffer(Tensor buffer) const;
  /// The memory of the gradient, made if need be; its contents count only if grad() is defined.
  [[nodiscard]] Tensor grad_buffer() const;
  /// Declares the present contents of grad_buffer() to be the gradient.
  void mark_grad_present() const { value().grad_holds_value = true; }

  /// Replaces the value of this leaf by one of any shape, and drops its gradient. Tensors taken
  /// from data() before keep the old memory. Throws Error for the result of an operation, and for
  /// another dtype.
  void set_value(const Tensor& value) const;
  /// From now on the value of this leaf is stored in `buffer` (shape, dtype, layout and device of
  /// data()), to which it is copied: DistributedDataParallel uses it to make a bucket's parameters
  /// contiguous. Tensors taken from data() before keep the old memory.
  void set_value_buffer(const Tensor& buffer) const;

  /// Calls `hook` during backward, once this leaf's gradient is final, after hooks that were added
  /// earlier. The hook is active while the returned object lives. Not from within a hook.
  /// `observer`, with the same lifetime, is notified of each pass that reaches this leaf.
  [[nodiscard]] GradHook add_grad_hook(std::function<void()> hook,
                                       PassObserver* observer = nullptr) const;

  /// Differentiates this one-element variable with respect to every leaf on which it depends, and
  /// adds `seed` times the gradient to each; then frees the graph, unless `retain_graph`. `seed` is
  /// how a rank's share of a global mean enters without a pass over the gradients. Throws Error,
  /// before any gradient is touched, if a part of the graph has already been freed: add losses that
  /// share a part and call this once, or retain the graph in all calls but the last. From several
  /// variables, or from larger ones: lockstep::backward (autograd/backward.hpp).
  /// If it reaches parameters of a DistributedDataParallel whose forward() has run, it is
  /// collective, and their gradients are the mean over ranks: see there.
  void backward(double seed = 1.0, bool retain_graph = false) const;
  /// During a backward: contributions to this gradient are still to come.
  [[nodiscard]] bool awaits_gradient() const { return value().pending_uses > 0; }

  [[nodiscard]] detail::VariableRecord* record() const noexcept { return record_.get(); }

 private:
  friend class BackwardPass;
  [[nodiscard]] detail::VariableRecord& value() const {
    if (!record_) detail::refuse_undefined();
    return *record_;
  }
  Variable& become(const char* operation, const Variable& result);
  explicit Variable(IntrusivePtr<detail::VariableRecord> record) : record_(std::move(record)) {}

  IntrusivePtr<detail::VariableRecord> record_;
};

/// A hook's place at its variable, which it keeps alive; goes with it. One thread at a time, as the
/// variable's graph.
class GradHook {
 public:
  GradHook() = default;
  ~GradHook() { remove(); }
  GradHook(GradHook&& other) noexcept = default;
  GradHook& operator=(GradHook&& other) noexcept {
    if (this != &other) remove();
    record_ = std::move(other.record_);
    number_ = other.number_;
    return *this;
  }
  GradHook(const GradHook&) = delete;
  GradHook& operator=(const GradHook&) = delete;

 private:
  friend class Variable;
  GradHook(IntrusivePtr<detail::VariableRecord> record, std::uint64_t number)
      : record_(std::move(record)), number_(number) {}
  void remove() noexcept;

  IntrusivePtr<detail::VariableRecord> record_;
  std::uint64_t number_ = 0;
};

/// While alive, operations on this thread record, or do not.
class GradModeGuard {
 public:
  explicit GradModeGuard(bool records);
  ~GradModeGuard();
  GradModeGuard(const GradModeGuard&) = delete;
  GradModeGuard& operator=(const GradModeGuard&) = delete;

 private:
  bool before_;
};

/// While alive, operations on this thread record nothing: for evaluation.
struct NoGradGuard : GradModeGuard {
  NoGradGuard() : GradModeGuard(false) {}
};

/// While alive, operations on this thread record, within a NoGradGuard too.
struct EnableGradGuard : GradModeGuard {
  EnableGradGuard() : GradModeGuard(true) {}
};

/// True unless a NoGradGuard is the innermost guard of this thread.
[[nodiscard]] bool grad_enabled() noexcept;

}  // namespace lockstep
