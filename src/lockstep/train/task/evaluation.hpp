#pragma once
#include <cstdint>
#include <memory>

#include <lockstep/data/batches/batch_plan.hpp>
#include <lockstep/tensor/device.hpp>
#include <lockstep/train/task/outcome.hpp>

namespace lockstep {
class Dataset;
class Loader;
class ProcessGroup;
namespace nn {
class Module;
}
}  // namespace lockstep

namespace lockstep::train {

class Task;

/// Measures models on one data set, which the ranks share out by batches: loss and metrics of a
/// task, the same bits for any number of ranks.
class Evaluator {
 public:
  /// `task` must live as long. The models will be on `device`.
  Evaluator(std::shared_ptr<ProcessGroup> group, const Task& task,
            std::shared_ptr<const Dataset> data, std::int64_t batch_size, Device device = {});
  ~Evaluator();

  /// In evaluation mode; the mode of each module is put back. Collective.
  [[nodiscard]] Evaluation operator()(nn::Module& model);

 private:
  std::shared_ptr<ProcessGroup> group_;
  const Task& task_;
  std::shared_ptr<const Dataset> data_;
  EvalPlan batches_;
  std::unique_ptr<Loader> loader_;
};

}  // namespace lockstep::train
