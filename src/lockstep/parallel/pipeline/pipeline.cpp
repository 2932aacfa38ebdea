#include <lockstep/parallel/pipeline/pipeline.hpp>

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/pipeline/pipeline_checks.hpp>
#include <lockstep/parallel/pipeline/stage_executor.hpp>
#include <lockstep/parallel/pipeline/tied_parameters.hpp>

namespace lockstep {

struct Pipeline::Parts {
  Parts(std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule,
        const std::vector<std::shared_ptr<nn::Module>>& modules, Loss loss,
        const PipelineOptions& options);

  StageExecutor executor;
  std::vector<std::shared_ptr<DistributedDataParallel>> data_parallel;
  TiedParameters tied;
  std::optional<nn::RandomContext> random;
  bool syncs = true;       ///< outside no_sync()
  bool has_summed = true;  ///< gradients that are there are the same wherever they are summed
  bool failed = false;

  /// The arguments of a call of this kind; `target` null: it is not needed.
  [[nodiscard]] StageExecutor::Batch agreed_batch(const Tensor& input, const Tensor* target);
  void train_on(const StageExecutor::Batch& batch);
  [[nodiscard]] double shared_loss();
  /// Runs a part of a call; if it throws, the pipeline cannot go on.
  template <class Part>
  void run(const Part& part) {
    failed = true;
    part();
    failed = false;
  }
};

Pipeline::Parts::Parts(std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule,
                       const std::vector<std::shared_ptr<nn::Module>>& modules, Loss loss,
                       const PipelineOptions& options)
    : executor(std::move(group), std::move(schedule), modules, std::move(loss)),
      data_parallel(options.data_parallel),
      tied(
          executor.group(), executor.schedule().rank_of_stage,
          [this](const StageParameter& wanted) {
            for (const auto& [name, variable] :
                 executor.stage(wanted.stage).module->named_parameters()) {
              if (name == wanted.name) return variable;
            }
            return Variable();
          },
          options.tied) {}

StageExecutor::Batch Pipeline::Parts::agreed_batch(const Tensor& input, const Tensor* target) {
  if (failed) {
    throw Error(
        "Pipeline: an earlier call ended with an exception, so this pipeline cannot go on: its "
        "ranks may have got to different places. Make another one, on a new group.");
  }
  const bool has_first = executor.has_stage(0);
  const bool has_last = executor.has_stage(executor.last_stage());
  StageExecutor::Batch batch;
  batch.rows =
      agreed_rows(executor.group(), has_first ? &input : nullptr, has_last ? target : nullptr);
  batch.input = input;
  if (target) batch.target = *target;
  batch.random = random;
  return batch;
}

void Pipeline::Parts::train_on(const StageExecutor::Batch& batch) {
  tied.begin(has_summed);
  {
    std::vector<std::unique_ptr<DistributedDataParallel::NoSync>> local;
    for (const auto& ddp : data_parallel)
      local.push_back(std::make_unique<DistributedDataParallel::NoSync>(*ddp));
    executor.run(batch);
  }
  has_summed = syncs;
  if (!syncs) return;
  for (const auto& ddp : data_parallel) ddp->backward({}, 0.0);
  tied.sum();
}

double Pipeline::Parts::shared_loss() {
  const CallLabel label("loss of the pipeline");
  const Tensor loss = Tensor::full({}, executor.loss(), DType::f64);
  executor.group().broadcast(loss, executor.rank_of(executor.last_stage())).wait();
  return loss.item();
}

Pipeline::Pipeline(std::vector<std::shared_ptr<nn::Module>> stages,
                   std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule, Loss loss,
                   const PipelineOptions& options) {
  if (!group) throw InputError("Pipeline: the group is a null pointer.");
  expect_executable(*group, schedule, stages, static_cast<bool>(loss), options);
  parts_ = std::make_unique<Parts>(std::move(group), std::move(schedule), stages, std::move(loss),
                                   options);
}

Pipeline::~Pipeline() = default;

Pipeline::NoSync::NoSync(Pipeline& pipeline) noexcept
    : pipeline_(pipeline), before_(std::exchange(pipeline.parts_->syncs, false)) {}

Pipeline::NoSync::~NoSync() { pipeline_.parts_->syncs = before_; }

void Pipeline::set_random_context(const std::optional<nn::RandomContext>& context) {
  parts_->random = context;
}

double Pipeline::step(const Tensor& input, const Tensor& target, double weight) {
  StageExecutor::Batch batch = parts_->agreed_batch(input, &target);
  batch.records = true;
  batch.weight = weight;
  double loss = 0.0;
  parts_->run([&] {
    parts_->train_on(batch);
    loss = parts_->shared_loss();
  });
  return loss;
}

double Pipeline::evaluate(const Tensor& input, const Tensor& target) {
  const StageExecutor::Batch batch = parts_->agreed_batch(input, &target);
  double loss = 0.0;
  parts_->run([&] {
    parts_->executor.run(batch);
    loss = parts_->shared_loss();
  });
  return loss;
}

Tensor Pipeline::forward(const Tensor& input) {
  StageExecutor::Batch batch = parts_->agreed_batch(input, nullptr);
  batch.keeps_output = true;
  Tensor output;
  parts_->run([&] {
    parts_->executor.run(batch);
    output = parts_->executor.output();
  });
  return output;
}

void Pipeline::forget_shapes() noexcept { parts_->executor.forget_shapes(); }

std::vector<nn::NamedParameter> Pipeline::named_parameters() const {
  std::vector<nn::NamedParameter> all;
  std::set<std::string> names;
  for (const bool numbered : {false, true}) {
    all.clear();
    names.clear();
    for (const auto& stage : parts_->executor.stages()) {
      const std::string prefix = numbered ? fmt::format("stage{}.", stage.number) : "";
      for (const auto& [name, variable] : stage.module->named_parameters()) {
        const auto is_it = [record = variable.record()](const nn::NamedParameter& one) {
          return one.variable.record() == record;
        };
        if (std::ranges::any_of(all, is_it)) continue;
        all.push_back({prefix + name, variable});
        names.insert(prefix + name);
      }
    }
    if (names.size() == all.size()) break;
  }
  return all;
}

const PipelineSchedule& Pipeline::schedule() const noexcept { return parts_->executor.schedule(); }
bool Pipeline::has_first_stage() const noexcept { return parts_->executor.has_stage(0); }
bool Pipeline::has_last_stage() const noexcept {
  return parts_->executor.has_stage(parts_->executor.last_stage());
}
void Pipeline::train(bool on) {
  for (const auto& stage : parts_->executor.stages()) stage.module->train(on);
}
void Pipeline::close() { parts_->tied.close(); }

}  // namespace lockstep
