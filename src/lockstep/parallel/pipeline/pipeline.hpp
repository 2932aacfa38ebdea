#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/parallel/pipeline/microbatch.hpp>
#include <lockstep/parallel/pipeline/pipeline_loss.hpp>
#include <lockstep/parallel/pipeline/pipeline_options.hpp>
#include <lockstep/parallel/pipeline/schedule.hpp>
#include <lockstep/tensor/state_dict.hpp>

namespace lockstep {

/// Time of a pipeline since construction, in seconds of this rank. Sums over replicas are
/// DistributedDataParallel's.
struct PipelineStats {
  /// Waiting for messages of other stages: the bubble, and communication that is not hidden.
  double wait_s = 0.0;
  double tied_wait_s = 0.0;  ///< waiting for sums of tied gradients
};

/// Trains a model whose layers are spread over ranks: each rank holds one stage or several, and a
/// batch passes through them in micro-batches, so that ranks compute at the same time.
///   const PipelineStages cut = stages_of(model, group->size());  // the same on every rank
///   Pipeline pipeline({cut.modules[group->rank()]}, group, one_f_one_b(group->size(), 8), loss,
///                     {.tied = cut.tied});
///   optim::SGD sgd(pipeline.named_parameters(), {.lr = 0.1});  // of this rank's stages
///   sgd.zero_grad();
///   const double mean = pipeline.step(images, labels);  // collective
///   sgd.step(optim::clip_factor(pipeline.grad_norm(), 1.0));
/// A step adds to the gradients of this rank's parameters those of the mean loss over the batch,
/// with the bits that the undivided model gets from the same micro-batches one after the other,
/// whatever the schedule. PyTorch's counterpart is torch.distributed.pipelining.
///
/// Each stage takes and returns one floating tensor (the first may take any), each micro-batch's
/// row an equal part of the leading extent. A rank holds activations of as many micro-batches as
/// its schedule says (PipelineSimulation::peak_activations). BatchNorm normalises over a
/// micro-batch. A rank computes on the device of its parameters, without any on
/// nn::default_device().
///
/// The first micro-batch's message is preceded by its shape and dtype. Later messages have the
/// same, apart from the number of rows (forget_shapes()). Messages are labelled "stage 1 fwd,
/// micro-batch 3", in the flight recorder, in traces, and in the verdict on a rank that hangs; they
/// use tags 0 to 2 x stages - 1, and the last one.
///
/// After an exception on one rank from step(), evaluate() or forward(), such as a module's, the
/// others' calls throw CommError within milliseconds, which names rank, stage, micro-batch and
/// error; the pipeline's groups, and those of its replicas, have ended (Revocation). A rank that
/// dies or hangs is found at the group's deadline. One thread at a time.
class Pipeline {
 public:
  /// See no_sync().
  class NoSync {
   public:
    explicit NoSync(Pipeline& pipeline) noexcept;
    ~NoSync();
    NoSync(const NoSync&) = delete;
    NoSync& operator=(const NoSync&) = delete;

   private:
    Pipeline& pipeline_;
    bool before_;
  };

  using Loss = PipelineLoss;

  /// `stages`: this rank's modules, by number of stage; stage s belongs to rank
  /// schedule.rank_of_stage[s]. `loss` is called on the last stage's rank only. The group has the
  /// schedule's number of ranks. Collective. Throws, on every rank alike, InputError as
  /// expect_deadlock_free does, for another number of ranks or of a rank's stages, for null modules
  /// or loss, for schedules that differ between ranks, for options that do not fit the stages, and
  /// for an nccl group: give the group that controls it.
  Pipeline(std::vector<std::shared_ptr<nn::Module>> stages, std::shared_ptr<ProcessGroup> group,
           PipelineSchedule schedule, Loss loss, const PipelineOptions& options = {});
  ~Pipeline();
  Pipeline(const Pipeline&) = delete;
  Pipeline& operator=(const Pipeline&) = delete;

  /// Forward and backward of a batch. Only the first stage's rank reads `input`, only the last's
  /// reads `target`, of as many rows. Micro-batches share out the rows as equally as possible.
  /// Returns the mean loss, on every rank. A batch may have fewer rows than micro-batches. A batch
  /// without rows has loss 0 and adds zeros. Micro-batches without rows are left out, unless
  /// replicas of stages communicate with each other, as sharded ones do. Gradients are multiplied
  /// by `weight`: of replicas with different shares of the global batch, which
  /// PipelineOptions::data_parallel averages, replicas x samples of this replica / all samples; and
  /// by `loss_scale`, a GradScaler's scale_tensor(), if it is defined; only the last stage's rank
  /// reads it. Collective. Throws InputError, on every rank alike and before computing, for a
  /// missing tensor or another number of rows.
  double step(const Tensor& input, const Tensor& target, double weight = 1.0,
              const Tensor& loss_scale = {});

