#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/ddp_options.hpp>
#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/parallel/join.hpp>

namespace lockstep {

class CommHook;
class GradientSum;
class Reducer;

/// Data-parallel training: every rank holds the whole model and computes the gradient of its share
/// of the global batch; all ranks end with the same bits of the gradient of the whole batch.
///   optimizer.zero_grad();
///   const Variable loss = nll_loss(ddp.forward(x), target);  // mean over this rank's samples
///   loss.backward();  // collective
///   optimizer.step();
/// As in PyTorch, the first backward pass that reaches the parameters after a forward() outside
/// no_sync(), with gradients on, gives the mean over ranks with equal weights. The pass may follow
/// any number of forward() calls. A pass without a forward() since the last sum is not summed over
/// ranks, and one warning says so: call forward() before each pass, or add two losses that share
/// one forward(). Use backward(loss, weight) if the ranks' shares of the batch differ:
///   ddp.backward(loss, double(samples) / double(all_samples));  // collective
/// A rank without samples in this step calls ddp.backward({}, 0.0) in either case. If the module's
/// forward is collective (SyncBatchNorm), it runs forward on 0 samples and calls
/// backward(sum(output), 0.0) instead. A group of one runs the same code.
///
/// Gradients that are not zeroed add up, as PyTorch's do. The result of a sum is
///   the mean over ranks of the gradients of passes without a weight since the last sum
///   + the sum over ranks of those of passes with a weight + the gradient after the last sum.
/// A pass of dist_autograd, begun on this rank, puts the mean over ranks into its context.
/// If ranks make different numbers of passes, all of them get an error of the group at the
/// deadline, which names the rank that differs. If one pass goes through several
/// DistributedDataParallels, their sums follow in the order of construction; only the first one's
/// sums overlap with the pass. A rank whose loss leaves one of them out calls that one's backward:
/// left_out.backward(loss, weight).
///
/// Moves values and gradients of parameters into flat buckets, in reverse order of registration.
/// Make optimizers afterwards: they then update each bucket with one kernel. Tensors taken earlier
/// from Variable::data() or state_dict() keep the old memory. A bucket's all-reduce is launched
/// within backward, as soon as its last gradient is final. Parameters are those that require a
/// gradient at construction; no other code may replace their gradient buffers. They stay in the
/// buckets after this object is destroyed. They may be frozen and unfrozen between steps, on all
/// ranks or on some. backward() refuses to train a parameter that was frozen at construction. One
/// thread at a time.
class DistributedDataParallel final : public Joinable, private PassObserver {
 public:
  /// See no_sync().
  class NoSync {
   public:
    explicit NoSync(DistributedDataParallel& ddp) noexcept
        : ddp_(ddp), before_(std::exchange(ddp.state_.syncs, false)) {}
    ~NoSync() { ddp_.state_.syncs = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    DistributedDataParallel& ddp_;
    bool before_;
  };

  /// Checks that all ranks built the same model, and copies rank 0's parameters and buffers to all.
  /// The model is on one device, of the same kind on every rank. `hook`, if not null, replaces that
  /// of the options: the same kind on every rank. Collective. Throws on every rank alike:
  /// InputError as validate(options) does, and for shards with a hook or with synchronised layers;
  /// Error naming the first differing name, shape, dtype or option.
  DistributedDataParallel(std::shared_ptr<nn::Module> module, std::shared_ptr<ProcessGroup> group,
                          const DdpOptions& options = {}, std::shared_ptr<CommHook> hook = nullptr);
  ~DistributedDataParallel() override;

  /// The next backward pass is then summed, unless this ran within no_sync() or without gradients.
  [[nodiscard]] Variable forward(const Variable& x);
  /// The same, with the module calls of `run` in place of module().forward(x).
  [[nodiscard]] Variable forward(const std::function<Variable(nn::Module&)>& run);

