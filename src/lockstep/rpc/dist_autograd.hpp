#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <utility>
#include <vector>

#include <lockstep/autograd/variable.hpp>

// Backward passes through calls, in the words of torch.distributed.autograd.
//
// A Variable is passed to a function, or returned from one, as a Tensor is. Within a context it
// stays part of the graph: on the receiving rank it is a result whose gradient returns to the
// sender. Outside of contexts, and with gradients off, only its value is sent.
//
//   const dist_autograd::Context context;
//   const Variable loss = sum(rpc::rpc_sync("server", forward, x));
//   dist_autograd::backward(context, {loss});
//   optimizer.step(context);  // DistributedOptimizer
//
// Gradients of leaves are kept in the context, on the rank that has the leaf, not in the leaf: any
// number of contexts can use the same parameters at a time.

namespace lockstep::dist_autograd {

/// The graph that a forward pass leaves on all ranks that its calls reached, under one number, for
/// backward passes. From construction on, calls of this thread and the calls that they make belong
/// to it; the innermost context counts. It ends on all ranks with this object, which is destroyed
/// on the thread that made it. Calls that are still running or on their way then go on, with values
/// alone.
class Context {
 public:
  /// Throws Error if this rank is no worker.
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The id, the same on all ranks: called functions use it to find the context.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  std::uint64_t id_, before_;
};

/// The context that this thread's calls belong to, also within a function that was called from one;
/// 0: none.
[[nodiscard]] std::uint64_t current_context() noexcept;

/// Differentiates the sum of `losses` (one element each) and adds the leaves' gradients to the
/// context, on every rank that took part. Returns when all gradients have arrived. Of the graph
/// nothing is freed before the context ends.
/// If the pass reaches, on this rank, parameters of a DistributedDataParallel whose forward() has
/// run, it is collective over that group, and the gradient added to the context is the mean over
/// the ranks. A pass that does not reach them is not collective, even if others in the context are.
/// A pass that another rank started throws at such parameters: start it on the rank that holds
/// them. A pass of Variable::backward, or of DistributedDataParallel::backward, that reaches a
/// Variable from another rank continues there before it returns: leaves of this rank get their own
/// gradients; gradients of other ranks' leaves, and of leaves reached through them, are in the
/// context.
///
/// Every operation runs once: a rank waits for the gradients of all Variables that it has sent
/// within the context (torch.distributed.autograd's FAST mode). Variables that were sent but reach
/// no loss cost one more round of messages. One at a time in a context.
///
/// Throws Error for a loss that is undefined or depends on nothing, or a context that has ended;
/// RemoteError, TimeoutError, CommError as the calls between the ranks: then gradients are
/// incomplete.
void backward(std::uint64_t context, std::span<const Variable> losses);
inline void backward(const Context& context, std::initializer_list<Variable> losses) {
  backward(context.id(), {losses.begin(), losses.size()});
}

/// On the rank that holds the leaf: its gradient in that context, undefined if there is none. It is
/// the context's own memory. Throws Error for a context that this rank has not heard of.
[[nodiscard]] Tensor gradient(std::uint64_t context, const Variable& leaf);
[[nodiscard]] inline Tensor gradient(const Context& context, const Variable& leaf) {
  return gradient(context.id(), leaf);
}
/// All leaves of this rank that have one, with it.
[[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients(std::uint64_t context);

/// Number of contexts known to this rank: 0 when all have ended everywhere.
[[nodiscard]] std::size_t context_count();

}  // namespace lockstep::dist_autograd

namespace lockstep::rpc {

class InputArchive;
class OutputArchive;

/// How a Variable is passed.
void save(OutputArchive& archive, const Variable& variable);
void load(InputArchive& archive, Variable& variable);

}  // namespace lockstep::rpc
