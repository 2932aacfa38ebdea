#pragma once
#include <memory>

#include <lockstep/autograd/variable.hpp>
#include <lockstep/base/intrusive_ptr.hpp>
#include <lockstep/comm/process_group.hpp>

// Collectives that differentiate: operations on variables whose backward is a collective too.
// PyTorch's counterparts are torch.distributed.nn.functional and its functional collectives.
//
// Each is a linear map of all ranks' inputs to all ranks' outputs. Its backward is the transposed
// map, so a rank gets the gradient of the sum of all ranks' losses. Derivatives of any order are
// recorded the same way.
//
// Collective: all ranks call the same functions in the same order with equal shapes and dtypes, and
// all run backward through the results; a rank that does not leaves the others waiting until the
// group's timeout. This rank's input alone decides whether a call is recorded, so an input must
// require a gradient on all ranks or on none. Throws as ProcessGroup's functions do.

namespace lockstep {

namespace detail {
struct StartedExchange;
}

/// A differentiable collective under way. In backward the transposed collective starts at this
/// one's wait and ends at its start: operations recorded between the two overlap with both.
class PendingVariable {
 public:
  PendingVariable() noexcept;
  PendingVariable(PendingVariable&& other) noexcept;
  PendingVariable& operator=(PendingVariable&& other) noexcept;
  ~PendingVariable();
  /// The result; call it once.
  [[nodiscard]] Variable wait();

 private:
  friend struct detail::StartedExchange;
  Variable ticket_;
  IntrusivePtr<detail::StartedExchange> exchange_;
};

using GroupPtr = std::shared_ptr<ProcessGroup>;

/// The reduction over all ranks, on every rank; `x` stays as it is. op: sum or avg, else
/// InputError. Backward: the same.
[[nodiscard]] PendingVariable start_all_reduce(const Variable& x, const GroupPtr& group,
                                               ReduceOp op = ReduceOp::sum);
/// Every rank's `x` in rank order, of shape [size, ...x]. Backward: reduce_scatter of sums.
[[nodiscard]] PendingVariable start_all_gather(const Variable& x, const GroupPtr& group);
/// Row r of the reduction of all ranks' `x`, of shape [size, ...], on rank r. op: sum or avg.
/// Backward: all_gather.
[[nodiscard]] PendingVariable start_reduce_scatter(const Variable& x, const GroupPtr& group,
                                                   ReduceOp op = ReduceOp::sum);
/// Row r of `x`, of shape [size, ...], goes to rank r, into the sender's row of the result.
/// Backward: the same.
[[nodiscard]] PendingVariable start_all_to_all(const Variable& x, const GroupPtr& group);
/// Rank `root`'s `x` on every rank; the others' values are ignored. Backward: reduce.
[[nodiscard]] PendingVariable start_broadcast(const Variable& x, int root, const GroupPtr& group);
/// The sum over all ranks on rank `root`, zeros on the others. Backward: broadcast.
[[nodiscard]] PendingVariable start_reduce(const Variable& x, int root, const GroupPtr& group);
/// The `x` of the rank `offset` places before this one in the ring of ranks: rank r sends its own
/// to rank (r + offset) mod size, for any offset. Backward: a shift by -offset. Both are messages
/// of tag 0.
[[nodiscard]] PendingVariable start_shift(const Variable& x, int offset, const GroupPtr& group);

/// The same, with an immediate wait.
[[nodiscard]] Variable all_reduce(const Variable& x, const GroupPtr& group,
                                  ReduceOp op = ReduceOp::sum);
[[nodiscard]] Variable all_gather(const Variable& x, const GroupPtr& group);
[[nodiscard]] Variable reduce_scatter(const Variable& x, const GroupPtr& group,
                                      ReduceOp op = ReduceOp::sum);
[[nodiscard]] Variable all_to_all(const Variable& x, const GroupPtr& group);
[[nodiscard]] Variable broadcast(const Variable& x, int root, const GroupPtr& group);
[[nodiscard]] Variable reduce(const Variable& x, int root, const GroupPtr& group);
[[nodiscard]] Variable shift(const Variable& x, int offset, const GroupPtr& group);

/// Sends `x` to rank `peer`, which calls receive(). Returns zero, a scalar: add it to this rank's
/// loss, or run backward from it. Its backward receives x's gradient from `peer`. Both ranks record
/// where gradients are on (NoGradGuard), whether or not `x` requires one. First derivatives only.
[[nodiscard]] Variable send(const Variable& x, int peer, const GroupPtr& group, int tag = 0);
/// The variable that rank `peer` passes to send(), of this shape and dtype. Backward sends its
/// gradient back. Ranks that both send and receive do not deadlock if each receives last what the
/// other sent last.
[[nodiscard]] Variable receive(const Shape& shape, int peer, const GroupPtr& group, int tag = 0,
                               DType dtype = DType::f32, Device device = {});

}  // namespace lockstep
