#include <lockstep/parallel/sharded/fully_shard.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/comm/agreement.hpp>
#include <lockstep/nn/device_guard.hpp>
#include <lockstep/nn/dtype_guard.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/transformer.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/averaged_model.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/sgd.hpp>

#include "../ranks.hpp"
#include "../sharded_step.hpp"
#include "../stack_model.hpp"

namespace lockstep {
namespace {

using test::Batch;
using test::loss_of_share;
using test::make_batch;
using test::max_difference;
using test::share_of;
using test::Stack;
using test::step;
using test::TwoOutputs;
using test::weight_of;

class FullyShard : public testing::TestWithParam<int> {};

/// ZeRO-3, ZeRO-2, and units by name.
std::vector<FullyShardOptions> ways_to_shard() {
  return {{}, {.reshard_after_forward = false}, {.units = {"h.1"}}, {.units = {"h.0", "h.?"}}};
}

void step(nn::Module& model, optim::Optimizer& optimizer, const Batch& batch) {
  optimizer.zero_grad();
  loss_of_share(model, batch).backward();
  optimizer.step();
}

void expect_equal(FullyShardedDataParallel& fsdp, const nn::Module& reference, double tolerance) {
  const auto gathered = fsdp.gathered();
  const auto actual = fsdp.module().named_parameters(), expected = reference.named_parameters();
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_LE(max_difference(actual[i].variable.data(), expected[i].variable.data()), tolerance)
        << actual[i].name;
  }
}

TEST_P(FullyShard, StepsEqualThoseOfTheUndividedModel) {
  for (const FullyShardOptions& options : ways_to_shard()) {
    for (const std::int64_t rows : {13, 3}) {  // of 3 rows some ranks have none
      Stack alone;
      optim::AdamW reference(alone.trained_parameters(), {.lr = 0.01});
      for (int s = 0; s < 4; ++s) step(alone, reference, make_batch(rows, 0.1 * s));
      test::on_ranks(GetParam(), [&](const auto& group) {
        const auto model = std::make_shared<Stack>();
        FullyShardedDataParallel fsdp(model, group, options);
        optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
        for (int s = 0; s < 4; ++s) step(fsdp, optimizer, make_batch(rows, 0.1 * s));
        expect_equal(fsdp, alone, 1e-10);
      });
    }
  }
}

/// Existing gradients of the pieces, by name.
StateDict gradients_of(const FullyShardedDataParallel& fsdp) {
  StateDict gradients;
  for (const auto& [name, piece] : fsdp.named_parameters()) {
    if (piece.grad().defined()) gradients.insert(name, piece.grad());
  }
  return gradients;
}

/// `model`'s gradients and values after one step of plain descent with rate 1 from `fsdp`'s
/// gradients: shows pieces of gradients as whole ones.
void expect_same_descent(FullyShardedDataParallel& fsdp, nn::Module& model, double tolerance) {
  optim::SGD sharded(fsdp.trained_parameters(), {.lr = 1.0});
  optim::SGD whole(model.trained_parameters(), {.lr = 1.0});
  sharded.step();
  whole.step();
  expect_equal(fsdp, model, tolerance);
}

TEST_P(FullyShard, AModelConvertedAfterwardsIsRefusedByBackward) {
  test::on_ranks(GetParam(), [](const auto& group) {
    const auto model = std::make_shared<Stack>(0.5, 3, DType::f32);
    FullyShardedDataParallel fsdp(model, group, {});
    const Variable x(test::wave({4, 6}, 0.2, DType::f32));
    model->to(DType::f32);
    sum(fsdp.forward(x)).backward();
    const auto gathered = fsdp.gathered();
    for (const Variable& parameter : model->parameters())
      parameter.set_value(parameter.data().clone());
    EXPECT_THROW(sum(fsdp.forward(x)).backward(), Error);
  });
}

TEST_P(FullyShard, LossBackwardGivesTheMeanOverRanks) {
  const Batch batch = make_batch(60, 0.3);  // divides by every number of ranks
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    Stack alone;
    loss_of_share(fsdp, share_of(batch, *group)).backward();
    loss_of_share(alone, batch).backward();
    expect_same_descent(fsdp, alone, 1e-14);
  });
}

