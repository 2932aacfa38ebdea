#pragma once
#include <functional>
#include <span>
#include <vector>

#include <lockstep/comm/process_group.hpp>

namespace lockstep {

/// A participant of a Join: makes collectives in each iteration, and can make the same ones on a
/// rank without inputs.
class Joinable {
 public:
  Joinable() = default;
  virtual ~Joinable() = default;
  Joinable(const Joinable&) = delete;
  Joinable& operator=(const Joinable&) = delete;

  [[nodiscard]] virtual ProcessGroup& group() const noexcept = 0;
  /// Throws Error if shadow() cannot make all collectives of an iteration.
  virtual void expect_joinable() const {}
  /// Makes the collectives of one iteration, without a contribution of this rank.
  virtual void shadow() = 0;
  /// All ranks have run out of inputs. `last` is a rank with the most inputs, the same on every
  /// rank, from which others may copy state. Collective.
  virtual void after_join(int last);
};

/// Options of a Join.
struct JoinOptions {
  /// All ranks throw as soon as one has run out of inputs, instead of continuing without it.
  bool throw_on_early_termination = false;
  /// Called on a rank without inputs after each shadowed iteration, for its part of the loop's
  /// body, for example optimizer.step(), so that the optimizer's state equals the others'.
  std::function<void()> after_shadow = {};
};

/// Training with uneven inputs, PyTorch's Join: ranks without inputs take part in the others'
/// collectives, with zeros, until all have run out. So no rank waits for ever. The mean over
/// samples stays exact: one all-reduce agrees on the number of samples and on the ranks that
/// continue.
///   Join join({ddp}, {.after_shadow = [&] { optimizer.step(); }});
///   for (const auto& [x, target] : my_batches) {  // any number, also none
///     const double weight = join.step(x.size(0));
///     optimizer.zero_grad();
///     ddp.backward(nll_loss(ddp.forward(Variable(x)), target), weight);
///     optimizer.step();
///   }
///   join.finish();
/// With loss.backward() in place of ddp.backward(loss, weight) all ranks have equal weights, and
/// those without inputs count as zeros: PyTorch's divide_by_initial_world_size. Several Joinables
/// are shadowed in the constructor's order, which must be that of the loop's body. Each makes the
/// collectives of one shadow() between two calls of step(). After an exception in the body the
/// other ranks wait until their group's deadline, as after any failure between two collectives.
/// One Join serves any number of epochs. All `joinables` must outlive it.
class Join {
 public:
  /// Throws InputError if there are none, or if their groups differ, since one of them sums counts.
  /// Also throws errors of their expect_joinable(), for example for SyncBatchNorm in training.
  explicit Join(std::vector<std::reference_wrapper<Joinable>> joinables, JoinOptions options = {});
  Join(const Join&) = delete;
  Join& operator=(const Join&) = delete;

  /// This rank has inputs for another iteration: `samples` of them, or tokens, or their weights'
  /// sum; 0 if it continues without. Returns their share of all ranks' inputs in this iteration (0
  /// if there are none): the weight for DistributedDataParallel::backward of a mean over them.
  /// Collective, with finish() on ranks that have run out. At early termination throws Error on
  /// every rank, if configured.
  [[nodiscard]] double step(double samples);

  /// This rank has no more inputs: shadows the others until they have none either, then calls each
  /// Joinable's after_join. Collective, with step() on ranks that continue. Throws as step().
  void finish();

 private:
  struct Iteration {
    double active = 0;   ///< ranks with inputs
    double samples = 0;  ///< of all ranks
  };
  [[nodiscard]] ProcessGroup& group() const noexcept { return joinables_.front().get().group(); }
  Iteration agree(bool active, double samples);
  [[noreturn]] void throw_for_exhausted(bool active);

  std::vector<std::reference_wrapper<Joinable>> joinables_;
  JoinOptions options_;
  Tensor counts_;  ///< fields of an Iteration in the all-reduce
};

}  // namespace lockstep
