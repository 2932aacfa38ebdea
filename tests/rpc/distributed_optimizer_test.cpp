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
          {.kind = Kind::lamb, .lr = 0.1, .eps = 1e-6}};
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
