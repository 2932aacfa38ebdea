#include <lockstep/parallel/pipeline/pipeline.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

#include <lockstep/base/error.hpp>
#include <lockstep/base/failure.hpp>
#include <lockstep/base/host.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/comm/call_label.hpp>
#include <lockstep/comm/revocation.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/found_inf.hpp>
#include <lockstep/parallel/pipeline/pipeline_checks.hpp>
#include <lockstep/parallel/pipeline/pipeline_state.hpp>
#include <lockstep/parallel/pipeline/stage_executor.hpp>
#include <lockstep/parallel/pipeline/stage_names.hpp>
#include <lockstep/parallel/pipeline/tied_parameters.hpp>

namespace lockstep {

struct Pipeline::Parts {
  Parts(std::shared_ptr<ProcessGroup> group, PipelineSchedule schedule,
        const std::vector<std::shared_ptr<nn::Module>>& modules, Loss loss,
        const PipelineOptions& options);

  StageExecutor executor;
  std::vector<std::shared_ptr<DistributedDataParallel>> data_parallel;
  TiedParameters tied;
  StageNames names;
  bool sharded;                        ///< a stage is
  std::optional<PipelineState> state;  ///< unless one is
  std::vector<bool> used;              ///< of names.parameters()
  Revocation revocation;
  std::vector<std::unique_ptr<Revocation>> of_replicas;
  std::function<bool()> question;
  bool any_said_yes = false;
  std::optional<nn::RandomContext> random;
  bool syncs = true;       ///< outside no_sync()
  bool has_summed = true;  ///< gradients that are there are the same wherever they are summed
  bool failed = false;
  bool closed = false;

