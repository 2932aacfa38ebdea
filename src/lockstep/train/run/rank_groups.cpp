#include <lockstep/train/run/rank_groups.hpp>

#include <fmt/format.h>

#include <lockstep/base/expect_given.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/data/dataset.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer.hpp>
#include <lockstep/parallel/context/context_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/train/run/run_plan.hpp>

namespace lockstep::train {

std::vector<MeshDim> dims_of(const MeshOptions& options) {
  return {{"pp", static_cast<int>(options.pp)},
          {"dp", static_cast<int>(options.dp)},
          {"fsdp", static_cast<int>(options.fsdp)},
          {"cp", static_cast<int>(options.cp)},
          {"tp", static_cast<int>(options.tp)}};
}

MeshOptions fitted(const MeshOptions& options, int ranks) {
  const auto dims = fit_mesh(dims_of(options), ranks);
  return {.pp = dims[0].size,
          .dp = dims[1].size,
          .fsdp = dims[2].size,
          .cp = dims[3].size,
          .tp = dims[4].size};
}

std::int64_t parts_of_batch(const MeshOptions& options, int ranks) {
  const MeshOptions sizes = fitted(options, ranks);
  return sizes.dp * sizes.fsdp;
}

RankGroups make_rank_groups(std::shared_ptr<ProcessGroup> all, const MeshOptions& options) {
  expect_given("Trainer", "the process group", all);
  const MeshOptions sizes = fitted(options, all->size());
  RankGroups groups{.all = all, .batch = all, .data = all, .shards = all};
  auto dims = dims_of(sizes);
  std::erase_if(dims, [](const MeshDim& dim) { return dim.name != "dp" && dim.size == 1; });
  if (dims.size() == 1) return groups;
  DeviceMesh mesh(all, std::move(dims));
  // The ranks along those of these dimensions that the mesh has.
  const auto along = [&](std::vector<std::string_view> names) {
    std::erase_if(names, [&](std::string_view name) { return !mesh.has(name); });
    return names.size() == 1 ? mesh.group(names[0]) : mesh.flatten(names);
  };
  groups.batch = along({"dp", "fsdp"});
  groups.data = along({"dp", "fsdp", "cp"});
  groups.shards = mesh.has("fsdp") ? along({"fsdp", "cp"}) : groups.data;
  if (mesh.has("fsdp") && sizes.dp > 1) groups.replicas = mesh.group("dp");
  if (mesh.has("cp")) groups.sequence = mesh.group("cp");
  if (mesh.has("tp")) groups.tensor = mesh.group("tp");
  if (mesh.has("pp")) groups.stages = mesh.group("pp");
  return groups;
}

int RankGroups::sequence_parts() const noexcept { return sequence ? sequence->size() : 1; }

Batch RankGroups::own_slice(const Batch& batch) const {
  if (!sequence) return batch;
  return batch.mapped([&](const Tensor& tokens) {
    return sequence_slice(tokens, sequence->rank(), sequence->size(), SequenceOrder::zigzag);
  });
}

void divide(nn::Module& model, const RankGroups& ranks) {
  if (ranks.tensor) tensor_parallelize(model, ranks.tensor);
  if (ranks.sequence) context_parallel(model, ranks.sequence, SequenceOrder::zigzag);
}

namespace {

void refuse(const char* key, const char* what, const char* remedy) {
  throw InputError(fmt::format("{} does not go together with {}: {}", what, key, remedy));
}

void expect_sequences_divide(const RunPlan& plan, const MeshOptions& sizes, const Dataset& data,
                             const nn::Module& model) {
  if (plan.train.reduction == TrainOptions::Reduction::invariant) {
    refuse("mesh.cp", "train.reduction = \"invariant\"",
           "its sums go over shards of samples. Use train.reduction = \"fast\"");
  }
  if (!dynamic_cast<const nn::Gpt*>(&model)) {
    throw InputError(
        "context parallelism shares out the tokens of model.kind = \"gpt\". Set mesh.cp = 1 for "
        "other models");
  }
  const std::int64_t length = data.sample_shape()[0], parts = 2 * sizes.cp;
  if (length % parts == 0) return;
  throw InputError(fmt::format(
      "mesh.cp = {}: each rank takes two equal parts of a sequence, so data.context = {} "
      "must be a multiple of {}",
      sizes.cp, length, parts));
}

}  // namespace

void divide_for_check(const RunPlan& plan, const MeshOptions& sizes, const Dataset& data,
                      nn::Module& model) {
  if (sizes.cp > 1) expect_sequences_divide(plan, sizes, data, model);
  if (sizes.tp == 1) return;
  if (plan.ddp.comm_hook == CommHookKind::power_sgd ||
      plan.ddp.comm_hook == CommHookKind::post_local_sgd) {
    refuse("mesh.tp", "this ddp.comm_hook",
           "set \"all_reduce\", \"bf16_compress\" or \"fp16_compress\"");
  }
  tensor_parallelize(model, std::make_shared<FakeGroup>(static_cast<int>(sizes.tp), 0));
  if (!optim::make_optimizer(plan.optimizer, model.trained_parameters())->is_elementwise()) {
    refuse("mesh.tp", "this optimizer.kind",
           "its trust ratios are norms of whole parameters. Use an optimizer such as adamw");
  }
}

}  // namespace lockstep::train