TEST_P(FullyShard, PassesAddUpAndThoseWithinNoSyncAreSummedByTheNext) {
  const Batch batch = make_batch(60, 0.3);
  for (const FullyShardOptions& options : ways_to_shard()) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group, options);
      Stack alone;
      const Batch share = share_of(batch, *group);
      const std::int64_t half = share.rows() / 2;
      const double ranks = group->size();
      const Batch first = share.rows(0, half), second = share.rows(half, share.rows());
      {
        const auto local = fsdp.no_sync();
        fsdp.backward(loss_of_share(fsdp, first), 0.25 / ranks);
        loss_of_share(fsdp, second).backward();  // 1 / ranks
        EXPECT_EQ(gradients_of(fsdp).size(), 0U) << "nothing is summed within no_sync()";
      }
      fsdp.backward(loss_of_share(fsdp, second), 0.5 / ranks);
      loss_of_share(fsdp, first).backward();  // adds 1 / ranks
      for (const auto& [part, weight] : {std::pair(0, 1.25), {1, 1.5}}) {
        for (int r = 0; r < group->size(); ++r) {
          const Batch whole = batch.share(r, group->size());
          const Batch rows = part == 0 ? whole.rows(0, half) : whole.rows(half, whole.rows());
          loss_of_share(alone, rows).backward(weight / ranks);
        }
      }
      expect_same_descent(fsdp, alone, 1e-13);
    });
  }
}

TEST_P(FullyShard, GradientsKeptWithinNoSyncAreDroppedByZeroGrad) {
  const Batch batch = make_batch(60, 0.3);
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    Stack alone;
    const Batch share = share_of(batch, *group);
    {
      const auto local = fsdp.no_sync();
      loss_of_share(fsdp, share).backward();
    }
    fsdp.zero_grad();
    loss_of_share(fsdp, share).backward();
    loss_of_share(alone, batch).backward();
    expect_same_descent(fsdp, alone, 1e-14);
  });
}

/// B tanh(A x), where A is frozen: its part of backward follows B's, when all of the unit's
/// gradients are final.
struct Adapter : nn::Module {
  explicit Adapter(double seed)
      : A(register_parameter("A", test::wave({6, 6}, seed))),
        B(register_parameter("B", test::wave({6, 6}, seed + 1))) {
    A.set_requires_grad(false);
  }
  Variable forward(const Variable& x) override {
    return x + linear(test::tanh(linear(x, A, {})), B, {});
  }
  Variable A, B;
};

TEST_P(FullyShard, FrozenParametersPassGradientsOnAndStay) {
  const auto make = [] {
    auto model = std::make_shared<nn::Sequential>();
    model->push_back(std::make_shared<Adapter>(0.1));
    auto frozen = std::make_shared<Adapter>(0.2);
    frozen->set_requires_grad(false);
    model->push_back(frozen);
    model->push_back(std::make_shared<Adapter>(0.3));
    return model;
  };
  for (const bool reshards : {true, false}) {
    const auto alone = make();
    optim::SGD reference(alone->trained_parameters(), {.lr = 0.1, .momentum = 0.9});
    for (int s = 0; s < 3; ++s) step(*alone, reference, make_batch(13, 0.1 * s));
    test::on_ranks(GetParam(), [&](const auto& group) {
      FullyShardedDataParallel fsdp(make(), group, {.reshard_after_forward = reshards});
      EXPECT_EQ(fsdp.trained_parameters().size(), 2U);
      optim::SGD sgd(fsdp.trained_parameters(), {.lr = 0.1, .momentum = 0.9});
      for (int s = 0; s < 3; ++s) step(fsdp, sgd, make_batch(13, 0.1 * s));
      expect_equal(fsdp, *alone, 1e-12);
    });
  }
}

