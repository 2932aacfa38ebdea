#include <lockstep/train/strategy/pipeline_strategy.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/mode_guard.hpp>
#include <lockstep/nn/module_list.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/tensor/found_inf.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/report/device_spans.hpp>
#include <lockstep/train/report/step_clock.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/task/task.hpp>

namespace lockstep::train {
namespace {

PipelineSchedule schedule_of(const PipelineDeckOptions& options, int ranks) {
  using Schedule = PipelineDeckOptions::Schedule;
  constexpr int microbatches_a_rank = 4;
  const int microbatches = options.microbatches > 0 ? static_cast<int>(options.microbatches)
                                                    : microbatches_a_rank * ranks;
  switch (options.schedule) {
    case Schedule::gpipe:
      return gpipe(ranks, microbatches);
    case Schedule::one_f_one_b:
      return one_f_one_b(ranks, microbatches);
    case Schedule::interleaved_1f1b:
      return interleaved_1f1b(ranks, static_cast<int>(options.stages_per_rank), microbatches);
    case Schedule::zero_bubble_h1:
      return zero_bubble_h1(ranks, microbatches);
  }
  return one_f_one_b(ranks, microbatches);
}

int stages_in(const PipelineSchedule& schedule) {
  return static_cast<int>(schedule.rank_of_stage.size());
}

/// The first sample of the training set, by which stages are balanced.
Batch one_sample(const Task& task) {
  const Dataset& data = *task.data().train;
  Batch batch(data, 1);
  const std::int64_t first = 0;
  batch.reset(std::span(&first, 1));
  data.load(std::span(&first, 1), batch);
  return batch;
}

PipelineStages cut(const Task& task, const PipelineSchedule& schedule, Device device,
                   const std::shared_ptr<nn::Module>& model) {
  return stages_of(model, stages_in(schedule), one_sample(task).inputs().to(device));
}

/// Throws InputError if all that the rank holds is frozen.
void expect_trained(const PipelineStages& stages, const PipelineSchedule& schedule, int rank) {
  const auto is_trained = [](const std::shared_ptr<nn::Module>& stage) {
    return !stage->trained_parameters().empty();
  };
  if (std::ranges::any_of(stages.of_rank(schedule, rank), is_trained)) return;
  throw InputError(fmt::format(
      "model.freeze leaves rank {} of mesh.pp = {} no parameter to train. Use fewer ranks in "
      "mesh.pp, or freeze less.",
      rank, schedule.ranks()));
}

}  // namespace

PipelineStrategy::PipelineStrategy(const std::shared_ptr<nn::Module>& model, const Task& task,
                                   const RunPlan& plan, const RankGroups& ranks)
    : Strategy(model->parameter_count()), task_(task), all_(ranks.all) {
  const PipelineSchedule schedule = schedule_of(plan.pipeline, ranks.stages->size());
  RunPlan own_plan = plan;
  std::vector<nn::NamedParameter> trained;
  {
    const MemoryLabel label("model and gradients");
    stages_ = cut(task, schedule, plan.device, model);
    if (ranks.tensor) tensor_parallelize(*model, stages_, ranks.tensor);
    const auto own = stages_.of_rank(schedule, ranks.stages->rank());
    auto list = std::make_shared<nn::ModuleList>();
    for (const auto& stage : own) list->push_back(stage);
    model_ = std::move(list);
    if (ranks.data->size() > 1) {
      for (const auto& stage : own)
        replicas_.push_back(std::make_shared<DistributedDataParallel>(stage, ranks.data, plan.ddp));
    }
    pipeline_ = std::make_unique<Pipeline>(
        own, ranks.stages, schedule,
        [this](const Variable& x, const Tensor& /*target*/, const Microbatch& rows) {
          const Batch batch = batch_->slice(rows.begin, rows.end);
          return task_.loss(task_.forward_from_stages(stages_, x, batch), batch);
        },
        PipelineOptions{.tied = stages_.tied, .data_parallel = replicas_});
    trained = pipeline_->named_parameters();
    std::erase_if(trained, [](const auto& p) { return !p.variable.requires_grad(); });
    own_plan.optimizer =
        optim::options_of_part(plan.optimizer, model->trained_parameters(), trained);
    stages_.modules = own;  // the others' are dropped
    if (!pipeline_->has_last_stage()) stages_.head.reset();
  }
  const StateDict state = pipeline_->state_dict();
  if (ranks.tensor) slabs_norm_.emplace(pipeline_->counted_parameters(), state, ranks.tensor);
  ZeroRedundancyOptimizer::Parts parts{.ddps = {},
                                       .trained = std::move(trained),
                                       .state = state,
                                       .whole = pipeline_->tied_parameters()};
  for (const auto& replica : replicas_) parts.ddps.push_back(replica.get());
  optimizer_.emplace(own_plan, std::move(parts));
  slots_.emplace(*ranks.stages, optimizer().state_dict());
}

PipelineStrategy::~PipelineStrategy() = default;

StateDict PipelineStrategy::optimizer_state_dict() const {
  return slots_->of_all(optimizer().state_dict());
}

void PipelineStrategy::load_optimizer_state_dict(const StateDict& state) {
  optimizer().load_state_dict(slots_->own_of(state));
}

GradientSumStats PipelineStrategy::stats() const {
  const PipelineStats own = pipeline_->stats();
  GradientSumStats all;
  all.wait_s = own.wait_s + own.tied_wait_s;
  for (const auto& replica : replicas_) {
    const GradientSumStats sums = replica->stats();
    all.wait_s += sums.wait_s;
    all.work_s += sums.work_s;
    all.straggler_s += sums.straggler_s;
    all.buckets += sums.buckets;
  }
  return all;
}

void PipelineStrategy::zero_grad() {
  for (const auto& replica : replicas_) replica->zero_grad();
  if (replicas_.empty()) model_->zero_grad();
}

Tensor PipelineStrategy::run(const Pass& pass) {
  batch_ = &pass.batch;
  pipeline_->set_random_context(pass.random);
  const double waited_before = stats().wait_s;
  std::optional<Pipeline::NoSync> local;
  if (!pass.is_last) local.emplace(*pipeline_);
  // The sum over replicas is their mean.
  const double replicas = replicas_.empty() ? 1.0 : replicas_.front()->group().size();
  double mean = 0;
  {
    const StepClock::Phase phase(pass.times.backward, "pipeline");
    const DeviceSpans::Span span(pass.spans, "pipeline");
    mean = pipeline_->step(pass.batch.inputs(), pass.batch.targets(), replicas * pass.weight,
                           pass.loss_scale);
  }
  pass.times.backward -= stats().wait_s - waited_before;
  return pass.batch.size() > 0 ? Tensor::from(std::vector<double>{mean}, {1}) : Tensor();
}

void PipelineStrategy::agree_on_found_inf(optim::GradScaler& scaler) {
  lockstep::agree_on_found_inf(scaler, optimizer(), all_);
}

optim::Clipping PipelineStrategy::clip_gradients(const optim::OptimizerOptions& options) {
  return optim::clip_gradients(options, optimizer_->parameters(), [&](const Tensor& norm) {
    norm.fill(slabs_norm_ ? pipeline_->grad_norm(slabs_norm_->norm()) : pipeline_->grad_norm());
  });
}

void PipelineStrategy::broadcast_buffers() {
  for (const auto& replica : replicas_) replica->broadcast_buffers();
}

Variable PipelineStrategy::evaluate(const Batch& batch) {
  const Tensor output = pipeline_->forward(batch.inputs());
  if (!output.defined()) return {};
  return task_.forward_from_stages(stages_, Variable(output), batch);
}

void expect_stages_fit(const Task& task, const RunPlan& plan, std::int64_t pp,
                       const std::shared_ptr<nn::Module>& model) {
  const PipelineSchedule schedule = schedule_of(plan.pipeline, static_cast<int>(pp));
  const PipelineStages stages = cut(task, schedule, {}, model);
  for (int rank = 0; rank < static_cast<int>(pp); ++rank) expect_trained(stages, schedule, rank);
  const NoGradGuard no_grad;
  const nn::ModeGuard evaluating(*model, false);
  const Batch batch = one_sample(task);
  Variable x(batch.inputs());
  for (const auto& stage : stages.modules) x = (*stage)(x);
  const auto values = [](const Variable& output) {
    return output.data().to(DType::f64).to_vector<double>();
  };
  const auto whole = values(task.forward(*model, batch)),
             cut_up = values(task.forward_from_stages(stages, x, batch));
  const auto is_near = [](double a, double b) {
    return !(std::abs(a - b) > 1e-3 * (1 + std::abs(a)));
  };
  if (std::ranges::equal(whole, cut_up, is_near)) return;
  throw InputError(
      "mesh.pp runs the model's layers one after the other, but this task's forward() does more. "
      "Set mesh.pp = 1, or override Task::forward_from_stages.");
}

}  // namespace lockstep::train
