#include "scaling/model/rehearsal.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/parallel/comm_hook.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/tensor/layout_guard.hpp>
#include <lockstep/tensor/math_libraries.hpp>

#include "scaling/analysis.hpp"

namespace lockstep::scaling {
namespace {

/// Sends of a hook in one pass.
struct Pass {
  struct Sent {
    double at_s;  ///< from the beginning of backward
    double bytes;
  };
  Clock::time_point begun = Clock::now();
  std::vector<std::vector<Sent>> rounds;
  double within_s = 0, after_s = 0;  ///< the hook's own work in backward, and after it
  double seconds = 0;                ///< of backward, with the former and without the latter
};

/// Another hook, watched.
class WatchedHook final : public CommHook {
 public:
  WatchedHook(std::unique_ptr<CommHook> hook, std::shared_ptr<const FakeGroup> group)
      : hook_(std::move(hook)), group_(std::move(group)) {}

  [[nodiscard]] std::string name() const override { return hook_->name(); }
  void prepare(ProcessGroup& group, std::span<const Bucket> buckets) override {
    hook_->prepare(group, buckets);
  }
  [[nodiscard]] Work start(ProcessGroup& group, const Bucket& bucket, std::size_t index) override {
    hook_->set_step(step());
    return watched(0, [&] { return hook_->start(group, bucket, index); });
  }
  [[nodiscard]] int rounds() const override {
    hook_->set_step(step());
    return hook_->rounds();
  }
  [[nodiscard]] Work next_round(ProcessGroup& group, const Bucket& bucket, std::size_t index,
                                int round) override {
    return watched(static_cast<std::size_t>(round),
                   [&] { return hook_->next_round(group, bucket, index, round); });
  }
  void finish(const Bucket& bucket, std::size_t index) override {
    const auto start = Clock::now();
    hook_->finish(bucket, index);
    pass_.after_s += seconds_since(start);
  }

  void begin_pass() { pass_ = {}; }
  [[nodiscard]] Pass end_pass() {
    pass_.seconds = seconds_since(pass_.begun) - pass_.after_s;
    return std::exchange(pass_, {});
  }

 private:
  template <class Call>
  Work watched(std::size_t round, const Call& call) {
    const auto start = Clock::now();
    const std::int64_t before = group_->traffic().bytes;
    Work work = call();
    (round == 0 ? pass_.within_s : pass_.after_s) += seconds_since(start);
    pass_.rounds.resize(std::max(pass_.rounds.size(), round + 1));
    pass_.rounds[round].push_back({std::chrono::duration<double>(start - pass_.begun).count(),
                                   static_cast<double>(group_->traffic().bytes - before)});
    return work;
  }

  std::unique_ptr<CommHook> hook_;
  std::shared_ptr<const FakeGroup> group_;
  Pass pass_;
};

void expect_modelled(const train::RunPlan& plan, nn::Module& model) {
  std::string what;
  if (plan.run.device != "auto" && plan.run.device != "cpu")
    what = "run.device = \"" + plan.run.device + "\": gradients of the host are rehearsed";
  if (plan.train.reduction == train::TrainOptions::Reduction::invariant)
    what = "train.reduction = \"invariant\" sums over shards";
  if (plan.ddp.comm_hook == CommHookKind::post_local_sgd)
    what = "ddp.comm_hook = \"post_local_sgd\" averages parameters now and then";
  if (plan.ddp.broadcast_buffers_each_forward)
    what = "ddp.broadcast_buffers_each_forward sends buffers in every step";
  if (plan.ddp.sync_batch_norm || model.forward_is_collective())
    what = "the model's synchronised layers send in forward";
  const train::MeshOptions& mesh = plan.mesh;
  if (mesh.pp != 1 || mesh.fsdp != 1 || mesh.cp != 1 || mesh.tp != 1)
    what = "[mesh] shares out more than the samples of a batch (mesh.dp)";
  if (plan.train.zero > 0)
    what = fmt::format("train.zero = {} gathers and scatters parameters", plan.train.zero);
  if (!what.empty()) throw InputError("this is not modelled: " + what);
}

Batch first_samples(const Dataset& data, std::int64_t samples) {
  std::vector<std::int64_t> numbers(
      static_cast<std::size_t>(std::clamp<std::int64_t>(samples, 1, data.size())));
  std::iota(numbers.begin(), numbers.end(), std::int64_t{0});
  Batch batch(data, std::ssize(numbers));
  batch.reset(numbers);
  data.load(numbers, batch);
  return batch;
}

/// Each fraction is the median over the passes.
GradientPlan plan_of(const std::vector<Pass>& passes) {
  const auto median = [&](const auto& fraction) {
    std::vector<double> values;
    for (const Pass& pass : passes) values.push_back(fraction(pass) / pass.seconds);
    return scatter_of(std::move(values)).median;
  };
  GradientPlan plan;
  const auto& rounds = passes.front().rounds;
  for (std::size_t r = 0; r < rounds.size(); ++r) {
    auto& messages = plan.rounds.emplace_back();
    for (std::size_t i = 0; i < rounds[r].size(); ++i) {
      const double ready = median([&](const Pass& pass) { return pass.rounds[r][i].at_s; });
      messages.push_back({r == 0 ? std::min(1.0, ready) : 1.0, rounds[r][i].bytes});
    }
  }
  plan.hook_within = median([](const Pass& pass) { return pass.within_s; });
  plan.hook_after = median([](const Pass& pass) { return pass.after_s; });
  return plan;
}

}  // namespace

GradientPlan rehearse(const train::Task& task, const train::RunPlan& plan, int ranks,
                      std::int64_t samples) {
  constexpr int settling = 2, passes = 5;
  set_math_threads(std::max(1, static_cast<int>(plan.run.threads)));
  const Autocast autocast(plan.train.precision);
  const LayoutGuard layout(plan.run.layout);
  nn::manual_seed(plan.train.seed);
  const auto group = std::make_shared<FakeGroup>(ranks, 0);
  const auto model = task.make_model();
  expect_modelled(plan, *model);
  auto hook = std::make_shared<WatchedHook>(make_comm_hook(plan.ddp), group);
  DistributedDataParallel ddp(model, group, plan.ddp, hook);
  const Batch batch = first_samples(*task.data().train, samples);
  std::vector<Pass> watched;
  for (int pass = 0; pass < settling + passes; ++pass) {
    const nn::RandomContextGuard random(
        {plan.train.seed, static_cast<std::uint32_t>(pass), std::int64_t{0}});
    ddp.zero_grad();
    const Variable output =
        ddp.forward([&](nn::Module& module) { return task.forward(module, batch); });
    const Variable loss = task.loss(output, batch);
    hook->begin_pass();
    ddp.backward(loss, 1.0 / ranks);
    Pass done = hook->end_pass();
    if (pass >= settling) watched.push_back(std::move(done));
  }
  ddp.group().close();
  return plan_of(watched);
}

}  // namespace lockstep::scaling