TEST_P(FullyShard, ParametersThatAreFrozenLaterPassGradientsOn) {
  const auto make = [] {
    auto model = std::make_shared<nn::Sequential>();
    for (const double seed : {0.1, 0.2, 0.3}) {
      auto adapter = std::make_shared<Adapter>(seed);
      adapter->set_requires_grad(true);
      model->push_back(adapter);
    }
    return model;
  };
  const auto freeze = [](nn::Module& model) {
    for (const auto& [name, child] : model.children())
      static_cast<Adapter&>(*child).A.set_requires_grad(false);
  };
  for (const bool reshards : {true, false}) {
    const auto alone = make();
    optim::SGD reference(alone->trained_parameters(), {.lr = 0.1});
    step(*alone, reference, make_batch(13, 0.1));
    freeze(*alone);
    step(*alone, reference, make_batch(13, 0.2));
    test::on_ranks(GetParam(), [&](const auto& group) {
      FullyShardedDataParallel fsdp(make(), group, {.reshard_after_forward = reshards});
      optim::SGD sgd(fsdp.trained_parameters(), {.lr = 0.1});
      step(fsdp, sgd, make_batch(13, 0.1));
      freeze(fsdp.module());
      step(fsdp, sgd, make_batch(13, 0.2));
      expect_equal(fsdp, *alone, 1e-12);
    });
  }
}

/// Two blocks that hold the same matrix: it is in neither unit.
TEST_P(FullyShard, AParameterThatTwoUnitsShareIsTrainedOnce) {
  struct Again : nn::Module {
    explicit Again(const Variable& of) : W(register_parameter("W", of)) {}
    Variable forward(const Variable& x) override { return test::tanh(linear(x, W, b)); }
    Variable W, b = register_parameter("b", test::wave({7}, 0.9));
  };
  struct Tied : Stack {
    Tied() : Stack(0.5, 1) {
      h->push_back(std::make_shared<Again>(static_cast<test::StackBlock&>((*h)[0]).W));
      h->push_back(h->children()[0].second);
    }
  };
  Tied alone;
  optim::AdamW reference(alone.named_parameters(), {.lr = 0.01});
  for (int s = 0; s < 3; ++s) step(alone, reference, make_batch(13, 0.1 * s));
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Tied>(), group);
    optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
    for (int s = 0; s < 3; ++s) step(fsdp, optimizer, make_batch(13, 0.1 * s));
    expect_equal(fsdp, alone, 1e-10);
  });
}

TEST_P(FullyShard, TheParametersOnWhichALossDependsMayDifferBetweenRanks) {
  const Batch batch = make_batch(60, 0.3);
  for (const FullyShardOptions& options : ways_to_shard()) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const int ranks = group->size();
      const auto model = std::make_shared<TwoOutputs>();
      TwoOutputs alone;
      FullyShardedDataParallel fsdp(model, group, options);
      for (int s = 0; s < 2; ++s) {  // the last rank's first, then all ranks'
        const auto is_early = [&](int rank) { return s == 1 || rank == ranks - 1; };
        model->early = is_early(group->rank());
        fsdp.zero_grad();
        loss_of_share(fsdp, share_of(batch, *group)).backward();
        alone.zero_grad();
        for (int r = 0; r < ranks; ++r) {
          alone.early = is_early(r);
          loss_of_share(alone, batch.share(r, ranks)).backward(1.0 / ranks);
        }
        expect_same_descent(fsdp, alone, 1e-13);
      }
      EXPECT_EQ(fsdp.never_used(), ranks > 1 ? std::vector<std::string>({"unused"})
                                             : std::vector<std::string>(
                                                   {"unused", "h.1.W", "h.1.b", "h.2.W", "h.2.b"}));
    });
  }
}

TEST_P(FullyShard, ALossMayLeaveOutMoreUnitsThanThereAreBuffers) {
  const Batch batch = make_batch(60, 0.3);
  test::on_ranks(GetParam(), [&](const auto& group) {
    const int ranks = group->size();
    const auto model = std::make_shared<TwoOutputs>(7);
    TwoOutputs alone(7);
    FullyShardedDataParallel fsdp(model, group);
    const auto is_early = [&](int rank) { return rank == ranks - 1; };
    model->early = is_early(group->rank());
    loss_of_share(fsdp, share_of(batch, *group)).backward();
    for (int r = 0; r < ranks; ++r) {
      alone.early = is_early(r);
      loss_of_share(alone, batch.share(r, ranks)).backward(1.0 / ranks);
    }
    expect_same_descent(fsdp, alone, 1e-12);
  });
}

