// Optimizers of parameters elsewhere, against the same training on one rank.
#include <cmath>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <rpc/affine.hpp>
#include <rpc/workers.hpp>

namespace lockstep {
namespace {

using test::Affine;
using test::input;
using test::loss_of;
using test::make_affine;
namespace da = dist_autograd;
using optim::OptimizerOptions;
using rpc::RRef;
using rpc::Updates;
using Values = std::vector<double>;

Values all_of(const std::vector<Tensor>& tensors) {
  Values all;
  for (const Tensor& t : tensors) {
    const auto part = t.to_vector<double>();
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

std::vector<OptimizerOptions> every_kind() {
  using Kind = OptimizerOptions::Kind;
  return {{.lr = 0.1},
          {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .clip_norm = 0.1},
          {.kind = Kind::adam, .lr = 0.1},
          {.kind = Kind::adamw, .lr = 0.1, .weight_decay = 0.1},
          {.kind = Kind::lars, .lr = 0.1, .momentum = 0.9},
          {.kind = Kind::lamb, .lr = 0.1, .eps = 1e-6},
          {.kind = Kind::rmsprop, .lr = 0.1, .alpha = 0.5, .centered = true},
          {.kind = Kind::adagrad, .lr = 0.1, .lr_decay = 0.5, .initial_accumulator_value = 0.5},
          {.kind = Kind::adadelta, .lr = 0.1, .rho = 0.5},
          {.kind = Kind::adamax, .lr = 0.1},
          {.kind = Kind::nadam, .lr = 0.1, .momentum_decay = 0.5},
          {.kind = Kind::radam, .lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true},
          {.kind = Kind::asgd, .lr = 0.1, .alpha = 0.5, .lambd = 0.5, .t0 = 1.0},
          {.kind = Kind::lion, .lr = 0.1}};
}

TEST(DistributedOptimizer, OfEveryKindTrainsWithTheBitsOfTheSameOneHere) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    for (const OptimizerOptions& options : every_kind()) {
      const auto remote = rpc::remote(test::after(group), make_affine, 0.5);
      rpc::DistributedOptimizer everywhere(options, remote.rpc_sync(&Affine::parameters_here));
      Affine local(0.5);
      // Named as there, where groups and lists go by number.
      const auto here = optim::make_optimizer(
          options, {{"parameter0", local.weight}, {"parameter1", local.bias}});
      for (int step = 0; step < 4; ++step) {
        const da::Context context;
        da::backward(context, {loss_of(remote.rpc_sync(&Affine::forward, input(step)))});
        everywhere.step(context);

        here->zero_grad();
        loss_of(local.forward(input(step))).backward();
        here->step(optim::clip_gradients(options, here->parameters()).factor);
      }
      EXPECT_EQ(all_of(remote.rpc_sync(&Affine::values)), all_of(local.values()));
      everywhere.set_lr(0.0);
    }
  });
}

TEST(DistributedOptimizer, ReachesParametersOfEveryRankAndLeavesThoseWithoutAGradient) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    std::vector<RRef<Affine>> parts;
    std::vector<RRef<Variable>> parameters;
    for (int rank = 0; rank < group.size(); ++rank) {
      parts.push_back(rpc::remote(rank, make_affine, 0.5));
      for (const auto& one : parts.back().rpc_sync(&Affine::parameters_here))
        parameters.push_back(one);
    }
    rpc::DistributedOptimizer optimizer({.lr = 0.1, .momentum = 0.9}, parameters);
    const auto before = all_of(parts[0].rpc_sync(&Affine::values));
    {
      const da::Context context;
      da::backward(context, {loss_of(parts[0].rpc_sync(&Affine::forward, input(0)))});
      optimizer.step(context);
      EXPECT_NE(all_of(parts[0].rpc_sync(&Affine::values)), before);
      for (std::size_t i = 1; i < parts.size(); ++i)
        EXPECT_EQ(all_of(parts[i].rpc_sync(&Affine::values)), before);
    }
    EXPECT_NE(test::thrown_by<Error>([&] { optimizer.step(da::current_context()); }), "");
  });
}

TEST(DistributedOptimizer, ClipsTheNormOfTheGradientsOfAllRanksTogether) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    const OptimizerOptions options{.lr = 0.1, .clip_norm = 0.1};
    const auto near = rpc::remote(group.rank(), make_affine, 0.5);
    const auto far = rpc::remote(test::after(group), make_affine, 0.25);
    auto parameters = near.rpc_sync(&Affine::parameters_here);
    for (const auto& one : far.rpc_sync(&Affine::parameters_here)) parameters.push_back(one);
    rpc::DistributedOptimizer everywhere(options, parameters);
    const da::Context context;
    da::backward(context, {loss_of(near.rpc_sync(&Affine::forward, input(0))),
                           loss_of(far.rpc_sync(&Affine::forward, input(1)))});
    everywhere.step(context);

    Affine first(0.5), second(0.25);
    const auto here = optim::make_optimizer(options, {{"parameter0", first.weight},
                                                      {"parameter1", first.bias},
                                                      {"parameter2", second.weight},
                                                      {"parameter3", second.bias}});
    loss_of(first.forward(input(0))).backward();
    loss_of(second.forward(input(1))).backward();
    here->step(optim::clip_gradients(options, here->parameters()).factor);
    const auto expect_alike = [](const Values& there, const Values& values) {
      ASSERT_EQ(there.size(), values.size());
      for (std::size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(there[i], values[i], 1e-14);
    };
    expect_alike(all_of(near.rpc_sync(&Affine::values)), all_of(first.values()));
    expect_alike(all_of(far.rpc_sync(&Affine::values)), all_of(second.values()));
  });
}

TEST(DistributedOptimizer, OptionsOutOfRangeAreRefusedWhenItIsMade) {
  test::on_workers([](ProcessGroup& group) {
    const auto model = rpc::remote(test::after(group), make_affine, 0.5);
    const auto parameters = model.rpc_sync(&Affine::parameters_here);
    const auto message =
        test::thrown_by<Error>([&] { rpc::DistributedOptimizer({.lr = -1.0}, parameters); });
    EXPECT_NE(message.find("learning rate"), std::string::npos) << message;
    EXPECT_NE(test::thrown_by<Error>([&] { rpc::DistributedOptimizer({}, {}); }), "");
  });
}

}  // namespace
}  // namespace lockstep
