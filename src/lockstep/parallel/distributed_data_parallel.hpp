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

/// Data-parallel training: every rank holds the whole model, computes the gradient of its share of
/// the global batch, and all ranks end with the same bits of the gradient of the whole batch.
///   optimizer.zero_grad();
///   const Variable loss = nll_loss(ddp.forward(x), target);  // mean over this rank's samples
///   loss.backward();  // collective
///   optimizer.step();
/// As in PyTorch: the first backward pass that reaches the parameters after a forward() outside
/// no_sync(), and with gradients on, leaves the mean over ranks, each of which weighs the same. Any
/// number of forward() may be part of it. A pass without a forward() since the last sum stays this
/// rank's own, and a warning says so once: call forward() before each pass, or add two losses that
/// share one forward(). backward(loss, weight) is for ranks whose shares of the batch differ:
///   ddp.backward(loss, double(samples) / double(all_samples));  // collective
/// A rank without samples in this step calls ddp.backward({}, 0.0), beside either, or, if the
/// module's forward is collective (SyncBatchNorm), runs it on 0 samples and calls
/// backward(sum(output), 0.0). A group of one runs the same code.
///
/// Gradients that are not zeroed add up, as PyTorch's do. What a sum leaves is
///   the mean over ranks of what passes without a weight have left on each since the last sum
///   + the sum over ranks of what those with a weight have + the gradient after the last sum.
/// A pass of dist_autograd, begun on this rank, leaves the mean over ranks in its context.
/// A rank that makes another number of passes than its peers ends, as they do, in an error of the
/// group that names it, at the deadline. Where one pass goes through several of these, their sums
/// follow in the order in which they were made; only the first one's overlap with the pass. A rank
/// whose loss leaves one of them out calls backward of that one: left_out.backward(loss, weight).
///
/// Values and gradients of parameters are moved into flat buckets, in reverse order of
/// registration; make optimizers afterwards, which then update a bucket by one kernel (tensors
/// taken from Variable::data() or state_dict() before keep the old memory). A bucket's all-reduce
/// is launched within backward, as soon as its last gradient is final. Parameters are those that
/// require a gradient at construction; nothing else may set their gradient buffers. They stay in
/// the buckets after this object is destroyed. They may be frozen and trained again between steps,
/// on all ranks or on some; one that was frozen at construction may not be trained later, which
/// backward() refuses. One thread at a time.
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
  /// The model lies on one device, of the same kind on every rank.
  /// `hook`, if not null, replaces that of the options: the same kind on every rank. Collective.
  /// Throws on every rank alike: InputError where validate(options) does, and for shards with a
  /// hook or with layers that are synchronised; Error naming the first name, shape, dtype or option
  /// that differs.
  DistributedDataParallel(std::shared_ptr<nn::Module> module, std::shared_ptr<ProcessGroup> group,
                          const DdpOptions& options = {}, std::shared_ptr<CommHook> hook = nullptr);
  ~DistributedDataParallel() override;

  /// After it, unless within no_sync() or without gradients, the next backward pass is summed.
  [[nodiscard]] Variable forward(const Variable& x);
  /// The same with whatever `run` calls of the module in place of module().forward(x).
  [[nodiscard]] Variable forward(const std::function<Variable(nn::Module&)>& run);

  /// A backward pass that adds to each parameter's gradient the sum over ranks of weight x the
  /// gradient of that rank's loss, whether or not forward() has run. With weight = the rank's
  /// samples / the global batch's, and losses that are means over the rank's samples, that is
  /// exactly the gradient of the mean over the global batch. `loss` has one element, or is
  /// undefined on a rank that has no samples: it then contributes zeros, and `weight` counts for
  /// nothing. Which parameters a loss depends on may differ between ranks and from call to call;
  /// those that no rank's depends on have no gradient afterwards, so that optimizers leave them and
  /// their state as they are. Other DistributedDataParallels that the pass reaches after a
  /// forward() of theirs are summed likewise. With weights of 1 / ranks it is loss.backward(), but
  /// for leaves that are no parameters: their gradients are weighted too. With DdpOptions::shards,
  /// each call is for the next of this rank's shards, {} for one without samples; calls before the
  /// last are local (for_each_shard()). Collective, outside no_sync(); returns when all gradients
  /// are final. Throws Error, at once, for an undefined loss where the module's forward is
  /// collective, because the other ranks wait for this one in it. Throws what backward or the group
  /// throws; then the other ranks may be left waiting until their deadline, as after any failure
  /// between two collectives.
  /// `loss_scale`, if defined, is a GradScaler's scale_tensor(): gradients are those of the loss
  /// times it too, and the host does not wait for it.
  void backward(const Variable& loss, double weight, const Tensor& loss_scale = {});

  /// While the returned object lives, a backward pass sends nothing, wherever its forward() ran,
  /// and adds to this rank's gradients. The next pass that is summed adds its own gradients and
  /// sums all of them over the ranks. Weights are shares of all samples together.
  /// Ranks may accumulate different numbers of times, unless the module's forward is collective.
  /// Local.
  ///   { const auto local = ddp.no_sync(); ddp.backward(loss_of_first_half, weight); }
  ///   ddp.backward(loss_of_second_half, weight);
  [[nodiscard]] NoSync no_sync() noexcept { return NoSync(*this); }

  /// body(shard) for each of this rank's shards of the batch, one after the other, numbered over
  /// all ranks; without DdpOptions::shards for one, the rank's. The body runs forward and backward
  /// of the shard. Afterwards all gradients are final.
  ///   ddp.for_each_shard([&](std::int64_t shard) {
  ///     const auto [x, target] = my_shard(shard);
  ///     ddp.backward(nll_loss(ddp.forward(x), target), double(x.size(0)) / double(all_samples));
  ///   });
  /// or, where shards are equal, nll_loss(ddp.forward(x), target).backward().
  /// Throws what a body throws; the next call begins a new step. Throws Error for a body that does
  /// not call backward() once outside no_sync(). Collective.
  template <class Body>
  void for_each_shard(Body&& body) {
    run_shards(std::ref(body));
  }

  /// Rank 0's buffers on every rank: call it before evaluation and before saving. Each rank's
  /// forward updates its own (BatchNorm's running statistics, from its share of the batch), and
  /// training reads none of them. So this gives what PyTorch's broadcast_buffers, before every
  /// forward, gives on rank 0. A model whose forward reads buffers in training has
  /// DdpOptions::broadcast_buffers_each_forward. Collective; sends nothing if there are no buffers.
  void broadcast_buffers();

  /// From now on each sum over ranks asks all of them `question`, and tells all whether any said
  /// yes: for what every rank has to know at the same step, such as that one of them has to stop.
  /// It costs no message: the answers are part of the bucket that is launched last. With every
  /// communication hook, with shards, and on ranks without inputs in a Join; not in passes that are
  /// local, or summed over a subgroup (PostLocalSgdHook). `question` allocates nothing and does not
  /// communicate.
  void ask_along(std::function<bool()> question);
  /// At the last sum, on a device at the one before it; the same on all ranks. False where that was
  /// not over all of them, and where no parameter is trained.
  [[nodiscard]] bool any_said_yes() const noexcept;

  /// Forgets the gradients; their memory stays in the buckets. Between the shards of a step it
  /// forgets those from before the step, as an optimizer's or a module's zero_grad() does.
  void zero_grad();

  /// The trained parameters as they are in memory, a flat tensor a bucket, padded with zeros: for
  /// what treats every element alike, such as average_parameters.
  [[nodiscard]] std::vector<Tensor> flat_values() const;

  /// Names of parameters that no rank's loss has reached, since construction, in sums over all
  /// ranks: the same on all of them. A warning names them, once, after the first 100 sums, if these
  /// were over all ranks. Local.
  [[nodiscard]] std::vector<std::string> never_used() const;

  [[nodiscard]] nn::Module& module() const noexcept { return *module_; }
  [[nodiscard]] ProcessGroup& group() const noexcept override { return *group_; }
  /// The module's: names carry no "module." prefix, so checkpoints fit with and without this class.
  [[nodiscard]] StateDict state_dict() const { return module_->state_dict(); }
  void load_state_dict(const StateDict& state) { module_->load_state_dict(state); }

  /// Waiting times, traffic, number of buckets, and with shards the loss of the batch.
  [[nodiscard]] GradientSumStats stats() const noexcept;
  /// A resumed run sets its step.
  [[nodiscard]] CommHook& comm_hook() const noexcept;

 private:
  /// Throws Error for a model whose forward is collective (SyncBatchNorm in training), or reads
  /// rank 0's buffers (DdpOptions::broadcast_buffers_each_forward).
  void expect_joinable() const override;
  /// The backward of a rank without samples, from no gradients but those of no_sync(), as in a loop
  /// that zeroes them in each iteration.
  void shadow() override;
  /// Rank `last`'s trained parameters and buffers on every rank.
  void after_join(int last) override;

  /// The shares of the ranks' held gradients in the sum.
  enum class Share : std::uint8_t {
    mean,      ///< equal, and not yet applied
    weighted,  ///< those of backward(loss, weight), which are applied
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
  /// Of a rank, or with DdpOptions::shards of a shard.
  [[nodiscard]] double equal_share() const;
  /// Scales the held gradients to such shares.
  void hold(Share share);
  void warn_of_own_gradients();
  void expect_frozen_unreached() const;
  [[nodiscard]] Reducer& reducer() const noexcept;
  void run_shards(const std::function<void(std::int64_t)>& body);
  void finish_sum();
  void broadcast_buffers_from(int root);
  void broadcast_buffers_once_a_step();
  void warn_of_never_used() const;

  std::shared_ptr<nn::Module> module_;
  std::shared_ptr<ProcessGroup> group_;
  std::unique_ptr<GradientSum> sum_;        ///< over ranks; with DdpOptions::shards over these
  std::vector<nn::NamedParameter> frozen_;  ///< when this was made
  std::vector<GradHook> frozen_hooks_;      ///< so that passes that reach them are observed
  bool has_warned_ = false;                 ///< of own gradients
  std::vector<Tensor> buffers_;
  bool broadcasts_buffers_ = false;  ///< before each step's first forward
  bool has_broadcast_ = false;       ///< in this step
  std::int64_t sums_ = 0;            ///< over ranks, since construction
  /// That of the current pass.
  enum class Sum : std::uint8_t {
    begun,
    waits,  ///< for the end: the pass reaches no parameter here, but may on other ranks
    done,
  };
  /// What a failed for_each_shard() restores.
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