TEST_P(FullyShard, ReleaseGivesTheModuleItsParametersBack) {
  for (const std::optional<DType> param_dtype :
       {std::optional<DType>(), std::optional(DType::bf16)}) {
    const DType dtype = param_dtype ? DType::f32 : DType::f64;
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = std::make_shared<Stack>(0.5, 3, dtype);
      Stack alone(0.5, 3, dtype);
      {
        FullyShardedDataParallel fsdp(model, group, {.param_dtype = param_dtype});
        fsdp.release();
      }
      optim::SGD whole(model->named_parameters(), {.lr = 0.1});
      optim::SGD reference(alone.named_parameters(), {.lr = 0.1});
      step(*model, whole, make_batch(13, 0.1, dtype));
      step(alone, reference, make_batch(13, 0.1, dtype));
      const auto actual = model->named_parameters(), expected = alone.named_parameters();
      for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(max_difference(actual[i].variable.data(), expected[i].variable.data()), 0.0)
            << actual[i].name;
      }
    });
  }
}

TEST_P(FullyShard, AForwardWithoutGradientsChangesNothing) {
  const Batch batch = make_batch(60, 0.3);
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    Stack alone;
    const Batch share = share_of(batch, *group);
    const auto evaluate = [&](auto& model) {
      const NoGradGuard no_grad;
      return model.forward(Variable(batch.x)).data();
    };
    EXPECT_LE(max_difference(evaluate(fsdp), evaluate(alone)), 1e-14);
    const Variable loss = loss_of_share(fsdp, share);
    EXPECT_LE(max_difference(evaluate(fsdp), evaluate(alone)), 1e-14) << "before backward";
    loss.backward();
    loss_of_share(alone, batch).backward();
    expect_same_descent(fsdp, alone, 1e-14);
    EXPECT_LE(max_difference(evaluate(fsdp), evaluate(alone)), 1e-13) << "after a step";
  });
}

TEST_P(FullyShard, TheNormOfAllGradientsIsThatOfTheUndividedModel) {
  const Batch batch = make_batch(13, 0.3);
  Stack alone;
  loss_of_share(alone, batch).backward();
  const double expected = optim::grad_norm(alone.named_parameters());
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    const Batch share = share_of(batch, *group);
    fsdp.backward(loss_of_share(fsdp, share), weight_of(share, batch));
    const double norm = fsdp.grad_norm();
    EXPECT_NEAR(norm, expected, 1e-13 * expected);
    EXPECT_TRUE(test::same_on_all_ranks(
        *group, std::string(reinterpret_cast<const char*>(&norm), sizeof norm)));
  });
}

TEST_P(FullyShard, AveragesOfPiecesAreThoseOfTheUndividedModel) {
  Stack alone;
  optim::SGD reference(alone.named_parameters(), {.lr = 0.1});
  optim::AveragedModel averages(alone, 0.9);
  for (int s = 0; s < 3; ++s) {
    step(alone, reference, make_batch(13, 0.1 * s));
    averages.update_parameters();
  }
  averages.swap();
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1});
    optim::AveragedModel of_pieces(fsdp.named_parameters(), 0.9);
    for (int s = 0; s < 3; ++s) {
      step(fsdp, sgd, make_batch(13, 0.1 * s));
      of_pieces.update_parameters();
    }
    of_pieces.swap();
    expect_equal(fsdp, alone, 1e-12);
  });
}

TEST_P(FullyShard, EveryRunHasTheSameBits) {
  const auto bits_of_a_run = [&] {
    std::string bits;
    test::on_ranks(GetParam(), [&](const auto& group) {
      FullyShardedDataParallel fsdp(std::make_shared<Stack>(0.5, 3, DType::f32), group);
      optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
      for (int s = 0; s < 3; ++s) {
        const Batch batch = make_batch(13, 0.1 * s, DType::f32);
        step(fsdp, optimizer, batch);
      }
      const auto gathered = fsdp.gathered();
      std::string mine;
      for (const Variable& parameter : fsdp.module().parameters())
        mine += test::bytes_of(parameter.data());
      EXPECT_TRUE(test::same_on_all_ranks(*group, mine));
      if (group->rank() == 0) bits = mine;
    });
    return bits;
  };
  EXPECT_EQ(bits_of_a_run(), bits_of_a_run());
}

