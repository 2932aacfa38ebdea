// Tensor parallelism with other parts of a training: data parallelism, tied parameters, attention
// to a memory.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/partition.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "undivided.hpp"

namespace lockstep {
namespace {

using test::message_of;
using test::wave;

class TensorParallelWith : public testing::TestWithParam<int> {};

TEST_P(TensorParallelWith, DataParallelismTrainsAsTheUndividedModel) {
  const int sharing = GetParam() % 2 == 0 ? 2 : 1;
  const nn::GptOptions options{
      .vocabulary = 11, .context = 4, .width = 8, .depth = 1, .heads = 4, .dropout = 0.2};
  const auto tokens_of = [](std::int64_t first, std::int64_t rows) {
    std::vector<std::int64_t> tokens;
    for (std::int64_t i = 4 * first; i < 4 * (first + rows); ++i)
      tokens.push_back((i * i + 1) % 11);
    return Tensor::from(tokens, {rows, 4}).to(test::asked_for_device());
  };
  test::on_ranks(GetParam(), [&](const auto& group) {
    DeviceMesh mesh(group, {{"dp", -1}, {"tp", sharing}});
    const nn::DTypeGuard f64(DType::f64);
    const auto made = [&] {
      nn::manual_seed(7);
      return std::make_shared<nn::Gpt>(options);
    };
    const auto whole = made(), part = made();
    parallelize_gpt(*part, mesh.group("tp"), {.sequence = true});
    DistributedDataParallel ddp(part, mesh.group("dp"));
    optim::SGD of_whole(whole->named_parameters(), {.lr = 0.1}),
        of_part(part->named_parameters(), {.lr = 0.1});
    const std::int64_t rows = 2, here = mesh.local_rank("dp"), shares = mesh.size("dp");
    for (int step = 0; step < 3; ++step) {
      const auto context = [&](std::int64_t first) {
        return nn::RandomContext{
            .seed = 5, .step = static_cast<std::uint32_t>(step), .first_sample = first};
      };
      {
        const nn::RandomContextGuard all(context(0));
        const Tensor tokens = tokens_of(0, rows * shares);
        of_whole.zero_grad();
        whole->loss(Variable(tokens), tokens).backward();
        of_whole.step();
      }
      const nn::RandomContextGuard mine(context(rows * here));
      const Tensor tokens = tokens_of(rows * here, rows);
      ddp.zero_grad();
      ddp.backward(part->loss(Variable(tokens), tokens), 1.0 / static_cast<double>(shares));
      of_part.step();
    }
    const StateDict expected = whole->state_dict();
    for (const auto& entry : part->state_dict()) {
      EXPECT_LE(test::max_difference(entry.tensor, test::part_of(expected.at(entry.name), entry)),
                1e-10)
          << entry.name << " on rank " << group->rank() << " of " << group->size();
    }
    mesh.close();
  });
}

/// A table of tokens whose transpose gives the logits, as two modules that share a parameter.
struct TiedHead : nn::Module {
  explicit TiedHead(const Variable& shared) : weight(register_parameter("weight", shared)) {}
  Variable forward(const Variable& x) override {
    return partition() ? partition()->linear(x, weight, {}) : linear(x, weight, {});
  }
  Variable weight;
};
struct TiedModel : nn::Module {
  TiedModel()
      : table(register_module("table", std::make_shared<nn::Embedding>(11, 6))),
        head(register_module("head", std::make_shared<TiedHead>(table->weight()))) {}
  Variable forward(const Variable& tokens) override { return (*head)((*table)(tokens)); }
  std::shared_ptr<nn::Embedding> table;
  std::shared_ptr<TiedHead> head;
};

/// A style of a user: the head's rows are the table's.
struct TiedHeadParallel : ParallelStyle {
  void apply(const ParallelPlace& place) const override {
    auto* const head = place.as<TiedHead>();
    if (!head) place.refuse("TiedHeadParallel", "TiedHead");
    const ProcessGroup& group = *place.group();
    const Slice rows = cut_units("", 11, group.size(), group.rank()).units;
    place.keep("weight", head->weight, 0, rows);
    head->set_partition(std::make_shared<Logits>(place.group(), rows));
  }
  struct Logits : nn::Partition {
    Logits(GroupPtr g, const Slice& r) : group(std::move(g)), rows(r) {}
    Variable linear(const Variable& x, const Variable& weight,
                    const Variable& bias) const override {
      const Variable mine = lockstep::linear(copy_to_group(x, group), weight, bias);
      return gather_from_group(mine, -1, rows.first, 11, group);
    }
    GroupPtr group;
    Slice rows;
  };
};

TEST_P(TensorParallelWith, TiedParametersOfAUsersStyleTrainAsTheUndividedModel) {
  const auto make = [] { return std::make_shared<TiedModel>(); };
  const auto loss = [](nn::Module& model, int step) {
    std::vector<std::int64_t> tokens;
    for (int i = 0; i < 15; ++i) tokens.push_back((i * i + step) % 11);
    const Tensor index = Tensor::from(tokens, {15}).to(test::asked_for_device());
    return cross_entropy(model(Variable(index)), index);
  };
  const std::pair table{"table", std::make_shared<RowwiseParallel>()};
  test::on_ranks(GetParam(), [&](const auto& group) {
    test::expect_as_undivided(
        group, {make, {table, {"head", std::make_shared<TiedHeadParallel>()}}, loss});
    const auto model = make();
    EXPECT_EQ(
        message_of<InputError>([&] { parallelize_module(*model, group, {table}); }),
        "'head.weight' is tied to 'table.weight', which ranks share out: name its module in the "
        "plan, too");
  });
}

TEST_P(TensorParallelWith, AttentionToAMemoryIsThatOfTheUndividedModule) {
  struct Decoder : nn::Module {
    Decoder()
        : layer(register_module(
              "layer",
              std::make_shared<nn::TransformerDecoderLayer>(
                  20, 5, nn::TransformerDecoderOptions{.dim_feedforward = 9, .dropout = 0.0}))) {}
    Variable forward(const Variable& x) override {
      return layer->forward(narrow(x, 1, 0, 3), narrow(x, 1, 3, 4), {.tgt_is_causal = true});
    }
    std::shared_ptr<nn::TransformerDecoderLayer> layer;
  };
  const auto heads = std::make_shared<HeadParallel>();
  const ParallelPlan plan{{"layer.self_attn", heads},
                          {"layer.multihead_attn", heads},
                          {"layer.linear1", std::make_shared<ColwiseParallel>()},
                          {"layer.linear2", std::make_shared<RowwiseParallel>()}};
  test::on_ranks(GetParam(), [&](const auto& group) {
    if (group->size() > 5) return;
    test::expect_as_undivided(group,
                              {[] { return std::make_shared<Decoder>(); }, plan,
                               [](nn::Module& model, int step) {
                                 const Variable y = model(Variable(wave({2, 7, 20}, 0.3 + step)));
                                 return sum(pow(y, 2.0) * Variable(wave(y.shape(), 0.8)));
                               }});
    nn::MultiheadAttention attention(20, 5);
    struct Holder : nn::Module {
      explicit Holder(const std::shared_ptr<nn::MultiheadAttention>& a)
          : a(register_module("a", a)) {}
      std::shared_ptr<nn::MultiheadAttention> a;
    };
    Holder holder(std::make_shared<nn::MultiheadAttention>(20, 5));
    parallelize_module(holder, group, {{"a", heads}});
    const Variable x(wave({2, 7, 20}, 0.3, DType::f32));
    EXPECT_EQ(
        message_of<InputError>([&] { static_cast<void>(holder.a->forward_with_weights(x, x, x)); }),
        "MultiheadAttention: its heads are divided over ranks, and none has all their weights. "
        "Call "
        "forward(), or do not divide the module.");
  });
}

TEST_P(TensorParallelWith, OptimizersThatLookAtWholeTensorsAreRefused) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    nn::Gpt model({.vocabulary = 11, .context = 4, .width = 8, .depth = 1, .heads = 4});
    parallelize_gpt(model, group);
    optim::LAMB lamb(model.named_parameters());
    const std::string refused =
        message_of<InputError>([&] { lamb.take_placements(model.state_dict()); });
    EXPECT_EQ(refused,
              group->size() == 1
                  ? "nothing was thrown"
                  : "this optimizer looks at whole parameters, as LARS and LAMB do, but each rank "
                    "holds a "
                    "part of 'wte.weight': use one that updates element by element, such as SGD or "
                    "AdamW");
  });
}

TEST_P(TensorParallelWith, SixteenBitParametersAreCutAsOthers) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const nn::GptOptions options{
        .vocabulary = 11, .context = 4, .width = 20, .depth = 1, .heads = 5, .dropout = 0.2};
    nn::manual_seed(7);
    nn::Gpt whole(options), half(options);
    nn::manual_seed(7);
    half.load_state_dict(whole.state_dict());
    half.to(DType::bf16);
    const StateDict before = half.state_dict();
    StateDict kept;
    for (const auto& entry : before) kept.insert(entry.name, entry.tensor.to(DType::f32));
    parallelize_gpt(half, group);
    for (const auto& entry : half.state_dict()) {
      EXPECT_EQ(entry.tensor.dtype(), DType::bf16) << entry.name;
      EXPECT_EQ(test::max_difference(entry.tensor.to(DType::f32),
                                     test::part_of(kept.at(entry.name), entry)),
                0.0)
          << entry.name;
    }
    const Tensor tokens = Tensor::zeros({2, 4}, DType::i64, test::asked_for_device());
    const Variable loss = half.loss(Variable(tokens), tokens);
    loss.backward();
    EXPECT_NEAR(loss.item(), std::log(11.0), 0.5);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, TensorParallelWith, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