  /// Runs a backward pass that adds to each parameter's gradient the sum over ranks of weight x the
  /// gradient of that rank's loss, whether or not forward() has run. With weight = the rank's
  /// samples / the global batch's, and losses that are means over the rank's samples, that is
  /// exactly the gradient of the mean over the global batch. `loss` has one element. On a rank
  /// without samples it is undefined: the rank contributes zeros, and `weight` is ignored. The
  /// parameters on which a loss depends may differ between ranks and calls. A parameter on which no
  /// rank's loss depends has no gradient afterwards, so optimizers leave it and its state
  /// unchanged. Other DistributedDataParallels that the pass reaches after a forward() of theirs
  /// are summed likewise. With weights of 1 / ranks it equals loss.backward(), except for leaves
  /// that are not parameters: their gradients are weighted too. With DdpOptions::shards, each call
  /// is for the next of this rank's shards, {} for one without samples; calls before the last are
  /// local (for_each_shard()). Collective, outside no_sync(); returns when all gradients are final.
  /// Throws Error, at once, for an undefined loss if the module's forward is collective, because
  /// the other ranks wait for this one in it. Throws errors of backward and the group; then the
  /// other ranks may wait until their deadline, as after any failure between two collectives.
  /// `loss_scale`, if defined, is a GradScaler's scale_tensor(): gradients are multiplied by it
  /// too, and the host does not wait for it.
  void backward(const Variable& loss, double weight, const Tensor& loss_scale = {});

  /// While the returned object lives, a backward pass sends nothing, wherever its forward() ran,
  /// and adds to this rank's gradients. The next summed pass adds its own gradients and sums all of
  /// them over the ranks. Weights are shares of all samples together. Ranks may accumulate
  /// different numbers of times, unless the module's forward is collective. Local.
  ///   { const auto local = ddp.no_sync(); ddp.backward(loss_of_first_half, weight); }
  ///   ddp.backward(loss_of_second_half, weight);
  [[nodiscard]] NoSync no_sync() noexcept { return NoSync(*this); }

  /// Calls body(shard) for each of this rank's shards of the batch, one after the other, numbered
  /// over all ranks. Without DdpOptions::shards there is one shard per rank. The body runs forward
  /// and backward of the shard. Afterwards all gradients are final.
  ///   ddp.for_each_shard([&](std::int64_t shard) {
  ///     const auto [x, target] = my_shard(shard);
  ///     ddp.backward(nll_loss(ddp.forward(x), target), double(x.size(0)) / double(all_samples));
  ///   });
  /// or, if shards are equal, nll_loss(ddp.forward(x), target).backward().
  /// Throws the body's errors; the next call then begins a new step. Throws Error for a body that
  /// does not call backward() once outside no_sync(). Collective.
  template <class Body>
  void for_each_shard(Body&& body) {
    run_shards(std::ref(body));
  }

  /// Broadcasts rank 0's buffers: call it before evaluation and before saving. Each rank's forward
  /// updates its own buffers (BatchNorm's running statistics, from its share of the batch), and
  /// training reads none of them. So the result equals that of PyTorch's broadcast_buffers, before
  /// every forward, on rank 0. For a model whose forward reads buffers in training, use
  /// DdpOptions::broadcast_buffers_each_forward. Collective; sends nothing if there are no buffers.
  void broadcast_buffers();

  /// From now on each sum over ranks asks all ranks `question`, and tells all whether any answered
  /// yes. It is for facts that every rank must learn at the same step, for example that one of them
  /// has to stop. It costs no message: the answers are part of the bucket launched last. It works
  /// with every communication hook, with shards, and on ranks without inputs in a Join; not in
  /// passes that are local, or summed over a subgroup (PostLocalSgdHook). `question` allocates
  /// nothing and does not communicate.
  void ask_along(std::function<bool()> question);
  /// The answer of the last sum; on a device of the one before. The same on all ranks. False if
  /// that sum was not over all of them, or if no parameter is trained.
  [[nodiscard]] bool any_said_yes() const noexcept;

  /// Drops the gradients; their memory stays in the buckets. Between the shards of a step it drops
  /// those from before the step, as zero_grad() of an optimizer or a module does.
  void zero_grad();

  /// The memory of the trained parameters, one flat tensor per bucket, padded with zeros: for
  /// functions that treat every element alike, for example average_parameters.
  [[nodiscard]] std::vector<Tensor> flat_values() const;