  /// While the returned object lives, steps add to this rank's gradients alone, without sums over
  /// replicas and tied parameters. The next step outside sums all of them.
  ///   { const auto local = pipeline.no_sync(); pipeline.step(first_half, targets, 0.5); }
  ///   pipeline.step(second_half, its_targets, 0.5);
  /// The same on all ranks. Local.
  [[nodiscard]] NoSync no_sync() noexcept { return NoSync(*this); }

  /// The context of dropout's draws in later steps: `first_sample` is the batch's first row. The
  /// masks are those of the undivided model under a RandomContextGuard of this context, if every
  /// rank has built the whole model after the same nn::manual_seed. Without it, each rank draws its
  /// own. The same on all ranks. Local.
  void set_random_context(const std::optional<nn::RandomContext>& context);

  /// Forward alone, without gradients, in the modules' present mode (train(), eval()). Arguments,
  /// result and errors as step()'s. Collective.
  double evaluate(const Tensor& input, const Tensor& target);
  /// The last stage's output of the whole batch, on its rank; undefined on the others, and for a
  /// batch without rows. Collective.
  [[nodiscard]] Tensor forward(const Tensor& input);

  /// The micro-batches of a batch of `rows` rows. Local.
  [[nodiscard]] std::vector<Microbatch> microbatches(std::int64_t rows) const;

  /// The next batch may have samples of another shape or dtype. Call it on all ranks. Local.
  void forget_shapes() noexcept;

  /// The parameters of this rank's stages by their names there; a parameter that two stages share,
  /// or a tied one, has its first stage's name, and is listed once. If two stages of the pipeline
  /// use one name for different tensors, all names begin with their stage: "stage3.fc.weight".
  [[nodiscard]] const std::vector<nn::NamedParameter>& named_parameters() const noexcept;

  /// The undivided model's state by its names, the same list on every rank, for a checkpoint
  /// (PipelineState, which does the same for an optimizer). The tensors are the model's own memory.
  /// Local. Throws Error for stages that are sharded (FullyShardedDataParallel): make a
  /// PipelineState of their state_dict().
  [[nodiscard]] StateDict state_dict() const;
  /// Takes parts as state_dict() lists them, or whole tensors. Local; on all ranks. Throws Error
  /// listing names or shapes that do not fit.
  void load_state_dict(const StateDict& state);

  /// The Euclidean norm of all stages' gradients together, the same bits on every rank; tied
  /// parameters count once. Collective.
  [[nodiscard]] double grad_norm();
  /// The same, for stages that are divided themselves; `own` is the norm of the gradients of this
  /// rank's counted_parameters():
  ///   const TensorParallelGradNorm slabs(pipeline.counted_parameters(), pipeline.state_dict(),
  ///   tp); const double norm = pipeline.grad_norm(slabs.norm());
  [[nodiscard]] double grad_norm(double own);
  /// named_parameters() without those tied to another rank's earlier stage.
  [[nodiscard]] std::vector<nn::NamedParameter> counted_parameters() const;
  /// This rank's parameters that stages of other ranks have too (PipelineOptions::tied).
  [[nodiscard]] std::vector<Variable> tied_parameters() const;
  /// lockstep::agree_on_found_inf over the stages: before GradScaler::unscale() or step().
  void agree_on_found_inf();

  /// From now on each step() asks all ranks `question`, and tells all of them whether any answered
  /// yes; it costs no message. The same on all ranks. Local.
  void ask_along(std::function<bool()> question);
  /// The answer in the last step. Local.
  [[nodiscard]] bool any_said_yes() const noexcept;

  [[nodiscard]] PipelineStats stats() const noexcept;
  /// Trained parameters of all stages that no loss has reached since construction; in replicas,
  /// none of any. Collective.
  [[nodiscard]] std::vector<std::string> never_used() const;

  [[nodiscard]] const PipelineSchedule& schedule() const noexcept;
  /// Whether this rank has the last stage.
  [[nodiscard]] bool has_last_stage() const noexcept;
  /// Sets the mode of this rank's stages.
  void train(bool on = true);
  void eval() { train(false); }
  /// Closes the groups of tied parameters: before the pipeline's group is closed. Collective.
  void close();

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace lockstep