TEST_P(FullyShard, AbsentParametersReadAsNaN) {
  if (test::asked_for_device() != Device{}) return;  // promised of the host only
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    const Batch batch = make_batch(4, 0.3);
    const NoGradGuard no_grad;
    static_cast<void>(fsdp.forward(Variable(batch.x)));
    for (const Variable& parameter : fsdp.module().parameters()) {
      for (const double x : parameter.data().template to_vector<double>())
        EXPECT_TRUE(std::isnan(x));
    }
  });
}

/// The message of the error that `call` throws.
template <class Call>
std::string refusal_of(const Call& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST_P(FullyShard, WrongUnitsAndTypesAreRefused) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto refusal = [&](const FullyShardOptions& options, DType dtype = DType::f32) {
      const auto model = std::make_shared<Stack>(0.5, 3, dtype);
      return refusal_of([&] { FullyShardedDataParallel(model, group, options); });
    };
    EXPECT_NE(refusal({.units = {"layers.*"}}).find("'layers.*' fits no module"),
              std::string::npos);
    EXPECT_NE(refusal({.param_dtype = DType::f64}).find("bf16 or f16"), std::string::npos);
    EXPECT_NE(refusal({.reduce_dtype = DType::i32}).find("f32, bf16 or f16"), std::string::npos);
    EXPECT_NE(refusal({.param_dtype = DType::bf16}, DType::f64).find("parameters of f32"),
              std::string::npos);
    EXPECT_NE(refusal_of([&] {
                FullyShardedDataParallel(std::make_shared<nn::Sequential>(), group);
              }).find("no parameters"),
              std::string::npos);

    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    EXPECT_NE(refusal_of([&] { fsdp.backward({}, 0.0); }).find("batch of 0 samples"),
              std::string::npos);

    FullyShardedDataParallel small(std::make_shared<Stack>(0.5, 1, DType::f32), group);
    const auto elements = agree(*group, [&] {
      std::int64_t own = 0;
      for (const auto& piece : small.trained_parameters()) own += piece.variable.data().numel();
      return own;
    });
    EXPECT_TRUE(group->size() != 4 || std::ranges::min(elements) == 0);
    if (std::ranges::min(elements) == 0) {
      EXPECT_NE(refusal_of([&] { small.agree_on_found_inf(); }).find("no element"),
                std::string::npos);
    }

    // A list is not called as a module, so a unit of it is never entered.
    FullyShardedDataParallel list(std::make_shared<Stack>(), group, {.units = {"h"}});
    const Batch batch = make_batch(60, 0.3);
    const Variable loss = loss_of_share(list, share_of(batch, *group));
    EXPECT_NE(refusal_of([&] { loss.backward(); }).find("outside of the unit's forward"),
              std::string::npos);
  });
}

/// In f64; the embedding is also the last layer's matrix.
TEST_P(FullyShard, AGptThatComputesItsBlocksAgainTrainsAsTheUndividedOne) {
  const auto make = [](bool recompute) {
    nn::manual_seed(5);
    const nn::DTypeGuard precise(DType::f64);
    const nn::DeviceGuard device(test::asked_for_device());
    return std::make_shared<nn::Gpt>(nn::GptOptions{.vocabulary = 17,
                                                    .context = 6,
                                                    .width = 8,
                                                    .depth = 3,
                                                    .heads = 2,
                                                    .recompute = recompute});
  };
  const auto tokens = [](int rows, int phase) {
    std::vector<std::int64_t> values;
    for (int i = 0; i < rows * 6; ++i) values.push_back((phase + i * i) % 17);
    return Tensor::from(values, {rows, 6}).to(test::asked_for_device());
  };
  for (const bool recompute : {false, true}) {
    for (const bool reshards : {true, false}) {
      const auto alone = make(false);
      optim::AdamW reference(alone->named_parameters(), {.lr = 0.01});
      for (int s = 0; s < 3; ++s) {
        reference.zero_grad();
        alone->loss(Variable(tokens(12, s)), tokens(12, s + 1)).backward();
        reference.step();
      }
      test::on_ranks(GetParam(), [&](const auto& group) {
        const auto model = make(recompute);
        FullyShardedDataParallel fsdp(model, group, {.reshard_after_forward = reshards});
        optim::AdamW optimizer(fsdp.named_parameters(), {.lr = 0.01});
        const std::int64_t begin = 12 * group->rank() / group->size(),
                           end = 12 * (group->rank() + 1) / group->size();
        for (int s = 0; s < 3; ++s) {
          fsdp.zero_grad();
          const Variable loss = fsdp.forward([&](nn::Module&) {
            return model->loss(Variable(tokens(12, s).slice(begin, end)),
                               tokens(12, s + 1).slice(begin, end));
          });
          fsdp.backward(loss, static_cast<double>(end - begin) / 12.0);
          optimizer.step();
        }
        expect_equal(fsdp, *alone, 1e-10);
      });
    }
  }
}