  /// Names of parameters that no rank's loss has reached since construction, in sums over all
  /// ranks: the same on all of them. A warning names them once, after the first 100 sums, if these
  /// were over all ranks. Local.
  [[nodiscard]] std::vector<std::string> never_used() const;

  [[nodiscard]] nn::Module& module() const noexcept { return *module_; }
  [[nodiscard]] ProcessGroup& group() const noexcept override { return *group_; }
  /// The module's state: names have no "module." prefix, so checkpoints fit with and without this
  /// class.
  [[nodiscard]] StateDict state_dict() const { return module_->state_dict(); }
  void load_state_dict(const StateDict& state) { module_->load_state_dict(state); }

  /// Waiting times, traffic, number of buckets, and with shards the loss of the batch.
  [[nodiscard]] GradientSumStats stats() const noexcept;
  /// A resumed run sets the hook's step.
  [[nodiscard]] CommHook& comm_hook() const noexcept;

 private:
  /// Throws Error for a model whose forward is collective (SyncBatchNorm in training), or reads
  /// rank 0's buffers (DdpOptions::broadcast_buffers_each_forward).
  void expect_joinable() const override;
  /// The backward pass of a rank without samples: without gradients apart from those of no_sync(),
  /// as in a loop that zeroes them in each iteration.
  void shadow() override;
  /// Broadcasts rank `last`'s trained parameters and buffers.
  void after_join(int last) override;

  /// The weights of the ranks' held gradients in the sum.
  enum class Share : std::uint8_t {
    mean,      ///< equal, and not yet applied
    weighted,  ///< those of backward(loss, weight), already applied
  };
  Answer pass_begins(std::span<const Variable> roots, std::span<const Tensor> gradients,
                     double seed) override;
  void leaves_are_known(bool first, bool reached) override;
  void begin_sum(bool first);
  void pass_is_over() override;
  void pass_has_failed() noexcept override;
  void gradients_are_in(GradStore& gradients) override;
  [[nodiscard]] bool awaits_pass() const noexcept override {
    return state_.syncs && state_.is_awaited;
  }
  /// Weight of a rank, or with DdpOptions::shards of a shard.
  [[nodiscard]] double equal_share() const;
  /// Scales the held gradients to these weights.
  void hold(Share share);
  void warn_of_own_gradients();
  [[nodiscard]] Reducer& reducer() const noexcept;
  void run_shards(const std::function<void(std::int64_t)>& body);
  void finish_sum();
  void broadcast_buffers_from(int root);
  void broadcast_buffers_once_a_step();
  void warn_of_never_used() const;

  std::shared_ptr<nn::Module> module_;
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<GradientSum> sum_;        ///< over ranks; with DdpOptions::shards over shards
  std::vector<nn::NamedParameter> frozen_;  ///< order of construction
  std::vector<GradHook> frozen_hooks_;      ///< lets passes that reach the parameters be observed
  bool has_warned_ = false;                 ///< with gradients of their own
  std::vector<Tensor> buffers_;
  bool broadcasts_buffers_ = false;  ///< before each step's first forward
  bool has_broadcast_ = false;       ///< already done in this step
  std::int64_t sums_ = 0;            ///< sums over ranks, since construction
  /// The weight of the current pass.
  enum class Sum : std::uint8_t {
    begun,
    waits,  ///< completes the sum at the end: the pass reaches no parameter here, but may on other
            ///< ranks
    done,
  };
  /// State that a failed for_each_shard() restores.
  struct State {
    bool syncs = true;         ///< outside no_sync()
    bool is_awaited = false;   ///< forward() has run since the last sum: the next pass is summed
    bool in_backward = false;  ///< within backward(loss, weight),
    bool has_begun = false;    ///< whose pass has begun
    double weight = 1.0;       ///< of that backward()
    bool is_weighted = false;  ///< the last pass that reached a parameter was of such a backward()
    bool was_local = false;    ///< a pass within no_sync() was the last one
    Sum sum = Sum::begun;
    Share held = Share::mean;
  };
  State state_;
};

}  // namespace lockstep
