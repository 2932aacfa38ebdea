// Models over slices of their sequences train as they do over whole ones.
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers/attention.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/parallel/context/context_parallel.hpp>
#include <lockstep/parallel/distributed_data_parallel.hpp>
#include <lockstep/parallel/mesh/device_mesh.hpp>
#include <lockstep/parallel/tensor/plans.hpp>

#include "../ranks.hpp"
#include "../small_models.hpp"

namespace lockstep {
namespace {

using test::max_difference;
using test::wave;

constexpr std::int64_t vocabulary = 11, context = 24;

std::shared_ptr<nn::Gpt> small_gpt(bool recompute = false, double dropout = 0.0) {
  const nn::DTypeGuard f64(DType::f64);
  nn::manual_seed(5);
  return std::make_shared<nn::Gpt>(nn::GptOptions{.vocabulary = vocabulary,
                                                  .context = context,
                                                  .width = 8,
                                                  .depth = 2,
                                                  .heads = 2,
                                                  .dropout = dropout,
                                                  .recompute = recompute});
}

/// Tokens of step `step`, [rows, length + 1]: inputs and, shifted by one, targets.
struct TokenBatch {
  Tensor inputs, targets;

  TokenBatch(int step, std::int64_t rows, std::int64_t length) {
    std::vector<std::int64_t> in, out;
    for (std::int64_t b = 0; b < rows; ++b) {
      for (std::int64_t t = 0; t < length; ++t) {
        const auto token = [&](std::int64_t i) { return (i * i + 3 * b + 5 * step) % vocabulary; };
        in.push_back(token(t));
        out.push_back(token(t + 1));
      }
    }
    inputs = Tensor::from(in, {rows, length}).to(test::asked_for_device());
    targets = Tensor::from(out, {rows, length}).to(test::asked_for_device());
  }
};

void expect_same_parameters(const nn::Module& actual, const nn::Module& expected,
                            const std::string& where) {
  const auto all = expected.named_parameters(), mine = actual.named_parameters();
  ASSERT_EQ(all.size(), mine.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    EXPECT_LE(max_difference(mine[i].variable.data(), all[i].variable.data()), 1e-10)
        << all[i].name << ", " << where;
  }
}

class ContextParallel : public testing::TestWithParam<int> {};

TEST_P(ContextParallel, GptTrainsAsTheUndividedModel) {
  struct Form {
    std::int64_t length;
    SequenceOrder order;
    bool recompute;
  };
  using enum SequenceOrder;
  for (const Form& form : {Form{24, contiguous, false}, Form{24, zigzag, true},
                           Form{19, contiguous, true}, Form{19, zigzag, false}}) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const int rank = group->rank(), size = group->size();
      const std::string where = std::to_string(form.length) + " tokens, " +
                                (form.order == zigzag ? "zigzag" : "contiguous") + ", rank " +
                                std::to_string(rank) + " of " + std::to_string(size);
      const auto undivided = small_gpt(), sliced = small_gpt(form.recompute);
      context_parallel(*sliced, group, form.order);
      EXPECT_TRUE(sliced->forward_is_collective());
      DistributedDataParallel ddp(sliced, group);
      optim::AdamW expected(undivided->named_parameters(), {.lr = 1e-2}),
          optimizer(sliced->named_parameters(), {.lr = 1e-2});
      for (int step = 0; step < 3; ++step) {
        const TokenBatch batch(step, 2, form.length);
        const Variable whole = undivided->loss(Variable(batch.inputs), batch.targets);
        undivided->zero_grad();
        whole.backward();
        expected.step();

        const Tensor inputs = sequence_slice(batch.inputs, rank, size, form.order);
        const Tensor targets = sequence_slice(batch.targets, rank, size, form.order);
        const double share = static_cast<double>(inputs.size(1)) / static_cast<double>(form.length);
        optimizer.zero_grad();
        const Variable loss = ddp.forward([&](nn::Module& model) {
          return static_cast<nn::Gpt&>(model).loss(Variable(inputs), targets);
        });
        ddp.backward(loss, share);
        const Tensor mean = Tensor::full({}, loss.item() * share, DType::f64);
        group->all_reduce(mean, ReduceOp::sum).wait();
        EXPECT_NEAR(mean.item(), whole.item(), 1e-12) << where << ", step " << step;
        optimizer.step();
      }
      expect_same_parameters(*sliced, *undivided, where);
      // Logits of evaluation, and the whole sequence again.
      const TokenBatch batch(9, 1, form.length);
      const NoGradGuard no_grad;
      const Tensor all = undivided->forward(Variable(batch.inputs)).data();
      const Tensor mine =
          sliced->forward(Variable(sequence_slice(batch.inputs, rank, size, form.order))).data();
      EXPECT_LE(max_difference(mine, sequence_slice(all, rank, size, form.order)), 1e-9) << where;
      sliced->set_sliced_sequence(nullptr);
      EXPECT_FALSE(sliced->forward_is_collective());
      EXPECT_LE(max_difference(sliced->forward(Variable(batch.inputs)).data(), all), 1e-9);
    });
  }
}

