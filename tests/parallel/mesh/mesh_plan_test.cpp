// Plans of meshes, against numbers by hand and against sent bytes.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/autograd/autocast.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/fake_group.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/mlp.hpp>
#include <lockstep/parallel/context/ring_attention.hpp>
#include <lockstep/parallel/mesh/mesh_plan.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

namespace lockstep {
namespace {

const PlannedParameter& parameter(const MeshPlan& plan, const std::string& name) {
  for (const PlannedParameter& p : plan.parameters) {
    if (p.name == name) return p;
  }
  throw Error("no parameter " + name);
}

TEST(MeshPlan, OfAGptHasTheNumbersByHand) {
  nn::Gpt gpt({.vocabulary = 10, .context = 6, .width = 8, .depth = 3, .heads = 2});
  const MeshPlan plan = plan_mesh(gpt, {.dims = {{"tp", 2}, {"dp", 2}, {"pp", 2}, {"cp", 2}},
                                        .samples = 4,
                                        .tokens = 6,
                                        .optimizer_bytes = 8});
  EXPECT_EQ(to_string(plan.dims), "pp=2 dp=2 fsdp=1 cp=2 tp=2");
  const auto expect_part = [&](const char* name, const Shape& shape,
                               const std::vector<int>& stages) {
    EXPECT_EQ(parameter(plan, name).of_rank, shape) << name;
    EXPECT_EQ(parameter(plan, name).stages, stages) << name;
  };
  // Two heads of 4: one a rank of tp. Three blocks: two on the first stage.
  expect_part("wte.weight", {5, 8}, {0, 1});
  expect_part("wpe.weight", {6, 8}, {0});
  expect_part("h.0.ln_1.weight", {8}, {0});
  expect_part("h.0.attn.c_attn.weight", {12, 8}, {0});
  expect_part("h.0.attn.c_attn.bias", {12}, {0});
  expect_part("h.0.attn.c_proj.weight", {8, 4}, {0});
  expect_part("h.0.attn.c_proj.bias", {8}, {0});
  expect_part("h.1.mlp.c_fc.weight", {16, 8}, {0});
  expect_part("h.1.mlp.c_fc.bias", {16}, {0});
  expect_part("h.2.mlp.c_proj.weight", {8, 16}, {1});
  expect_part("ln_f.weight", {8}, {1});
  // wte 40, wpe 48, and two blocks of ln 32, c_attn 108, c_proj 40, c_fc 144, c_proj 136.
  EXPECT_EQ(plan.elements, 1008);
  // Four ranks of dp x cp shard: 252 elements each.
  EXPECT_EQ(plan.memory[0], (MeshMemory{4032, 4032, 8064}));
  EXPECT_EQ(plan.memory[1], (MeshMemory{4032, 4032, 2016, 1008}));
  // Beside the shards two blocks of 460 and the root unit of 88 at a time: all 1008.
  EXPECT_EQ(plan.memory[2], (MeshMemory{1008, 1008, 2016, 4032 + 4032}));
  EXPECT_EQ(plan.memory[3], (MeshMemory{1008, 1008, 2016, 4032 + 4032}));
  EXPECT_EQ(plan.memory[3].total(), 12096);
  // A rank has 2 samples of 3 tokens: activations of 6 x 8 elements, keys and values of 6 x 2 x 4.
  const std::vector<MeshTraffic> model{{"pp", "activations and their gradients", 48 * 4},
                                       {"pp", "gradient of tied wte: all_reduce", 2 * 20 * 4},
                                       {"cp", "keys and values, with gradients", 2 * 4 * 48 * 4},
                                       {"tp", "activations: all_reduce", (4 * 2 + 1) * 2 * 24 * 4},
                                       {"tp", "loss: all_reduce", 2 * 12 * 4}};
  const auto with = [&](std::vector<MeshTraffic> data) {
    data.insert(data.end(), model.begin(), model.end());
    return data;
  };
  EXPECT_EQ(plan.traffic[0], with({{"dp_cp", "gradients: all_reduce", 2 * 3 * 252 * 4}}));
  EXPECT_EQ(plan.traffic[1], with({{"dp_cp", "gradients: all_reduce", 2 * 3 * 252 * 4},
                                   {"dp_cp", "parameters: all_gather", 3 * 252 * 4}}));
  EXPECT_EQ(plan.traffic[2], with({{"dp_cp", "gradients: reduce_scatter", 3 * 252 * 4},
                                   {"dp_cp", "parameters: all_gather", 3 * 252 * 4}}));
  EXPECT_EQ(plan.traffic[3], with({{"dp_cp", "gradients: reduce_scatter", 3 * 252 * 4},
                                   {"dp_cp", "parameters: all_gather", 2 * 3 * 252 * 4}}));
}

TEST(MeshPlan, OfReplicatedShardsHasTheNumbersByHand) {
  nn::Linear linear(3, 5);  // 20 elements
  const MeshPlan plan =
      plan_mesh(linear, {.dims = {{"dp", 2}, {"fsdp", 4}}, .samples = 8, .optimizer_bytes = 4});
  EXPECT_EQ(plan.elements, 20);
  EXPECT_EQ(plan.memory[0], (MeshMemory{80, 80, 80}));
  EXPECT_EQ(plan.memory[3], (MeshMemory{20, 20, 20, 160})) << "one unit";
  EXPECT_EQ(plan.traffic[0],
            (std::vector<MeshTraffic>{{"dp_fsdp", "gradients: all_reduce", 2 * 7 * 3 * 4}}));
  EXPECT_EQ(plan.traffic[3],
            (std::vector<MeshTraffic>{{"fsdp", "gradients: reduce_scatter", 3 * 5 * 4},
                                      {"dp", "gradients of shards: all_reduce", 2 * 3 * 4},
                                      {"fsdp", "parameters: all_gather", 2 * 3 * 5 * 4}}));
  const MeshPlan alone = plan_mesh(linear, {});
  EXPECT_TRUE(alone.traffic[3].empty());
}

TEST(MeshPlan, OfContextParallelismHasTheTrafficOfRingAttention) {
  constexpr int ranks = 4;
  constexpr std::int64_t samples = 3, tokens = 5, width = 8, heads = 2;
  for (const Precision precision : {Precision::f32, Precision::bf16}) {
    const Autocast autocast(precision);
    const auto group = std::make_shared<FakeGroup>(ranks, 1);
    const auto bytes = [&](const auto& call) {
      const std::int64_t before = group->traffic().bytes;
      call();
      return group->traffic().bytes - before;
    };
    const Variable qkv(Tensor::zeros({samples, tokens, 3 * width}), true);
    Variable y;
    const std::int64_t forward = bytes([&] { y = ring_self_attention(qkv, heads, group); });
    const std::int64_t backward = bytes([&] { sum(y).backward(); });
    nn::Gpt gpt({.vocabulary = 4, .context = 20, .width = width, .depth = 1, .heads = heads});
    const MeshPlan plan = plan_mesh(gpt, {.dims = {{"cp", ranks}},
                                          .samples = samples,
                                          .precision = precision,
                                          .tokens = ranks * tokens});
    const MeshTraffic& planned = plan.traffic[0].back();
    EXPECT_EQ(planned.dim, "cp");
    constexpr std::int64_t arguments = 13 * 8;  // which the ranks compare first
    EXPECT_EQ(forward + backward, planned.bytes + arguments);
  }
}

TEST(MeshPlan, OfZero3HasTwoBlocksGatheredAtATime) {
  nn::Gpt gpt({.vocabulary = 10, .context = 6, .width = 8, .depth = 5, .heads = 2});
  const MeshPlan plan = plan_mesh(gpt, {.dims = {{"dp", 2}}, .samples = 2, .tokens = 6});
  // Blocks of 32 + 216 + 72 + 288 + 264; wte 80, wpe 48 and ln_f 16 are the root's.
  EXPECT_EQ(plan.elements, 5 * 872 + 144);
  EXPECT_EQ(plan.memory[3].gathered, 2 * 4 * (2 * 872 + 144));
  EXPECT_EQ(plan.memory[2].gathered, 4 * (5 * 872 + 144) + 4 * (2 * 872 + 144));
  EXPECT_EQ(plan.memory[1].gathered, 4 * (5 * 872 + 144) / 2) << "the run that is sent";
  EXPECT_EQ(plan.memory[0].gathered, 0);
}

TEST(MeshPlan, OfAnMlpHasThePartsOfItsDividedModel) {
  const auto make = [] { return nn::mlp({8}, 4, {12}); };
  const auto whole = make(), divided = make();
  tensor_parallelize(*divided, std::make_shared<FakeGroup>(2, 0));
  const MeshPlan plan =
      plan_mesh(*whole, {.dims = {{"tp", 2}}, .samples = 2, .of_tp_rank = divided.get()});
  EXPECT_EQ(parameter(plan, "fc1.weight").of_rank, (Shape{6, 8}));
  EXPECT_EQ(parameter(plan, "fc2.weight").of_rank, (Shape{4, 6}));
  EXPECT_EQ(plan.elements, 48 + 6 + 24 + 4);
}

TEST(MeshPlan, RefusesUnknownDimensionsAndTooManyRanks) {
  nn::Gpt gpt({.vocabulary = 10, .context = 6, .width = 8, .depth = 3, .heads = 2});
  nn::Linear linear(3, 5);
  const auto message = [](const nn::Module& model, const std::vector<MeshDim>& dims) {
    return test::message_of<InputError>(
        [&] { static_cast<void>(plan_mesh(model, {.dims = dims, .samples = 4, .tokens = 6})); });
  };
  EXPECT_EQ(message(gpt, {{"sp", 2}}),
            "mesh: there is no dimension 'sp'; there are pp, dp, fsdp, cp, tp.");
  EXPECT_EQ(message(gpt, {{"tp", 2}, {"tp", 1}}), "mesh tp=2 tp=1: two dimensions are named tp");
  EXPECT_EQ(message(gpt, {{"tp", -1}}), "mesh: tp is -1; a plan needs its size.");
  EXPECT_EQ(message(gpt, {{"tp", 3}}), "mesh: tp is 3, but there are only 2 heads to share out.");
  EXPECT_EQ(message(gpt, {{"pp", 4}}), "mesh: pp is 4, but there are only 3 blocks to share out.");
  EXPECT_EQ(message(gpt, {{"cp", 7}}),
            "mesh: cp is 7, but there are only 6 tokens of a sample to share out.");
  EXPECT_EQ(message(linear, {{"dp", 2}, {"fsdp", 3}}),
            "mesh: dp x fsdp is 6, but there are only 4 samples of a step to share out.");
  EXPECT_EQ(message(linear, {{"tp", 2}}),
            "mesh: cp and pp are planned for model.kind = \"gpt\" alone, and tp for models with a "
            "ready plan. Use dp and fsdp.");
  EXPECT_EQ(message(linear, {{"dp", 2000000000}, {"fsdp", 2000000000}}),
            "mesh: dp=2000000000 fsdp=2000000000 has more than 1048576 ranks.");
}

TEST(MeshPlan, IsReadFromTheCommandLine) {
  EXPECT_EQ(parse_mesh("dp=2,tp=4"), (std::vector<MeshDim>{{"dp", 2}, {"tp", 4}}));
  EXPECT_EQ(parse_mesh("cp=16"), (std::vector<MeshDim>{{"cp", 16}}));
  for (const char* bad :
       {"", "dp", "dp=", "=2", "dp=2,", "dp=2;tp=2", "dp=x", "dp=2.5", "dp=99999999999"}) {
    EXPECT_EQ(test::message_of<InputError>([&] { static_cast<void>(parse_mesh(bad)); }),
              "mesh: '" + std::string(bad) +
                  "' is not a list of dimensions with sizes, as in dp=2,tp=4.");
  }
}

}  // namespace
}  // namespace lockstep
