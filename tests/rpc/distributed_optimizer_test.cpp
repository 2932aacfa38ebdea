// Optimizers of parameters elsewhere, against the same training on one rank.
#include <cmath>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/nn/module.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/adan.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/rpc/distributed_optimizer.hpp>
#include <lockstep/rpc/rpc.hpp>
#include <rpc/affine.hpp>
#include <rpc/workers.hpp>
#include <support/message_of.hpp>

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

/// An optimizer of a program's own: SGD that keeps a share of the last step.
struct KeepingOptions {
  double lr = 0.5, share = 0.0;
  std::vector<std::string> names;
  bool on = false;
};
void declare(DeckTable& table, KeepingOptions& options) {
  table.key("lr", options.lr, {.doc = "learning rate"});
  table.key("share", options.share, {.doc = "of the last step"});
  table.key("names", options.names, {.doc = "of nothing"});
  table.key("on", options.on, {.doc = "whether it is kept"});
}
class Keeping : public optim::SGD {
 public:
  Keeping(std::vector<nn::NamedParameter> parameters, const KeepingOptions& options,
          const std::vector<optim::ParameterGroup>& groups)
      : SGD(std::move(parameters), {.lr = options.lr, .momentum = options.on ? options.share : 0.0},
            groups) {
    if (options.names != std::vector<std::string>{"a", "b"}) throw Error("other options came");
  }
};
const bool keeping_is_registered = [] {
  optim::register_optimizer<Keeping, KeepingOptions>("keeping",
                                                     "SGD that keeps a share of the last step");
  return true;
}();

std::vector<OptimizerOptions> every_kind() {
  using namespace optim;
  EXPECT_TRUE(keeping_is_registered);
  return {{.kind = SgdOptions{.lr = 0.1}},
          {.kind = SgdOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01}, .clip_norm = 0.1},
          {.kind = AdamOptions{.lr = 0.1}},
          {.kind = AdamWOptions{.lr = 0.1, .weight_decay = 0.1}},
          {.kind = LarsOptions{.lr = 0.1, .momentum = 0.9, .not_adapted = {"parameter1"}}},
          {.kind = LambOptions{.lr = 0.1}},
          {.kind = RmspropOptions{.lr = 0.1, .alpha = 0.5, .centered = true}},
          {.kind = AdagradOptions{.lr = 0.1, .lr_decay = 0.5, .initial_accumulator_value = 0.5}},
          {.kind = AdadeltaOptions{.lr = 0.1, .rho = 0.5}},
          {.kind = AdamaxOptions{.lr = 0.1}},
          {.kind = NAdamOptions{.lr = 0.1, .momentum_decay = 0.5}},
          {.kind = RAdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}},
          {.kind = AsgdOptions{.lr = 0.1, .lambd = 0.5, .alpha = 0.5, .t0 = 1.0}},
          {.kind = LionOptions{.lr = 0.1}},
          {.kind = AdanOptions{.lr = 0.1, .betas = {0.5, 0.25, 0.75}, .no_prox = true}},
          {.kind = KeepingOptions{.lr = 0.1, .share = 0.5, .names = {"a", "b"}, .on = true}}};
}

TEST(DistributedOptimizer, OfEveryKindTrainsWithTheBitsOfALocalOne) {
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
        here->step({.gradient_factor = optim::clip_gradients(options, here->parameters()).factor});
      }
      EXPECT_EQ(all_of(remote.rpc_sync(&Affine::values)), all_of(local.values()));
      everywhere.set_lr(0.0);
    }
  });
}

TEST(DistributedOptimizer, PatternsMayFitTheParametersOfOneOwnerAlone) {
  test::on_workers_of_both_kinds([](ProcessGroup& group) {
    std::vector<RRef<Variable>> parameters;
    for (int rank = 0; rank < group.size(); ++rank) {
      for (const auto& one : rpc::remote(rank, make_affine, 0.5).rpc_sync(&Affine::parameters_here))
        parameters.push_back(one);
    }
    const auto options = [](const std::string& pattern) {
      return OptimizerOptions{.kind = optim::LambOptions{.lr = 0.1, .not_adapted = {pattern}},
                              .group_pattern = {pattern},
                              .group_lr_factor = {0.5}};
    };
    const rpc::DistributedOptimizer optimizer(options("parameter0"), parameters);
    EXPECT_NE(test::message_of<InputError>([&] {
                const rpc::DistributedOptimizer wrong(options("parameter99"), parameters);
              }).find("'parameter99' matches no parameter"),
              std::string::npos);
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
    rpc::DistributedOptimizer optimizer({.kind = optim::SgdOptions{.lr = 0.1, .momentum = 0.9}},
                                        parameters);
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
    const OptimizerOptions options{.kind = optim::SgdOptions{.lr = 0.1}, .clip_norm = 0.1};
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
    here->step({.gradient_factor = optim::clip_gradients(options, here->parameters()).factor});
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
    const auto message = test::thrown_by<Error>(
        [&] { rpc::DistributedOptimizer({.kind = optim::SgdOptions{.lr = -1.0}}, parameters); });
    EXPECT_NE(message.find("learning rate"), std::string::npos) << message;
    EXPECT_NE(test::thrown_by<Error>([&] { rpc::DistributedOptimizer({}, {}); }), "");
  });
}

}  // namespace
}  // namespace lockstep
