#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/pass_observer.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/parallel/gradient_sum_stats.hpp>
#include <lockstep/parallel/sharded/fully_shard_options.hpp>

namespace lockstep {

class ShardReducer;
class ShardedUnits;
class TensorParallelGradNorm;

/// Data-parallel training of a model that no rank holds whole, as PyTorch's fully_shard: a rank
/// keeps 1/ranks of the parameters, of their gradients and of the optimizer's state (ZeRO-3, or
/// ZeRO-2: FullyShardOptions::reshard_after_forward).
///   FullyShardedDataParallel fsdp(model, group);
///   optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 1e-3});
///   ...
///   fsdp.zero_grad();
///   const Variable loss = nll_loss(fsdp.forward(x), target);  // mean over this rank's samples
///   fsdp.backward(loss, double(samples) / double(all_samples));  // collective
///   optimizer.step(optim::clip_factor(fsdp.grad_norm(), 1.0));
/// The updated values are those of DistributedDataParallel up to rounding, and the same bits in
/// every run on as many ranks.
///
/// With FullyShardOptions::replicate each of several groups holds all pieces (HSDP): it saves less
/// memory than sharding over all ranks, and parameters travel within a group only, such as a node.
/// "All ranks" below are then those of all replicas.
///
/// The model is cut into units, e.g. the blocks of a transformer (FullyShardOptions::units). A
/// unit's parameters lie in one flat run of memory, cut into equal runs over the ranks. They are
/// gathered before the unit's forward, one unit ahead, freed after it, gathered again for its
/// backward, and freed; the sum of a unit's gradients over the ranks travels while backward goes
/// on. All other parameters are in the root unit, gathered from the beginning of forward to the
/// end of backward. Outside of forward and backward the module's parameters are absent and read as
/// NaN: see gathered(). Calling a unit's module as (*module)(x) enters it; using its parameters in
/// another way throws Error in backward.
///
/// Forward and backward are collective, and all ranks call the same modules in the same order; the
/// parameters on which a loss depends may differ. A rank without samples in a step runs forward on
/// a batch of 0 samples, and backward from the sum of its output. Every backward pass is summed
/// unless within no_sync(); loss.backward() gives the mean over ranks, as
/// DistributedDataParallel's.
///
/// Parameters that are frozen at construction are gathered, and have no gradients. Tied ones that
/// two units share are in the root unit. A parameter on which no rank's loss depends has no
/// gradient afterwards. Optimizers see flat pieces of parameters: those that need whole ones (LARS,
/// LAMB, LBFGS) cannot be used. The parameters may be slabs of parallelize_module(): then `group`
/// is of ranks that hold the same slabs, and all of them call the model together with those that
/// hold the others. One thread at a time.
class FullyShardedDataParallel final : private PassObserver {
 public:
  /// See no_sync().
  class NoSync {
   public:
    explicit NoSync(FullyShardedDataParallel& fsdp) noexcept
        : fsdp_(fsdp), before_(std::exchange(fsdp.syncs_, false)) {}
    ~NoSync() { fsdp_.syncs_ = before_; }
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    FullyShardedDataParallel& fsdp_;
    bool before_;
  };
  /// See gathered().
  class Gathered {
   public:
    explicit Gathered(FullyShardedDataParallel& fsdp);
    ~Gathered();
    Gathered(const Gathered&) = delete;
    Gathered& operator=(const Gathered&) = delete;

   private:
    FullyShardedDataParallel& fsdp_;
  };

  /// Checks that all ranks built the same model, takes the first replica's rank 0's parameters and
  /// buffers, and keeps this rank's share. The model is on one device, of the same kind on every
  /// rank. Collective. Throws on every rank alike: Error naming the first difference between ranks,
  /// and for a model without parameters; InputError for an unknown unit, a dtype that an option
  /// does not allow, and a group of replicas that does not make a mesh.
  FullyShardedDataParallel(std::shared_ptr<nn::Module> module, std::shared_ptr<ProcessGroup> group,
                           const FullyShardOptions& options = {});
  /// Local. The module's parameters stay absent and read as NaN: call release() before, to go on
  /// using the module.
  ~FullyShardedDataParallel() override;

  /// Collective, even without gradients.
  [[nodiscard]] Variable forward(const Variable& x);
  /// The same, with the module calls of `run` in place of module().forward(x).
  [[nodiscard]] Variable forward(const std::function<Variable(nn::Module&)>& run);

  /// Adds to the gradients the sum over ranks of weight x the gradient of that rank's loss, which
  /// has one element; `loss_scale` as DistributedDataParallel::backward takes it. Collective.
  /// Throws Error at once for an undefined loss, as the other ranks wait for this one's forward.
  void backward(const Variable& loss, double weight, const Tensor& loss_scale = {});

