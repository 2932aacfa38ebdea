#include <lockstep/train/step_graph.hpp>

#include <exception>

#include <fmt/format.h>

#include <lockstep/base/log.hpp>
#include <lockstep/base/rank.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/runtime/caching_allocator.hpp>
#include <lockstep/train/run/run_plan.hpp>
#include <lockstep/train/strategy/strategy.hpp>

namespace lockstep::train {
namespace {

/// Plain steps before the capture: buffers and caches are made, and memory is in the pool.
constexpr std::int64_t warm_up_steps = 3;

/// Why steps of this plan are not captured; empty if they may be. The same on all ranks.
std::string obstacle(const RunPlan& plan, int ranks, const Strategy& strategy) {
  if (plan.device == Device{}) return "the host has no graphs";
  if (ranks > 1) return fmt::format("{} ranks exchange gradients by way of the host", ranks);
  if (!strategy.ddp() || plan.train.zero > 0) return "train.zero and [mesh] divide the model";
  if (!strategy.optimizer().is_capturable()) {
    return fmt::format("optimizer.kind = \"{}\" does not update element by element",
                       plan.optimizer.kind.name());
  }
  if (plan.ddp.comm_hook != CommHookKind::all_reduce) {
    return "ddp.comm_hook chooses on the host what it sends";
  }
  return "";
}

/// All ranks have the same reason, and one says it.
void say_plain(const std::string& reason) {
  if (rank_identity() != 0) return;
  log(LogLevel::info, fmt::format("run.graphs: steps run without a graph, as {}", reason));
}

}  // namespace

void StepWork::clear() {
  losses.clear();
  update = {.grad_norm = {}, .found_inf = {}, .loss_scale = {}};
  flops = nominal_flops = 0;
}

StepGraph::StepGraph(const RunPlan& plan, const Dataset& data, int ranks, const Strategy& strategy)
    : batch_size_(plan.train.batch_size) {
  if (!plan.run.graphs) return;
  if (const std::string reason = obstacle(plan, ranks, strategy); !reason.empty()) {
    say_plain(reason);
    return;
  }
  graph_ = std::make_unique<DeviceGraph>(plan.device);
  const MemoryLabel label("batches");
  input_ = Batch(data, batch_size_, plan.device);
}

StepGraph::~StepGraph() = default;

bool StepGraph::is_whole(const Batch& batch) const noexcept { return batch.size() == batch_size_; }

bool StepGraph::replays(const Batch& batch) const noexcept {
  return graph_ && graph_->is_captured() && is_whole(batch);
}

const StepWork& StepGraph::run(const Batch& batch, std::int64_t step, const Work& work) {
  if (graph_ && is_whole(batch)) {
    if (plain_steps_ == warm_up_steps) {
      if (capture(batch, step, work)) return replay(batch);
    } else {
      ++plain_steps_;
      graph_->warm_up([&] { work(batch, plain_); });
      return plain_;
    }
  }
  work(batch, plain_);
  return plain_;
}

const StepWork& StepGraph::replay(const Batch& batch) {
  input_.copy_from(batch);
  graph_->replay();
  return captured_;
}

bool StepGraph::capture(const Batch& batch, std::int64_t step, const Work& work) {
  graph_->warm_up([this] { plain_.clear(); });  // their memory goes back to the graph's pool
  input_.copy_from(batch);
  try {
    graph_->capture([&] { work(input_, captured_); });
  } catch (const std::exception& error) {
    captured_.clear();
    graph_.reset();
    input_ = {};
    say_plain(error.what());
    return false;
  }
  log(LogLevel::info,
      fmt::format("run.graphs: step {} is captured, and replayed from now on", step));
  return true;
}

}  // namespace lockstep::train
