// Memory of a rank by plan_mesh's formula, against the allocator's, for training with AdamW on two
// ranks that are threads.
#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/mesh_plan.hpp>
#include <lockstep/parallel/sharded/fully_shard.hpp>
#include <lockstep/parallel/sharded/zero_redundancy_optimizer.hpp>
#include <lockstep/parallel/tensor/plans.hpp>
#include <lockstep/tensor/storage.hpp>

#include "../peak_memory.hpp"
#include "../ranks.hpp"

namespace lockstep {
namespace {

using test::PeakMemory;

constexpr int ranks = 2;

/// A model whose tensors, blocks and whole are a little smaller than sizes to which the allocator
/// rounds up, by a quarter at most, and whose activations are small beside its parameters, and the
/// loss of a sample of it.
struct Model {
  const char* name;
  std::function<std::shared_ptr<nn::Module>()> make;
  std::function<Variable(nn::Module&)> loss;
};

Model small_gpt() {
  return {"gpt",
          [] {
            return std::make_shared<nn::Gpt>(nn::GptOptions{
                .vocabulary = 64, .context = 4, .width = 126, .depth = 16, .heads = 2});
          },
          [](nn::Module& model) {
            const Variable logits = model.forward(
                Variable(Tensor::from(std::vector<std::int64_t>{1, 2, 3, 4}, {1, 4})));
            return mean(logits * logits);
          }};
}

Model small_mlp() {
  return {"mlp",
          [] {
            return nn::mlp({256}, 256, {508, 508, 508, 508});
          },
          [](nn::Module& model) {
            return mean(model.forward(Variable(Tensor::full({1, 256}, 0.1))));
          }};
}

/// One rank's training; calls `look` in each backward and after each step.
using Train = std::function<void(const Model&, const std::shared_ptr<ProcessGroup>&,
                                 const std::function<void()>& look)>;

/// Hooks that look when a parameter's gradient is final.
std::vector<GradHook> looking(const nn::Module& model, const std::function<void()>& look) {
  std::vector<GradHook> hooks;
  for (const Variable& parameter : model.parameters())
    hooks.push_back(parameter.add_grad_hook([look] { look(); }));
  return hooks;
}

std::unique_ptr<optim::Optimizer> adam(std::vector<nn::NamedParameter> parameters) {
  return std::make_unique<optim::AdamW>(std::move(parameters), optim::AdamWOptions{.lr = 1e-3});
}

constexpr int steps = 3;

DdpOptions one_bucket() {
  DdpOptions options;
  options.buckets.first_bucket_bytes = options.buckets.bucket_bytes;
  return options;
}

/// While no rank is in a step.
void look_together(ProcessGroup& group, const std::function<void()>& look) {
  group.barrier();
  look();
  group.barrier();
}

void data_parallel(const Model& model, const std::shared_ptr<ProcessGroup>& group,
                   const std::function<void()>& look) {
  DistributedDataParallel ddp(model.make(), group, one_bucket());
  const auto optimizer = adam(ddp.module().named_parameters());
  for (int s = 0; s < steps; ++s) {
    ddp.zero_grad();
    ddp.backward(ddp.forward([&](nn::Module& module) { return model.loss(module); }), 0.5);
    optimizer->step();
    look_together(*group, look);
  }
}

void zero_1(const Model& model, const std::shared_ptr<ProcessGroup>& group,
            const std::function<void()>& look) {
  DistributedDataParallel ddp(model.make(), group, one_bucket());
  ZeroRedundancyOptimizer zero(ddp, adam);
  for (int s = 0; s < steps; ++s) {
    ddp.zero_grad();
    ddp.backward(ddp.forward([&](nn::Module& module) { return model.loss(module); }), 0.5);
    zero.step();
    look_together(*group, look);
  }
}

void tensor_parallel(const Model& model, const std::shared_ptr<ProcessGroup>& group,
                     const std::function<void()>& look) {
  const auto module = model.make();
  tensor_parallelize(*module, group);
  const auto optimizer = adam(module->named_parameters());
  for (int s = 0; s < steps; ++s) {
    module->zero_grad();
    model.loss(*module).backward();
    optimizer->step();
    look_together(*group, look);
  }
}

void zero_3(const Model& model, const std::shared_ptr<ProcessGroup>& group,
            const std::function<void()>& look) {
  const auto module = model.make();
  FullyShardedDataParallel fsdp(module, group);
  const auto optimizer = adam(fsdp.named_parameters());
  const auto hooks = looking(*module, look);
  for (int s = 0; s < steps; ++s) {
    group->barrier();  // both ranks look at about the same moments
    fsdp.zero_grad();
    fsdp.backward(fsdp.forward([&](nn::Module& m) { return model.loss(m); }), 0.5);
    optimizer->step();
  }
}

void expect_planned(const Model& model, const std::vector<MeshDim>& dims, std::size_t zero,
                    const Train& train) {
  const auto whole = model.make();
  std::shared_ptr<nn::Module> divided;
  if (dims.front().name == "tp") {
    divided = model.make();
    tensor_parallelize(*divided, std::make_shared<FakeGroup>(ranks, 0));
  }
  const MeshPlan plan = plan_mesh(*whole, {.dims = dims,
                                           .samples = ranks,
                                           .tokens = 4,
                                           .optimizer_bytes = 8,
                                           .of_tp_rank = divided.get()});
  const auto expected = static_cast<double>(plan.memory[zero].total());
  const std::int64_t before = memory_stats().in_use;
  PeakMemory peak;
  test::on_ranks(ranks, [&](const auto& group) {
    nn::manual_seed(1);
    train(model, group, [&] { peak.look(); });
  });
  const double measured = (peak.bytes() - static_cast<double>(before)) / ranks;
  EXPECT_NEAR(measured / expected, 1.0, 0.1)
      << model.name << " on " << to_string(dims) << ", ZeRO-" << zero << ": " << measured
      << " bytes a rank, planned " << expected;
}

TEST(MeshMemory, OfDataParallelismIsThatOfThePlanWithinATenth) {
  for (const Model& model : {small_gpt(), small_mlp()})
    expect_planned(model, {{"dp", ranks}}, 0, data_parallel);
}

TEST(MeshMemory, OfZero1IsThatOfThePlanWithinATenth) {
  for (const Model& model : {small_gpt(), small_mlp()})
    expect_planned(model, {{"dp", ranks}}, 1, zero_1);
}

TEST(MeshMemory, OfTensorParallelismIsThatOfThePlanWithinATenth) {
  for (const Model& model : {small_gpt(), small_mlp()})
    expect_planned(model, {{"tp", ranks}}, 0, tensor_parallel);
}

// An mlp has no list of blocks: its only unit is all of it.
TEST(MeshMemory, OfZero3IsThatOfThePlanWithinATenth) {
  expect_planned(small_gpt(), {{"dp", ranks}}, 3, zero_3);
}

}  // namespace
}  // namespace lockstep