TEST_P(ContextParallel, DropoutDrawsTheMasksOfWholeSequences) {
  using enum SequenceOrder;
  for (const SequenceOrder order : {contiguous, zigzag}) {
    for (const bool recompute : {false, true}) {
      test::on_ranks(GetParam(), [&](const auto& group) {
        const int rank = group->rank(), size = group->size();
        const auto undivided = small_gpt(false, 0.3), sliced = small_gpt(recompute, 0.3);
        context_parallel(*sliced, group, order);
        DistributedDataParallel ddp(sliced, group);
        optim::AdamW expected(undivided->named_parameters(), {.lr = 1e-2}),
            optimizer(sliced->named_parameters(), {.lr = 1e-2});
        const std::int64_t length = 19;
        for (int step = 0; step < 2; ++step) {
          const nn::RandomContext draws{
              .seed = 5, .step = static_cast<std::uint32_t>(step), .first_sample = 4};
          const TokenBatch batch(step, 2, length);
          {
            const nn::RandomContextGuard guard(draws);
            undivided->zero_grad();
            undivided->loss(Variable(batch.inputs), batch.targets).backward();
            expected.step();
          }
          const nn::RandomContextGuard guard(draws);
          const Tensor inputs = sequence_slice(batch.inputs, rank, size, order);
          const Tensor targets = sequence_slice(batch.targets, rank, size, order);
          optimizer.zero_grad();
          const Variable loss = ddp.forward([&](nn::Module& model) {
            return static_cast<nn::Gpt&>(model).loss(Variable(inputs), targets);
          });
          ddp.backward(loss, static_cast<double>(inputs.size(1)) / static_cast<double>(length));
          optimizer.step();
        }
        expect_same_parameters(*sliced, *undivided, "rank " + std::to_string(rank));
        // Whole sequences again.
        sliced->set_sliced_sequence(nullptr);
        const TokenBatch batch(9, 1, length);
        const auto logits = [&](nn::Gpt& model) {
          const nn::RandomContextGuard guard({.seed = 6});
          return model.forward(Variable(batch.inputs)).data();
        };
        EXPECT_LE(max_difference(logits(*sliced), logits(*undivided)), 1e-9);
      });
    }
  }
}

TEST_P(ContextParallel, RefusesDropoutOfWholeChannels) {
  struct Model : nn::Module {
    Model() {
      register_module("attention", std::make_shared<nn::MultiheadAttention>(4, 2));
      register_module("drop", std::make_shared<nn::Dropout1d>(0.5));
    }
  };
  test::on_ranks(GetParam(), [&](const auto& group) {
    Model model;
    EXPECT_NE(test::message_of<InputError>([&] {
                context_parallel(model, group);
              }).find("the model has a Dropout1d, 2d or 3d"),
              std::string::npos);
  });
}