TEST_P(FullyShard, ShardsStayInF32WhileBf16IsGatheredAndReduced) {
  for (const std::optional<DType> reduce : {std::optional<DType>(), std::optional(DType::f32)}) {
    // One rank's model in bf16, of which the optimizer keeps copies in f32, is the reference.
    const auto round = [](const nn::Module& model) {
      for (const Variable& p : model.parameters())
        p.data().copy_from(p.data().to(DType::bf16).to(DType::f32));
    };
    Stack alone(0.5, 3, DType::f32);
    round(alone);
    alone.to(DType::bf16);
    optim::SGD reference(alone.named_parameters(), {.lr = 0.1, .momentum = 0.5});
    for (int s = 0; s < 3; ++s) step(alone, reference, make_batch(16, 0.1 * s, DType::bf16));
    test::on_ranks(GetParam(), [&](const auto& group) {
      const auto model = std::make_shared<Stack>(0.5, 3, DType::f32);
      round(*model);
      FullyShardedDataParallel fsdp(model, group,
                                    {.param_dtype = DType::bf16, .reduce_dtype = reduce});
      EXPECT_EQ(model->into.data().dtype(), DType::bf16);
      EXPECT_EQ(fsdp.named_parameters()[0].variable.data().dtype(), DType::f32);
      optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1, .momentum = 0.5});
      for (int s = 0; s < 3; ++s) step(fsdp, sgd, make_batch(16, 0.1 * s, DType::bf16));
      const bool is_exact = group->size() == 1 && !reduce;
      expect_equal(fsdp, alone, is_exact ? 0.0 : 0.02);
    });
  }
}

TEST_P(FullyShard, AParameterThatWasFrozenAtConstructionIsRefusedOnceItIsTrained) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Adapter>(0.1);
    FullyShardedDataParallel fsdp(model, group);
    model->A.set_requires_grad(true);
    const Batch batch = make_batch(13, 0.1);
    const auto refused = refusal_of(
        [&] { fsdp.backward(loss_of_share(fsdp, share_of(batch, *group)), 1.0 / group->size()); });
    EXPECT_NE(refused.find("'A' is trained, but was frozen at construction"), std::string::npos)
        << refused;
  });
}

TEST_P(FullyShard, WeightsAreNotLoadedIntoTheModuleWhoseValuesAreElsewhere) {
  test::on_ranks(GetParam(), [&](const auto& group) {
    const auto model = std::make_shared<Stack>();
    const Stack other(0.7);
    FullyShardedDataParallel fsdp(model, group);
    const auto refused = refusal_of([&] { model->load_state_dict(other.state_dict()); });
    EXPECT_NE(refused.find("what is written here would be lost"), std::string::npos) << refused;
    const Tensor weight = model->named_parameters().front().variable.data();
    const auto scaled = refusal_of([&] { weight *= 0.5; });
    EXPECT_TRUE(scaled.starts_with("*= of ")) << scaled;
    fsdp.load_state_dict(other.state_dict());
    expect_equal(fsdp, other, 0.0);
  });
}

