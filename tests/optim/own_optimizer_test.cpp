// Optimizers that a program brings along.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/adan.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/optimizer_of.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <support/message_of.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using test::message_of;
using test::parameter;
using test::set_grad;
using test::values;

/// The gradient of the last step counts once more.
struct EchoOptions {
  double lr = 0.5;
  double echo = 0.25;
};
void declare(DeckTable& table, EchoOptions& options) {
  table.key("lr", options.lr, {.doc = "learning rate", .min = 0.0});
  table.key("echo", options.echo, {.doc = "share of the last gradient", .min = 0.0});
}

class Echo : public optim::OptimizerOf<EchoOptions> {
 public:
  Echo(std::vector<nn::NamedParameter> parameters, const EchoOptions& options,
       const std::vector<optim::ParameterGroup>& groups)
      : OptimizerOf(std::move(parameters), options, groups, {.name = "Echo", .slots = {{"last"}}}) {
  }

 private:
  void update(const Run& run) override {
    const Tensor& last = run.slots[0];
    add_scaled(run.gradient, -run.lr, run.parameter);
    add_scaled(last, -run.lr * options_of(run).echo, run.parameter);
    last.copy_from(run.gradient);
  }
};

struct WithoutRateOptions {
  double lr = 0.5;
};
void declare(DeckTable&, WithoutRateOptions&) {}
class WithoutRate : public Echo {
 public:
  WithoutRate(std::vector<nn::NamedParameter> parameters, const WithoutRateOptions&,
              const std::vector<optim::ParameterGroup>& groups)
      : Echo(std::move(parameters), {}, groups) {}
};

struct NobodysOptions {
  double lr = 0.5;
};
void declare(DeckTable& table, NobodysOptions& options) {
  table.key("lr", options.lr, {.doc = "learning rate"});
}

class OwnOptimizer : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    optim::register_optimizer<Echo, EchoOptions>("echo", "steps that are heard twice");
    optim::register_optimizer<WithoutRate, WithoutRateOptions>("without_rate", "has no lr");
  }
};

optim::OptimizerOptions read(const std::string& lines) {
  Deck deck = Deck::parse("[optimizer]\n" + lines, "own.toml");
  auto options = optim::read_optimizer_options(deck);
  deck.check_all_read();
  return options;
}

TEST_F(OwnOptimizer, IsChosenByADeckAndTakesItsOptions) {
  const auto options = read("kind = 'echo'\nlr = 0.25\necho = 0.5\nclip_norm = 3.0\n");
  EXPECT_EQ(options.lr(), 0.25);
  EXPECT_EQ(options.clip_norm, 3.0);
  const auto w = parameter("w", {1.0F});
  const auto optimizer = optim::make_optimizer(options, {w});
  EXPECT_EQ(optimizer->initial_lr(), 0.25);
  for (const double gradient : {1.0, 2.0}) {
    set_grad(w.variable, gradient);
    optimizer->step();
  }
  EXPECT_EQ(values(w)[0], 1.0F - 0.25F * 1.0F - 0.25F * (2.0F + 0.5F * 1.0F));
  EXPECT_EQ(optimizer->state_dict().at("w/last").to_vector<float>(), std::vector<float>{2.0F});
}

TEST_F(OwnOptimizer, IsMadeFromItsOptionsAsLockstepsOwnAre) {
  const auto w = parameter("w", {1.0F});
  const auto optimizer = optim::make_optimizer({.kind = EchoOptions{.lr = 0.125}}, {w});
  EXPECT_EQ(optimizer->lr(), 0.125);
}

TEST_F(OwnOptimizer, HasAPlaceInErrorsResolvedDecksAndTheReference) {
  const auto misspelt = message_of<InputError>([] { read("kind = 'ecco'\n"); });
  EXPECT_NE(misspelt.find("Did you mean \"echo\"?"), std::string::npos) << misspelt;
  EXPECT_EQ(message_of<InputError>([] { read("kind = 'adam'\necho = 1.0\n"); }),
            "own.toml:3: optimizer.echo is a key of optimizer.kind = \"echo\", but optimizer.kind "
            "is \"adam\". Remove the key, or choose that kind.");
  Deck deck = Deck::parse("[optimizer]\nkind = 'echo'\n", "own.toml");
  static_cast<void>(optim::read_optimizer_options(deck));
  EXPECT_EQ(deck.resolved().rfind("[optimizer]\nkind = \"echo\"\nlr = 0.5\necho = 0.25\nclip_", 0),
            0U)
      << deck.resolved();
  DeckReference reference;
  reference.add<optim::OptimizerOptions>("optimizer", "of all kinds");
  EXPECT_NE(reference.markdown().find("### `[optimizer]` with `kind = \"echo\"`"),
            std::string::npos);
}

TEST_F(OwnOptimizer, HasGroupsWithOptionsOfTheirOwnThatCheckpointsKeep) {
  Echo echo({parameter("a", {0.0F}), parameter("b", {0.0F})}, {.lr = 1.0, .echo = 0.25},
            {{.pattern = "b", .others = {{"echo", {0.75}}}}});
  EXPECT_EQ(echo.param_groups().at("param_groups/0/echo").item(), 0.75);
  EXPECT_EQ(echo.param_groups().at("param_groups/1/echo").item(), 0.25);
  EXPECT_EQ(message_of<InputError>(
                [] { Echo({parameter("a", {0.0F})}, {}, {{.pattern = "a", .eps = 0.5}}); }),
            "parameter group 'a': Echo has no option eps");
}

TEST_F(OwnOptimizer, IsRegisteredOnceAndBeforeItsOptionsAreUsed) {
  EXPECT_THROW((optim::register_optimizer<Echo, EchoOptions>("again", "")), Error);
  const auto message =
      message_of<Error>([] { static_cast<void>(optim::OptimizerKind(NobodysOptions())); });
  EXPECT_NE(message.find("Add the kind before"), std::string::npos) << message;
}

TEST_F(OwnOptimizer, DeclaresTheRateThatSchedulesStartFrom) {
  const auto message =
      message_of<Error>([] { static_cast<void>(read("kind = 'without_rate'").lr()); });
  EXPECT_NE(message.find("\"without_rate\" declare no key \"lr\""), std::string::npos) << message;
}

TEST(Adan, TakesOptionsOfAGroupByTheirDeckKeys) {
  const auto a = parameter("a", {1.0F, -2.0F}), b = parameter("b", {1.0F, -2.0F});
  const auto a2 = parameter("a", {1.0F, -2.0F}), b2 = parameter("b", {1.0F, -2.0F});
  const optim::AdanOptions usual{.weight_decay = 0.5},
      changed{.betas = {0.5, 0.25, 0.75}, .weight_decay = 0.5, .no_prox = true};
  optim::Adan together(
      {a, b}, usual,
      {{.pattern = "b", .others = {{"betas", {0.5, 0.25, 0.75}}, {"no_prox", {1}}}}}),
      of_a({a2}, usual), of_b({b2}, changed);
  for (int step = 0; step < 4; ++step) {
    for (const auto& p : {a, b, a2, b2}) set_grad(p.variable, 0.5 + step);
    together.step();
    of_a.step();
    of_b.step();
  }
  EXPECT_EQ(values(a), values(a2));
  EXPECT_EQ(values(b), values(b2));
  EXPECT_NE(values(a), values(b));
  EXPECT_EQ(message_of<InputError>([&] {
              optim::Adan({a}, {}, {{.pattern = "a", .betas = {{0.5, 0.25}}}});
            }),
            "parameter group 'a': Adan's betas has 3 elements, not 2");
}

}  // namespace
}  // namespace lockstep