  /// While the returned object lives, gradients of a backward pass stay whole on this rank, and the
  /// next summed pass adds its own and sums all of them. Needs memory for whole gradients. Forward
  /// and backward still gather parameters, so they are collective.
  [[nodiscard]] NoSync no_sync() noexcept { return NoSync(*this); }

  /// Drops the gradients, those within no_sync() too.
  void zero_grad();

  /// This rank's pieces of all parameters under the parameters' names, in the model's order: flat
  /// leaves for an optimizer, with the gradients of the last sum. A rank may have a piece without
  /// elements.
  [[nodiscard]] const std::vector<nn::NamedParameter>& named_parameters() const noexcept {
    return pieces_;
  }
  /// Those that are trained.
  [[nodiscard]] std::vector<nn::NamedParameter> trained_parameters() const;
  /// The Euclidean norm of all gradients together: the same bits on every rank. Collective.
  [[nodiscard]] double grad_norm();
  /// The same of a tensor-parallel model, over its slabs, too: `of_pieces` is
  /// TensorParallelGradNorm(named_parameters(), module().state_dict(), tensor_group). Collective
  /// over both.
  [[nodiscard]] double grad_norm(const TensorParallelGradNorm& of_pieces);

  /// If any rank's gradients are not finite, makes all ranks' so: a rank sees its own pieces only,
  /// and all GradScalers must skip the same steps. Call it before GradScaler::unscale() or step().
  /// PyTorch's ShardedGradScaler. Of a tensor-parallel model give the ranks that hold its other
  /// slabs, too. Collective. Throws Error on every rank if one has no element of any trained
  /// parameter, as of a very small model.
  void agree_on_found_inf(const std::shared_ptr<ProcessGroup>& tensor_group = {});

  /// While the returned object lives, the module's parameters can be read: for an evaluation
  /// without forward(), or an export. Collective, not within forward or backward.
  [[nodiscard]] Gathered gathered() { return Gathered(*this); }

  /// Gives the module whole parameters in memory of its own, in the shards' dtype, for use without
  /// this object; afterwards call only the destructor. Needs memory for all parameters. Collective
  /// within `group()`, not within forward or backward.
  void release();

  /// Broadcasts rank 0's buffers, as DistributedDataParallel's: before evaluation and saving.
  void broadcast_buffers();

  /// Names of parameters that no rank's loss has reached since construction. Local.
  [[nodiscard]] std::vector<std::string> never_used() const;

  /// This rank's pieces of the parameters, each with its place in the whole parameter
  /// (Placement::flat_run_of), and the buffers, under the module's names: a checkpoint of them
  /// holds whole tensors, also of the module's slabs. For an optimizer's state call
  /// optimizer.take_placements(fsdp.state_dict()), which also refuses an optimizer that needs whole
  /// parameters.
  [[nodiscard]] StateDict state_dict() const { return state_; }
  /// Takes pieces, as load_checkpoint(group, path, fsdp.state_dict()) returns them, or whole
  /// tensors. Throws Error listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state);

  [[nodiscard]] nn::Module& module() const noexcept { return *module_; }
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }
  /// Waiting times at the end of backward. `buckets` are runs of gradients that are summed.
  [[nodiscard]] const GradientSumStats& stats() const noexcept;

 private:
  Answer pass_begins(std::span<const Variable> roots, std::span<const Tensor> gradients,
                     double seed) override;
  void leaves_are_known(bool first, bool reached) override;
  void pass_is_over() override;
  void pass_has_failed() noexcept override;
  void gradients_are_in(GradStore& gradients) override;
  /// Parameters are gathered for passes that notify it only.
  [[nodiscard]] bool awaits_pass() const noexcept override { return true; }

  struct Watch;
  [[nodiscard]] double over_group(double norm);
  [[nodiscard]] double all_ranks() const;

  std::shared_ptr<nn::Module> module_;
  std::shared_ptr<ProcessGroup> group_, replicas_;  ///< replicas_: may be null
  std::shared_ptr<ShardedUnits> units_;
  std::unique_ptr<ShardReducer> reducer_;
  std::vector<nn::NamedParameter> pieces_;
  std::vector<nn::NamedParameter> frozen_;  ///< at construction
  StateDict state_;                         ///< see state_dict()
  std::unique_ptr<Watch> watch_;            ///< of a backward pass
  bool syncs_ = true;                       ///< outside no_sync()
  bool is_weighted_ = false;  ///< the present pass; between passes, gradients that are kept whole
  bool keeps_any_ = false;    ///< gradients of passes within no_sync()
};

}  // namespace lockstep