TEST_P(FullyShard, ADecoderWhosePartsTakeTwoTensorsIsThatOfOneRank) {
  struct Decoder : nn::Module {
    Decoder()
        : decoder(register_module(
              "decoder",
              std::make_shared<nn::TransformerDecoder>(
                  2, 8, 2, nn::TransformerDecoderOptions{.dim_feedforward = 9, .dropout = 0.0}))) {}
    Variable forward(const Variable& x) override {
      return decoder->forward(narrow(x, 1, 0, 3), narrow(x, 1, 3, 4), {.tgt_is_causal = true});
    }
    std::shared_ptr<nn::TransformerDecoder> decoder;
  };
  for (const FullyShardOptions& options :
       {FullyShardOptions{}, {.units = {"decoder.layers.?.linear?", "decoder.layers.?.*attn"}}}) {
    test::on_ranks(GetParam(), [&](const auto& group) {
      const nn::DeviceGuard device(test::asked_for_device());
      const nn::DTypeGuard f64(DType::f64);
      FullyShardedDataParallel fsdp(std::make_shared<Decoder>(), group, options);
      Decoder alone;
      {
        const auto gathered = fsdp.gathered();
        const auto whole = fsdp.module().named_parameters(), own = alone.named_parameters();
        for (std::size_t i = 0; i < own.size(); ++i)
          own[i].variable.data().copy_from(whole[i].variable.data());
      }
      const Variable x(test::wave({2, 7, 8}, 0.3));
      {
        const NoGradGuard no_grad;
        EXPECT_LE(max_difference(fsdp.forward(x).data(), alone.forward(x).data()), 1e-12);
      }
      optim::SGD sgd(fsdp.named_parameters(), {.lr = 0.1}),
          expected(alone.named_parameters(), {.lr = 0.1});
      for (int step = 0; step < 2; ++step) {
        const auto loss_of = [&](const Variable& y) { return mean(y * y * y); };
        fsdp.zero_grad();
        fsdp.backward(loss_of(fsdp.forward(x)), 1.0 / group->size());
        sgd.step();
        expected.zero_grad();
        loss_of(alone.forward(x)).backward();
        expected.step();
      }
      expect_equal(fsdp, alone, 1e-12);
    });
  }
}

TEST_P(FullyShard, AStepThatFailsLeavesTheNextOneAsItWas) {
  const Batch batch = make_batch(60, 0.3);
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group);
    Stack alone;
    const Batch share = share_of(batch, *group);
    EXPECT_THROW(static_cast<void>(fsdp.forward(Variable(batch.target))), Error);
    const Variable output = fsdp.forward(Variable(share.x));
    EXPECT_THROW(fsdp.backward(output, 1.0), Error) << "a loss of several elements";
    fsdp.zero_grad();
    loss_of_share(fsdp, share).backward();
    loss_of_share(alone, batch).backward();
    expect_same_descent(fsdp, alone, 1e-14);
  });
}

TEST_P(FullyShard, OnePassMayGoThroughTwoModels) {
  const auto second = [] {
    return std::make_shared<nn::Linear>(test::wave({4, 4}, 0.7), Tensor());
  };
  const Batch batch = make_batch(60, 0.3);
  test::on_ranks(GetParam(), [&](const auto& group) {
    FullyShardedDataParallel fsdp(std::make_shared<Stack>(), group), head(second(), group);
    Stack alone;
    const auto whole = second();
    const Batch share = share_of(batch, *group);
    for (const bool weighted : {true, false}) {
      fsdp.zero_grad();
      head.zero_grad();
      alone.zero_grad();
      whole->zero_grad();
      const Variable loss =
          cross_entropy(head.forward(fsdp.forward(Variable(share.x))), share.target);
      if (weighted) {
        head.backward(loss, weight_of(share, batch));
      } else {
        loss.backward();
      }
      cross_entropy(whole->forward(alone.forward(Variable(batch.x))), batch.target).backward();
      expect_same_descent(fsdp, alone, 1e-13);
      expect_same_descent(head, *whole, 1e-13);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, FullyShard, testing::ValuesIn(test::rank_counts()));

}  // namespace
}  // namespace lockstep