TEST_P(ContextParallel, WithDataParallelismOverAMesh) {
  if (GetParam() % 2 != 0) return;
  test::on_ranks(GetParam(), [&](const auto& group) {
    DeviceMesh mesh(group, {{"dp", -1}, {"cp", 2}});
    const auto undivided = small_gpt(), sliced = small_gpt();
    context_parallel(*sliced, mesh.group("cp"), SequenceOrder::zigzag);
    DistributedDataParallel ddp(sliced, mesh.flatten({"dp", "cp"}));
    optim::AdamW expected(undivided->named_parameters(), {.lr = 1e-2}),
        optimizer(sliced->named_parameters(), {.lr = 1e-2});
    for (int step = 0; step < 3; ++step) {
      const TokenBatch batch(step, 2 * mesh.size("dp"), 12);
      undivided->zero_grad();
      undivided->loss(Variable(batch.inputs), batch.targets).backward();
      expected.step();
      const auto mine = [&](const Tensor& t) {
        const std::int64_t row = 2 * mesh.local_rank("dp");
        return sequence_slice(t.slice(row, row + 2), mesh.local_rank("cp"), 2,
                              SequenceOrder::zigzag);
      };
      optimizer.zero_grad();
      ddp.forward([&](nn::Module& model) {
           return static_cast<nn::Gpt&>(model).loss(Variable(mine(batch.inputs)),
                                                    mine(batch.targets));
         })
          .backward();
      optimizer.step();
    }
    expect_same_parameters(*sliced, *undivided, "rank " + std::to_string(group->rank()));
    mesh.close();
  });
}

TEST_P(ContextParallel, WithTensorParallelismOverAMesh) {
  if (GetParam() % 2 != 0) return;
  test::on_ranks(GetParam(), [&](const auto& group) {
    DeviceMesh mesh(group, {{"cp", -1}, {"tp", 2}});
    const auto undivided = small_gpt(), shared = small_gpt();
    parallelize_gpt(*shared, mesh.group("tp"));
    context_parallel(*shared, mesh.group("cp"));
    DistributedDataParallel ddp(shared, mesh.group("cp"));
    optim::AdamW expected(undivided->named_parameters(), {.lr = 1e-2}),
        optimizer(shared->named_parameters(), {.lr = 1e-2});
    for (int step = 0; step < 3; ++step) {
      const TokenBatch batch(step, 2, 12);
      undivided->zero_grad();
      const Variable whole = undivided->loss(Variable(batch.inputs), batch.targets);
      whole.backward();
      expected.step();
      const auto mine = [&](const Tensor& t) {
        return sequence_slice(t, mesh.local_rank("cp"), mesh.size("cp"));
      };
      optimizer.zero_grad();
      const Variable loss = ddp.forward([&](nn::Module& model) {
        return static_cast<nn::Gpt&>(model).loss(Variable(mine(batch.inputs)), mine(batch.targets));
      });
      loss.backward();
      const Tensor mean = loss.data().clone();
      mesh.group("cp")->all_reduce(mean, ReduceOp::avg).wait();
      EXPECT_NEAR(mean.item(), whole.item(), 1e-10) << "step " << step;
      optimizer.step();
    }
    mesh.close();
  });
}

TEST_P(ContextParallel, AnEncoderOfAttentionLayersSeesWholeSequences) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int rank = group->rank(), size = group->size();
    const auto encoder = [] {
      const nn::DTypeGuard f64(DType::f64);
      nn::manual_seed(3);
      return std::make_shared<nn::TransformerEncoder>(2, 8, 2, 16);
    };
    const auto undivided = encoder(), sliced = encoder();
    context_parallel(*sliced, group);
    const Tensor x = wave({2, 13, 8}, 0.3);
    const Variable all(x, true), mine(sequence_slice(x, rank, size), true);
    const Variable expected = undivided->forward(all), y = sliced->forward(mine);
    EXPECT_LE(max_difference(y.data(), sequence_slice(expected.data(), rank, size)), 1e-11);
    sum(pow(expected, 3.0)).backward();
    sum(pow(y, 3.0)).backward();
    EXPECT_LE(max_difference(mine.grad(), sequence_slice(all.grad(), rank, size)), 1e-9);
  });
}