  /// The arguments of a call of this kind; `target` null: it is not needed.
  [[nodiscard]] StageExecutor::Batch agreed_batch(const Tensor& input, const Tensor* target,
                                                  bool asks = false);
  void train_on(const StageExecutor::Batch& batch);
  [[nodiscard]] double shared_loss();
  /// Runs a part of a call; if it throws, the pipeline cannot go on.
  template <class Part>
  void run(const Part& part) {
    failed = true;
    try {
      part();
    } catch (...) {
      tell_the_others(current_failure());
      throw;
    }
    failed = false;
  }
  /// Ends the waits of ranks that wait for this one.
  void tell_the_others(const Failure& failure) noexcept;
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
          options.tied),
      names(executor, options.tied),
      sharded(std::ranges::any_of(modules, [](const auto& one) { return is_sharded(*one); })),
      used(names.parameters().size(), false),
      revocation(executor.group()) {
  for (const auto& ddp : data_parallel) {
    const auto same = [&](const auto& other) { return &other->group() == &ddp->group(); };
    if (std::ranges::find_if(data_parallel, same)->get() == ddp.get())
      of_replicas.push_back(std::make_unique<Revocation>(ddp->group()));
  }
  // All ranks take part, whatever their stages are.
  state.emplace(executor.group(), sharded ? StateDict() : names.state_of(executor));
}

void Pipeline::Parts::tell_the_others(const Failure& failure) noexcept {
  const ProcessGroup& group = executor.group();
  const std::string where = executor.position();
  const std::string reason =
      fmt::format("rank {} of {} ({}) left the pipeline's step{}{}: {}", group.rank(), group.size(),
                  host_name(), where.empty() ? "" : " in ", where, failure.message);
  revocation.revoke(reason);
  tied.revoke(reason);
  for (const auto& replicas : of_replicas) replicas->revoke(reason);
}

StageExecutor::Batch Pipeline::Parts::agreed_batch(const Tensor& input, const Tensor* target,
                                                   bool asks) {
  if (failed) {
    throw Error(
        "Pipeline: an earlier call ended with an exception, so this pipeline cannot go on: its "
        "ranks may have got to different places. Make another one, on a new group.");
  }
  if (closed) throw Error("Pipeline: it was closed. Make another one.");
  const bool has_first = executor.has_stage(0);
  const bool has_last = executor.has_stage(executor.last_stage());
  StageExecutor::Batch batch;
  const AgreedBatch agreed = [&] {
    try {
      return lockstep::agreed_batch(executor.group(), has_first ? &input : nullptr,
                                    has_last ? target : nullptr, asks && question && question());
    } catch (const CommError&) {  // a rank that is ahead may have left already
      failed = true;
      throw;
    }
  }();
  if (asks) any_said_yes = agreed.any_said_yes;
  batch.rows = agreed.rows;
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
  for (std::size_t i = 0; i < used.size(); ++i)
    used[i] = used[i] || names.parameters()[i].variable.grad().defined();
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

double Pipeline::step(const Tensor& input, const Tensor& target, double weight,
                      const Tensor& loss_scale) {
  StageExecutor::Batch batch = parts_->agreed_batch(input, &target, true);
  batch.records = true;
  batch.weight = weight;
  batch.loss_scale = loss_scale;
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

std::vector<Microbatch> Pipeline::microbatches(std::int64_t rows) const {
  return cut_into_microbatches(rows, schedule().microbatches);
}

const std::vector<nn::NamedParameter>& Pipeline::named_parameters() const noexcept {
  return parts_->names.parameters();
}

StateDict Pipeline::state_dict() const {
  if (parts_->sharded) {
    throw Error(
        "Pipeline: the stages are sharded, so their modules do not hold their parameters. Make a "
        "PipelineState of each FullyShardedDataParallel's state_dict().");
  }
  return parts_->state->of_all(parts_->names.state_of(parts_->executor));
}

void Pipeline::load_state_dict(const StateDict& state) {
  const StateDict own = parts_->names.state_of(parts_->executor);
  copy_state(parts_->state->own_of(state), own);
}

double Pipeline::grad_norm() { return grad_norm(optim::grad_norm(counted_parameters())); }

double Pipeline::grad_norm(double own) {
  const CallLabel label("norm of the pipeline's gradients");
  ProcessGroup& group = parts_->executor.group();
  const Tensor all = Tensor::empty({group.size(), 1}, DType::f64);
  group.all_gather(Tensor::full({1}, own, DType::f64), all).wait();
  double norm = 0.0;
  for (const double part : all.to_vector<double>()) norm = std::hypot(norm, part);
  return norm;
}

std::vector<nn::NamedParameter> Pipeline::counted_parameters() const {
  std::vector<nn::NamedParameter> counted = named_parameters();
  std::erase_if(counted, [&](const nn::NamedParameter& one) {
    return parts_->tied.is_of_earlier_stage(one.variable);
  });
  return counted;
}

std::vector<Variable> Pipeline::tied_parameters() const { return parts_->tied.parameters(); }

void Pipeline::agree_on_found_inf() {
  lockstep::agree_on_found_inf("Pipeline", {&parts_->executor.group()}, named_parameters());
}

void Pipeline::ask_along(std::function<bool()> question) { parts_->question = std::move(question); }

bool Pipeline::any_said_yes() const noexcept { return parts_->any_said_yes; }

PipelineStats Pipeline::stats() const noexcept {
  return {.wait_s = parts_->executor.waited_s(), .tied_wait_s = parts_->tied.waited_s()};
}

std::vector<std::string> Pipeline::never_used() const {
  const auto told = [&] {
    std::vector<std::vector<std::string>> names(2);  // used here, and not
    for (std::size_t i = 0; i < parts_->used.size(); ++i) {
      const auto& [name, variable] = named_parameters()[i];
      const auto has_it = [&, record = variable.record()](const auto& ddp) {
        const auto unused = ddp->never_used();
        return std::ranges::any_of(ddp->module().named_parameters(), [&](const auto& one) {
          return one.variable.record() == record &&
                 std::ranges::find(unused, one.name) == unused.end();
        });
      };
      if (!variable.requires_grad()) continue;
      const bool is_used = parts_->used[i] || std::ranges::any_of(parts_->data_parallel, has_it);
      names[is_used ? 0 : 1].push_back(name);
    }
    return names;
  };
  const auto all = agree(parts_->executor.group(), told);
  std::set<std::string> used;
  for (const auto& of_rank : all) used.insert(of_rank[0].begin(), of_rank[0].end());
  std::vector<std::string> unused;
  for (const auto& of_rank : all) {
    for (const std::string& name : of_rank[1]) {
      if (used.insert(name).second) unused.push_back(name);
    }
  }
  return unused;
}

const PipelineSchedule& Pipeline::schedule() const noexcept { return parts_->executor.schedule(); }
bool Pipeline::has_last_stage() const noexcept {
  return parts_->executor.has_stage(parts_->executor.last_stage());
}
void Pipeline::train(bool on) {
  for (const auto& stage : parts_->executor.stages()) stage.module->train(on);
}
void Pipeline::close() {
  parts_->closed = true;
  parts_->tied.close();
  parts_->of_replicas.clear();
}

}  // namespace lockstep
