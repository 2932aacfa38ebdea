#pragma once
#include <functional>
#include <span>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// Takes part in a Join: it makes collectives in each iteration, and can make the same ones on a
/// rank that has run out of inputs.
class Joinable {
 public:
  Joinable() = default;
  virtual ~Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;

  [[nodiscard]] virtual ProcessGroup& group() const noexcept = 0;
  /// Throws Error where shadow() cannot make all collectives of an iteration.
  virtual void expect_joinable() const {}
  /// Makes the collectives of one iteration, to which this rank contributes nothing.
  virtual void shadow() = 0;
  /// All ranks have run out. `last` is one of those that had the most inputs, the same on every
  /// rank, from which others may copy what they have missed. Collective.
  virtual void after_join(int last);
};

/// Options of a Join.
struct JoinOptions {
  /// All ranks throw as soon as one has run out of inputs, instead of continuing without it.
  bool throw_on_early_termination = false;
  /// What a rank without inputs does after each iteration that it shadows: its own part of the
  /// loop's body, such as optimizer.step(), so that the optimizer's state stays that of the others.
  std::function<void()> after_shadow = {};
};

/// Training with uneven inputs, PyTorch's Join: ranks that have run out take part in the
/// collectives of the others, with zeros, until all have; so no rank waits for ever. The mean over
/// samples stays exact: ranks agree on the number of samples and on who continues in one
/// all-reduce.
///   Join join({ddp}, {.after_shadow = [&] { optimizer.step(); }});
///   for (const auto& [x, target] : my_batches) {  // any number, also none
///     const double weight = join.step(x.size(0));
///     optimizer.zero_grad();
///     ddp.backward(nll_loss(ddp.forward(Variable(x)), target), weight);
///     optimizer.step();
///   }
///   join.finish();
/// With loss.backward() in place of ddp.backward(loss, weight) each rank counts the same, those
/// that have run out as zeros: PyTorch's divide_by_initial_world_size. Several Joinables are
/// shadowed in their order in the constructor, which is that of the loop's body; each makes the
/// collectives of one shadow() between two step(). An exception in the body leaves the other ranks
/// waiting until their group's deadline, as after any failure between two collectives. One Join
/// serves any number of epochs. All `joinables` outlive it.
class Join {
 public:
  /// Throws InputError if there are none, or their groups differ, since counts are summed by one of
  /// them; and what their expect_joinable() throws, such as for SyncBatchNorm in training.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinOptions options = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// This rank has inputs for another iteration: `samples` of them, or tokens, or their weights'
  /// sum; 0 if it continues without. Returns their share of those of all ranks in this iteration (0
  /// if there are none at all): the weight for DistributedDataParallel::backward of a mean over
  /// them. Collective, with finish() on ranks that have run out. Throws Error, on every rank,
  /// at early termination, if asked to.
  [[nodiscard]] double step(double samples);

  /// This rank has no more inputs: shadows the others until they have none either, then gives each
  /// Joinable its after_join. Collective, with step() on ranks that continue. Throws as step().
  void finish();

 private:
  struct Iteration {
    double active = 0;   ///< ranks with inputs
    double samples = 0;  ///< of all of them
  };
  [[nodiscard]] ProcessGroup& group() const noexcept { return joinables_.front().get().group(); }
  Iteration agree(bool active, double samples);
  [[noreturn]] void throw_for_exhausted(bool active);

  std::vector<std::reference_wrapper<Joinable>> joinables_;
  JoinOptions options_;
  Tensor counts_;  ///< of an Iteration, in the all-reduce
};

}  // namespace lockstep