TEST_P(ContextParallel, PaddedPositionsOfSlicesAreHiddenFromAllQueries) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int rank = group->rank(), size = group->size();
    const auto layer = [] {
      const nn::DTypeGuard f64(DType::f64);
      nn::manual_seed(3);
      return std::make_shared<nn::MultiheadAttention>(8, 2);
    };
    const auto undivided = layer(), sliced = layer();
    context_parallel(*sliced, group, SequenceOrder::zigzag);
    const auto slice = [&](const Tensor& t) {
      return sequence_slice(t, rank, size, SequenceOrder::zigzag);
    };
    const Tensor x = wave({2, 13, 8}, 0.3), hidden = test::padding_mask(2, 13);
    const Variable all(x, true), mine(slice(x), true);
    for (const bool causal : {false, true}) {
      const Variable expected = undivided->forward(all, all, all, hidden, causal);
      const Variable y = sliced->forward(mine, mine, mine, slice(hidden), causal);
      EXPECT_LE(max_difference(y.data(), slice(expected.data())), 1e-11);
      sum(pow(expected, 3.0)).backward();
      sum(pow(y, 3.0)).backward();
      EXPECT_LE(max_difference(mine.grad(), slice(all.grad())), 1e-10);
    }
  });
}

TEST_P(ContextParallel, RefusesLongSequencesOnAllRanksAndModelsWithoutAttention) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = small_gpt();
    context_parallel(*model, group);
    // The last rank's slice alone goes beyond the context.
    const std::int64_t tokens = context / group->size() + (group->rank() + 1 == group->size());
    const Variable too_long(Tensor::zeros({1, tokens}, DType::i64, test::asked_for_device()));
    const std::int64_t together = context / group->size() * group->size() + 1;
    if (together > context) {
      EXPECT_EQ(test::message_of<ShapeError>([&] { static_cast<void>(model->forward(too_long)); }),
                "the slices of a sequence have 25 tokens together, more than the model's context "
                "of 24.");
    }
    nn::Linear linear(2, 2);
    EXPECT_NE(test::message_of<InputError>([&] {
                context_parallel(linear, group);
              }).find("neither a Gpt nor a MultiheadAttention"),
              std::string::npos);
    EXPECT_NE(test::message_of<InputError>([&] {
                context_parallel(*model, nullptr);
              }).find("needs a group"),
              std::string::npos);
    nn::MultiheadAttention attention(4, 2);
    context_parallel(attention, group);
    const Variable x(wave({1, 3, 4}, 0.1, DType::f32)), other(wave({1, 3, 4}, 0.2, DType::f32));
    EXPECT_TRUE(attention.forward_is_collective());
    EXPECT_NE(test::message_of<InputError>([&] {
                static_cast<void>(attention.forward(x, other, other));
              }).find("self-attention without weights only"),
              std::string::npos);
    EXPECT_THROW(static_cast<void>(attention.forward_with_weights(x, x, x)), InputError);
    EXPECT_NE(test::message_of<InputError>([&] {
                const Tensor seen = Tensor::zeros({3, 3}, DType::boolean, test::asked_for_device());
                nn::MultiheadAttention masked(
                    4, 2, {.causal = false, .scale = {}, .mask = seen, .key_padding_mask = {}});
                context_parallel(masked, group);
                static_cast<void>(masked.forward(x));
              }).find("no mask of queries and keys"),
              std::string::npos);
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, ContextParallel, testing::ValuesIn(test::rank_counts()),
                         testing::PrintToStringParamName());

}  // namespace
}  // namespace lockstep
