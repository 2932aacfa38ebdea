#include <lockstep/train/run/rank_groups.hpp>

#include <fmt/format.h>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/train/run/run_plan.hpp>

namespace lockstep::train {

MeshOptions fitted(const MeshOptions& options, int ranks) {
  const auto dims = fit_mesh(dims_of(options), ranks);
  return {.dp = dims[0].size, .tp = dims[1].size};
}

RankGroups make_rank_groups(std::shared_ptr<ProcessGroup> all, const MeshOptions& options) {
  expect_given("Trainer", "the process group", all);
  const MeshOptions sizes = fitted(options, all->size());
  RankGroups groups{.all = all, .data = all, .tensor = nullptr};
  if (sizes.tp == 1) return groups;
  DeviceMesh mesh(all, dims_of(sizes));
  groups.data = mesh.group("dp");
  groups.tensor = mesh.group("tp");
  return groups;
}

void divide_for_check(const RunPlan& plan, const MeshOptions& sizes, nn::Module& model) {
  if (sizes.tp == 1) return;
  const auto refuse = [](const char* what, const char* remedy) {
    throw InputError(fmt::format("{} does not go together with mesh.tp: {}", what, remedy));
  };
  if (!plan.train.init_from.empty()) {
    refuse("train.init_from",
           "each rank holds parts of the model's tensors. Start with mesh.tp = 1, save, and resume "
           "from that checkpoint with mesh.tp");
  }
  if (plan.train.precision == Precision::fp16) {
    refuse("train.precision = \"fp16\"",
           "ranks that share out the model would have to skip the same steps. Use bf16 or f32");
  }
  if (plan.ddp.comm_hook == CommHookKind::power_sgd ||
      plan.ddp.comm_hook == CommHookKind::post_local_sgd) {
    refuse("this ddp.comm_hook", "set \"all_reduce\", \"bf16_compress\" or \"fp16_compress\"");
  }
  tensor_parallelize(model, std::make_shared<FakeGroup>(static_cast<int>(sizes.tp), 0));
  if (!optim::make_optimizer(plan.optimizer, model.trained_parameters())->is_elementwise()) {
    refuse("this optimizer.kind",
           "its trust ratios are norms of whole parameters. Use an optimizer such as adamw");
  }
}

}  // namespace lockstep::train
