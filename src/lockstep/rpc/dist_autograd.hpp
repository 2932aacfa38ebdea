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
// stays part of the graph: where it arrives it is a result, whose gradient goes back to where it
// came from. Outside of contexts, and where gradients are off, its value travels alone.
//
//   const dist_autograd::Context context;
//   const Variable loss = sum(rpc::rpc_sync("server", forward, x));
//   dist_autograd::backward(context, {loss});
//   optimizer.step(context);  // DistributedOptimizer
//
// Gradients of leaves are kept in the context, on the rank that has the leaf, not in the leaf: any
// number of contexts can use the same parameters at a time.

namespace lockstep::dist_autograd {

/// What a forward leaves on all the ranks that its calls came to, under one number, for backward
/// passes. From construction on the thread's calls belong to it, and what these call; the innermost
/// counts. It ends on all ranks with this object, which is destroyed on the thread that made it.
class Context {
 public:
  /// Throws Error if this rank is no worker.
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  /// The same on all ranks: what functions that are called need to find it.
  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }

 private:
  std::uint64_t id_, before_;
};

/// The context that this thread's calls belong to, also within a function that was called from one;
/// 0: none.
[[nodiscard]] std::uint64_t current_context() noexcept;

/// Differentiates the sum of `losses`, each of one element, and adds the gradients of leaves to
/// what the context has of them, on every rank that had a part in them. Returns when all are there.
/// Of the graph nothing is freed before the context ends.
/// Where it comes, on this rank, to parameters of a DistributedDataParallel whose forward() has
/// run, it is collective over its group, and what it adds to the context is the mean over the
/// ranks. A pass that does not come to them is none of theirs, whatever others in the context are.
/// Elsewhere such parameters are refused: the rank that has them begins the pass. A pass of
/// Variable::backward, or of DistributedDataParallel::backward, that comes to a Variable from
/// another rank goes on there before it returns: leaves of this rank get their own gradients, those
/// of other ranks, and what is reached by way of these, have theirs in the context.
///
/// Every operation runs once: a rank waits for the gradients of all Variables that it has sent
/// within the context (torch.distributed.autograd's FAST mode). What was sent and turns out to lead
/// nowhere costs one more round of messages. One at a time in a context.
///
/// Throws Error for a loss that is undefined or depends on nothing, or a context that has ended;
/// RemoteError, TimeoutError, CommError as the calls between the ranks: then gradients are
/// incomplete.
void backward(std::uint64_t context, std::span<const Variable> losses);
inline void backward(const Context& context, std::initializer_list<Variable> losses) {
  backward(context.id(), {losses.begin(), losses.size()});
}

/// On the rank that has the leaf: its gradient in that context, undefined if there is none. It is
/// the context's own memory. Throws Error for a context that this rank has not heard of.
[[nodiscard]] Tensor gradient(std::uint64_t context, const Variable& leaf);
[[nodiscard]] inline Tensor gradient(const Context& context, const Variable& leaf) {
  return gradient(context.id(), leaf);
}
/// All leaves of this rank that have one, with it.
[[nodiscard]] std::vector<std::pair<Variable, Tensor>> gradients(std::uint64_t context);

/// Contexts that this rank knows of: 0 when all have ended everywhere.
[[nodiscard]] std::size_t context_count();

}  // namespace lockstep::dist_autograd

namespace lockstep::rpc {

class InputArchive;
class OutputArchive;

/// How a Variable is passed.
void save(OutputArchive& archive, const Variable& variable);
void load(InputArchive& archive, Variable& variable);

}  // namespace lockstep::rpc
