#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <lockstep/data/dataset.hpp>
#include <lockstep/tensor/tensor.hpp>
#include <lockstep/train/step_figures.hpp>

namespace lockstep {
class DeviceGraph;
}

namespace lockstep::train {

struct RunPlan;
class Strategy;

/// What a device has computed in a step besides the training's state.
struct StepWork {
  struct Loss {
    Tensor mean;        ///< one element
    std::int64_t rows;  ///< samples that it is the mean of
  };
  std::vector<Loss> losses;  ///< of this rank's parts of the batch
  UpdateFigures update;
  double flops = 0, nominal_flops = 0;  ///< StepTimes'

  void clear();
};

/// run.graphs: the device's work of a training step, captured after a few plain steps and replayed
/// from then on, with the same bits (DeviceGraph). Where it cannot be captured, steps stay plain,
/// and the log says why in one sentence. Local.
class StepGraph {
 public:
  /// Enqueues the device's work of a step on `batch`, and notes results in `done`. All that changes
  /// from step to step it takes from the batch, the RandomContextGuard and the optimizer's options.
  using Work = std::function<void(const Batch& batch, StepWork& done)>;

  /// `data`: that of the batches. `ranks`: of the whole training.
  StepGraph(const RunPlan& plan, const Dataset& data, int ranks, const Strategy& strategy);
  ~StepGraph();
  StepGraph(const StepGraph&) = delete;
  StepGraph& operator=(const StepGraph&) = delete;

  /// Whether this batch is for replay(), or else for run(): the work is captured, and the batch has
  /// train.batch_size samples. Smaller ones run plainly.
  [[nodiscard]] bool replays(const Batch& batch) const noexcept;
  /// Both return results that are valid until the next call. `step`: its number, for the log.
  const StepWork& run(const Batch& batch, std::int64_t step, const Work& work);
  const StepWork& replay(const Batch& batch);

 private:
  [[nodiscard]] bool is_whole(const Batch& batch) const noexcept;
  /// False if the work cannot be captured.
  bool capture(const Batch& batch, std::int64_t step, const Work& work);

  std::int64_t batch_size_;
  std::unique_ptr<DeviceGraph> graph_;  ///< null: all steps are plain
  std::int64_t plain_steps_ = 0;        ///< so far, of whole batches
  Batch input_;                         ///< what replays read
  StepWork plain_, captured_;
};

}  // namespace lockstep::train
