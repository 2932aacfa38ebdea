#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <lockstep/autograd/split_backward.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/parallel/pipeline/pipeline_loss.hpp>
#include <lockstep/parallel/pipeline/schedule.hpp>
#include <lockstep/parallel/pipeline/stage_messages.hpp>

namespace lockstep {

/// Executes a schedule's actions of this rank, with its modules and messages.
class StageExecutor {
 public:
  /// `modules`: of this rank's stages, in their order. The arguments fit each other. Collective.
  StageExecutor(std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule,
                const std::vector<std::shared_ptr<nn::Module>>& modules, PipelineLoss loss);

  /// One pass of a batch.
  struct Batch {
    Tensor input, target;  ///< where they are needed
    std::int64_t rows = 0;
    bool records = false;       ///< runs the backward actions too
    bool keeps_output = false;  ///< the last stage's output, instead of the loss
    double weight = 1.0;        ///< of gradients
    Tensor loss_scale;          ///< a further factor of them, if defined
    std::optional<nn::RandomContext> random = {};
  };
  /// Collective. Throws errors of modules and of the group, after which it cannot be used.
  void run(const Batch& batch);
  /// The current action: "backward of stage 1 of micro-batch 3"; empty outside of run().
  [[nodiscard]] std::string position() const;
  /// Of the last run, on the last stage's rank: the mean loss, and the output of all rows
  /// (undefined if there are none).
  [[nodiscard]] double loss() const;
  [[nodiscard]] Tensor output() const;
  void forget_shapes() noexcept;
  /// Seconds in which this rank has waited for messages.
  [[nodiscard]] double waited_s() const noexcept;

  struct Stage {
    /// The activations of a micro-batch.
    struct Slot {
      Tensor arrived_input, arrived_gradient;  ///< from a stage of the same rank
      Variable input, output;
      std::unique_ptr<SplitBackward> rest;
    };

    int number = 0;
    std::shared_ptr<nn::Module> module;
    const char* name = "";  ///< for traces
    // With the stages before and after; null: there is none, or it is on this rank.
    std::unique_ptr<StageMessages> input_from, output_to, gradient_from, gradient_to;
    std::vector<Slot> slots;  ///< by micro-batch
  };
  [[nodiscard]] const std::vector<Stage>& stages() const noexcept { return stages_; }
  [[nodiscard]] const Stage& stage(int number) const;
  [[nodiscard]] const PipelineSchedule& schedule() const noexcept { return schedule_; }
  [[nodiscard]] ProcessGroup& group() const noexcept { return *group_; }
  [[nodiscard]] int rank_of(int stage) const {
    return schedule_.rank_of_stage[static_cast<std::size_t>(stage)];
  }
  [[nodiscard]] bool has_stage(int stage) const { return rank_of(stage) == group_->rank(); }
  [[nodiscard]] int last_stage() const noexcept { return schedule_.stages() - 1; }

 private:
  [[nodiscard]] Stage make_stage(int number, std::shared_ptr<nn::Module> module) const;
  [[nodiscard]] Stage& own(int number);
  [[nodiscard]] std::vector<Microbatch> order_of(int stage, bool forward) const;
  /// Micro-batches without rows run only where replicas of a stage wait for each other.
  [[nodiscard]] bool runs(const Microbatch& microbatch) const noexcept {
    return microbatch.rows() > 0 || runs_empty_;
  }
  void begin();
  void forward(Stage& stage, const Microbatch& microbatch);
  [[nodiscard]] Variable loss_of_rows(const Variable& output, const Microbatch& microbatch);
  /// `splits`: the gradients of the parameters come later.
  void backward(Stage& stage, const Microbatch& microbatch, bool splits);
  [[nodiscard]] double share_of(const Microbatch& microbatch) const;
  /// `seed` times the loss scale: the gradient with which backward of the loss begins.
  [[nodiscard]] Tensor seed_on_device(const Variable& loss, double seed) const;

  std::shared_ptr<ProcessGroup> group_;
  PipelineSchedule schedule_;
  PipelineLoss loss_of_;
  std::vector<Stage> stages_;
  Device device_;
  bool runs_empty_;
  Batch batch_;                             ///< that runs
  const PipelineAction* action_ = nullptr;  ///< of it
  std::vector<Microbatch> microbatches_;
  std::vector<std::pair<double, Tensor>> losses_;  ///< with their weights
  std::vector<Tensor> outputs_;                    ///< by micro-batch
};

}  // namespace lockstep
