#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
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
#include <lockstep/optim/schedules.hpp>
#include <lockstep/optim/sgd.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

Deck deck(const std::string& toml) { return Deck::parse(toml, "test.toml"); }

using optim::OptimizerOptions;
using optim::ScheduleOptions;

OptimizerOptions optimizer_of(const std::string& lines) {
  auto source = deck("[optimizer]\n" + lines + "\n");
  auto options = optim::read_optimizer_options(source);
  source.check_all_read();
  return options;
}

/// The options of that kind.
template <class Options, class Kind>
Options own_of(const Kind& kind) {
  const auto* options = kind.template get_if<Options>();
  EXPECT_NE(options, nullptr) << kind.name();
  return options ? *options : Options();
}
/// Of the optimizer that the lines choose.
template <class Options>
Options own(const std::string& lines) {
  return own_of<Options>(optimizer_of(lines).kind);
}

TEST(OptimDeck, EveryKeyOfAllKindsReachesItsOption) {
  const auto options = optimizer_of(R"(
    clip_norm = 2.0
    group_pattern = ["a", "b*"]
    group_lr_factor = [2.0, 3.0]
    group_weight_decay = [4.0, 5.0])");
  EXPECT_EQ(options.kind.name(), "sgd");
  EXPECT_EQ(options.clip_norm, 2.0);
  EXPECT_EQ(options.clip_value, 0.0);
  EXPECT_EQ(options.group_pattern, (std::vector<std::string>{"a", "b*"}));
  EXPECT_EQ(options.group_lr_factor, (std::vector<double>{2.0, 3.0}));
  EXPECT_EQ(options.group_weight_decay, (std::vector<double>{4.0, 5.0}));
  EXPECT_EQ(optimizer_of("clip_value = 0.5").clip_value, 0.5);
}

template <class Options>
void expect_betas(const Options& options, double first, double second) {
  EXPECT_EQ(options.betas[0], first);
  EXPECT_EQ(options.betas[1], second);
}

TEST(OptimDeck, EveryKeyOfAKindReachesItsOption) {
  const auto sgd = own<optim::SgdOptions>(
      "kind = 'sgd'\nlr = 0.5\nmomentum = 0.25\ndampening = 0.125\nnesterov = true\n"
      "weight_decay = 0.0625");
  EXPECT_EQ(sgd.lr, 0.5);
  EXPECT_EQ(sgd.momentum, 0.25);
  EXPECT_EQ(sgd.dampening, 0.125);
  EXPECT_TRUE(sgd.nesterov);
  EXPECT_EQ(sgd.weight_decay, 0.0625);

  const std::string of_adam =
      "lr = 0.5\nbetas = [0.75, 0.875]\neps = 0.25\nweight_decay = 0.0625\n";
  const auto expect_adams = [](const auto& options) {
    EXPECT_EQ(options.lr, 0.5);
    expect_betas(options, 0.75, 0.875);
    EXPECT_EQ(options.eps, 0.25);
    EXPECT_EQ(options.weight_decay, 0.0625);
  };
  const auto adam = own<optim::AdamOptions>("kind = 'adam'\namsgrad = true\n" + of_adam);
  expect_adams(adam);
  EXPECT_TRUE(adam.amsgrad);
  const auto adamw = own<optim::AdamWOptions>("kind = 'adamw'\namsgrad = true\n" + of_adam);
  expect_adams(adamw);
  EXPECT_TRUE(adamw.amsgrad);
  const auto lamb = own<optim::LambOptions>("kind = 'lamb'\nnot_adapted = ['b']\n" + of_adam);
  expect_adams(lamb);
  EXPECT_EQ(lamb.not_adapted, std::vector<std::string>{"b"});
  expect_adams(own<optim::AdamaxOptions>("kind = 'adamax'\n" + of_adam));
  const auto nadam = own<optim::NAdamOptions>(
      "kind = 'nadam'\nmomentum_decay = 0.875\ndecoupled_weight_decay = true\n" + of_adam);
  expect_adams(nadam);
  EXPECT_EQ(nadam.momentum_decay, 0.875);
  EXPECT_TRUE(nadam.decoupled_weight_decay);
  const auto radam =
      own<optim::RAdamOptions>("kind = 'radam'\ndecoupled_weight_decay = true\n" + of_adam);
  expect_adams(radam);
  EXPECT_TRUE(radam.decoupled_weight_decay);

  const auto lars = own<optim::LarsOptions>(
      "kind = 'lars'\nlr = 0.5\nmomentum = 0.25\nweight_decay = 0.0625\n"
      "trust_coefficient = 0.125\nnot_adapted = ['*.bias']");
  EXPECT_EQ(lars.lr, 0.5);
  EXPECT_EQ(lars.momentum, 0.25);
  EXPECT_EQ(lars.weight_decay, 0.0625);
  EXPECT_EQ(lars.trust_coefficient, 0.125);
  EXPECT_EQ(lars.not_adapted, std::vector<std::string>{"*.bias"});

  const auto rmsprop = own<optim::RmspropOptions>(
      "kind = 'rmsprop'\nlr = 0.5\nalpha = 0.375\neps = 0.25\nweight_decay = 0.0625\n"
      "momentum = 0.125\ncentered = true");
  EXPECT_EQ(rmsprop.lr, 0.5);
  EXPECT_EQ(rmsprop.alpha, 0.375);
  EXPECT_EQ(rmsprop.eps, 0.25);
  EXPECT_EQ(rmsprop.weight_decay, 0.0625);
  EXPECT_EQ(rmsprop.momentum, 0.125);
  EXPECT_TRUE(rmsprop.centered);

  const auto adagrad = own<optim::AdagradOptions>(
      "kind = 'adagrad'\nlr = 0.5\nlr_decay = 0.75\nweight_decay = 0.0625\n"
      "initial_accumulator_value = 1.5\neps = 0.25");
  EXPECT_EQ(adagrad.lr, 0.5);
  EXPECT_EQ(adagrad.lr_decay, 0.75);
  EXPECT_EQ(adagrad.weight_decay, 0.0625);
  EXPECT_EQ(adagrad.initial_accumulator_value, 1.5);
  EXPECT_EQ(adagrad.eps, 0.25);

  const auto adadelta = own<optim::AdadeltaOptions>(
      "kind = 'adadelta'\nlr = 0.5\nrho = 0.125\neps = 0.25\nweight_decay = 0.0625");
  EXPECT_EQ(adadelta.lr, 0.5);
  EXPECT_EQ(adadelta.rho, 0.125);
  EXPECT_EQ(adadelta.eps, 0.25);
  EXPECT_EQ(adadelta.weight_decay, 0.0625);

  const auto asgd = own<optim::AsgdOptions>(
      "kind = 'asgd'\nlr = 0.5\nlambd = 2.5\nalpha = 0.375\nt0 = 3.0\nweight_decay = 0.0625");
  EXPECT_EQ(asgd.lr, 0.5);
  EXPECT_EQ(asgd.lambd, 2.5);
  EXPECT_EQ(asgd.alpha, 0.375);
  EXPECT_EQ(asgd.t0, 3.0);
  EXPECT_EQ(asgd.weight_decay, 0.0625);

  const auto lion = own<optim::LionOptions>(
      "kind = 'lion'\nlr = 0.5\nbetas = [0.75, 0.875]\nweight_decay = 0.0625");
  EXPECT_EQ(lion.lr, 0.5);
  expect_betas(lion, 0.75, 0.875);
  EXPECT_EQ(lion.weight_decay, 0.0625);

  const auto adan = own<optim::AdanOptions>(
      "kind = 'adan'\nlr = 0.5\nbetas = [0.75, 0.875, 0.5]\neps = 0.25\nweight_decay = 0.0625\n"
      "no_prox = true");
  EXPECT_EQ(adan.lr, 0.5);
  expect_betas(adan, 0.75, 0.875);
  EXPECT_EQ(adan.betas[2], 0.5);
  EXPECT_EQ(adan.eps, 0.25);
  EXPECT_EQ(adan.weight_decay, 0.0625);
  EXPECT_TRUE(adan.no_prox);
}

TEST(OptimDeck, AKeyOfAnotherKindIsAnErrorThatNamesTheKind) {
  EXPECT_EQ(test::message_of<InputError>([] { optimizer_of("kind = 'adam'\nmomentum = 0.9"); }),
            "test.toml:3: optimizer.momentum is a key of optimizer.kind = \"sgd\", \"lars\", "
            "\"rmsprop\", but optimizer.kind is \"adam\". Remove the key, or choose one of those "
            "kinds.");
  EXPECT_EQ(test::message_of<InputError>([] { optimizer_of("rho = 0.9"); }),
            "test.toml:2: optimizer.rho is a key of optimizer.kind = \"adadelta\", but "
            "optimizer.kind is \"sgd\", the default. Remove the key, or choose that kind.");
}

TEST(OptimDeck, ResolvedHoldsTheKeysOfItsKindOnly) {
  auto source = deck("[optimizer]\nkind = 'lion'\n");
  static_cast<void>(optim::read_optimizer_options(source));
  EXPECT_EQ(source.resolved(),
            "[optimizer]\nkind = \"lion\"\nlr = 0.0001\nbetas = [0.9, 0.99]\nweight_decay = 0.0\n"
            "clip_norm = 0.0\nclip_value = 0.0\ngroup_pattern = []\ngroup_lr_factor = []\n"
            "group_weight_decay = []\n");
}

ScheduleOptions schedule_of(const std::string& lines) {
  auto source = deck("[schedule]\n" + lines + "\n");
  auto schedule = source.read<ScheduleOptions>("schedule");
  source.check_all_read();
  return schedule;
}

/// Of the options' kind, which has a warm-up.
template <class Options>
Options warm(const std::string& lines) {
  const auto options =
      own_of<Options>(schedule_of(lines + "\nwarmup = 11\nstart_factor = 0.125").kind);
  EXPECT_EQ(options.warmup.units, 11) << lines;
  EXPECT_EQ(options.warmup.start_factor, 0.125) << lines;
  return options;
}

TEST(ScheduleDeck, EveryKeyReachesItsOption) {
  EXPECT_EQ(schedule_of("kind = 'constant'\nunit = 'step'").unit, optim::ScheduleUnit::step);
  warm<optim::ConstantRate>("kind = 'constant'");
  const auto step = warm<optim::StepLR>("kind = 'step'\nstep_size = 7\ngamma = 0.5");
  EXPECT_EQ(step.step_size, 7);
  EXPECT_EQ(step.gamma, 0.5);
  const auto multistep =
      warm<optim::MultiStepLR>("kind = 'multistep'\nmilestones = [3, 5]\ngamma = 0.5");
  EXPECT_EQ(multistep.milestones, (std::vector<std::int64_t>{3, 5}));
  EXPECT_EQ(multistep.gamma, 0.5);
  EXPECT_EQ(warm<optim::ExponentialLR>("kind = 'exponential'\ngamma = 0.5").gamma, 0.5);
  const auto cosine = warm<optim::CosineAnnealingLR>("kind = 'cosine'\nt_max = 9\neta_min = 0.25");
  EXPECT_EQ(cosine.t_max, 9);
  EXPECT_EQ(cosine.eta_min, 0.25);
  const auto restarts = warm<optim::CosineAnnealingWarmRestarts>(
      "kind = 'cosine_restarts'\nt_0 = 9\nt_mult = 3\neta_min = 0.25");
  EXPECT_EQ(restarts.t_0, 9);
  EXPECT_EQ(restarts.t_mult, 3);
  EXPECT_EQ(restarts.eta_min, 0.25);
  const auto polynomial = warm<optim::PolynomialLR>("kind = 'polynomial'\npower = 3.0\ntotal = 13");
  EXPECT_EQ(polynomial.power, 3.0);
  EXPECT_EQ(polynomial.total, 13);
  const auto warmup = own_of<optim::WarmupCosine>(
      schedule_of("kind = 'warmup_cosine'\nwarmup = 11\ntotal = 13\nmin_factor = 0.75").kind);
  EXPECT_EQ(warmup.warmup, 11);
  EXPECT_EQ(warmup.total, 13);
  EXPECT_EQ(warmup.min_factor, 0.75);

  const std::string momenta =
      "\ncycle_momentum = false\nbase_momentum = 0.625\nmax_momentum = 0.875";
  const auto expect_momenta = [](const auto& options) {
    EXPECT_FALSE(options.cycle_momentum);
    EXPECT_EQ(options.base_momentum, 0.625);
    EXPECT_EQ(options.max_momentum, 0.875);
  };
  const auto one_cycle =
      own_of<optim::OneCycleLR>(schedule_of("kind = 'one_cycle'\ntotal = 13\npct_start = 0.375\n"
                                            "div_factor = 2.0\nfinal_div_factor = 3.0" +
                                            momenta)
                                    .kind);
  EXPECT_EQ(one_cycle.total, 13);
  EXPECT_EQ(one_cycle.pct_start, 0.375);
  EXPECT_EQ(one_cycle.div_factor, 2.0);
  EXPECT_EQ(one_cycle.final_div_factor, 3.0);
  expect_momenta(one_cycle);
  const auto cyclic = warm<optim::CyclicLR>(
      "kind = 'cyclic'\nmax_lr = 4.0\nstep_size_up = 15\nstep_size_down = 17\n"
      "mode = 'exp_range'\ngamma = 0.5" +
      momenta);
  EXPECT_EQ(cyclic.max_lr, 4.0);
  EXPECT_EQ(cyclic.step_size_up, 15);
  EXPECT_EQ(cyclic.step_size_down, 17);
  EXPECT_EQ(cyclic.mode, optim::CyclicLR::Mode::exp_range);
  EXPECT_EQ(cyclic.gamma, 0.5);
  expect_momenta(cyclic);
  const auto plateau = warm<optim::PlateauOptions>(
      "kind = 'plateau'\nmetric = 'accuracy'\nfactor = 0.25\npatience = 19\nthreshold = 0.5\n"
      "threshold_mode = 'abs'\ncooldown = 21\nmin_lr = 0.0625");
  EXPECT_EQ(plateau.metric, "accuracy");
  EXPECT_EQ(plateau.factor, 0.25);
  EXPECT_EQ(plateau.patience, 19);
  EXPECT_EQ(plateau.threshold, 0.5);
  EXPECT_FALSE(plateau.relative);
  EXPECT_EQ(plateau.cooldown, 21);
  EXPECT_EQ(plateau.min_lr, 0.0625);
}

TEST(ScheduleDeck, AKeyOfAnotherKindIsAnErrorThatNamesTheKind) {
  EXPECT_EQ(test::message_of<InputError>([] { schedule_of("kind = 'cosine'\ntotal = 5"); }),
            "test.toml:3: schedule.total is a key of schedule.kind = \"polynomial\", "
            "\"warmup_cosine\", \"one_cycle\", but schedule.kind is \"cosine\". Remove the key, or "
            "choose one of those kinds.");
}

// By resolved decks: options have no comparison.
TEST(OptimDeck, DefaultsAreThoseOfTheKindsOwnOptions) {
  const auto resolved = [](const std::string& toml, const OptimizerOptions& defaults) {
    auto source = deck(toml);
    static_cast<void>(source.read<OptimizerOptions>("optimizer", defaults));
    return source.resolved();
  };
  for (const auto& [kind, defaults] : std::vector<std::pair<std::string, optim::OptimizerKind>>{
           {"sgd", optim::SgdOptions()},
           {"adam", optim::AdamOptions()},
           {"adamw", optim::AdamWOptions()},
           {"lars", optim::LarsOptions()},
           {"lamb", optim::LambOptions()},
           {"rmsprop", optim::RmspropOptions()},
           {"adagrad", optim::AdagradOptions()},
           {"adadelta", optim::AdadeltaOptions()},
           {"adamax", optim::AdamaxOptions()},
           {"nadam", optim::NAdamOptions()},
           {"radam", optim::RAdamOptions()},
           {"asgd", optim::AsgdOptions()},
           {"lion", optim::LionOptions()},
           {"adan", optim::AdanOptions()}}) {
    EXPECT_EQ(resolved("[optimizer]\nkind = '" + kind + "'\n", {}),
              resolved("", {.kind = defaults}));
    EXPECT_EQ(optimizer_of("kind = '" + kind + "'").lr(), OptimizerOptions{.kind = defaults}.lr());
  }
}

TEST(OptimDeck, ListsThatDoNotFitTogetherAreRefusedByFileAndLine) {
  const auto message = [](const std::string& lines) -> std::string {
    try {
      optimizer_of(lines);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message("group_pattern = ['a', 'b']\ngroup_lr_factor = [1.0]"),
            "test.toml:3: optimizer.group_lr_factor has 1 entries, but must have 2: one for each "
            "pattern in group_pattern.");
  EXPECT_EQ(message("\ngroup_weight_decay = [1.0]"),
            "test.toml:3: optimizer.group_weight_decay has 1 entries, but must have 0: one for "
            "each pattern in group_pattern.");
  EXPECT_EQ(message("kind = 'adam'\nbetas = [0.9]"),
            "test.toml:3: optimizer.betas = [0.9] must have 2 entries, not 1. Correct it, or leave "
            "betas out for its default, [0.9, 0.999].");
  EXPECT_EQ(message("clip_norm = 1.0\nclip_value = 0.5"),
            "test.toml:2: optimizer.clip_norm and optimizer.clip_value (set at test.toml:3) clip "
            "the same gradients twice. Keep one of them.");
}

template <class Options>
void expect_refused(std::string_view table, std::string_view line) {
  std::string toml("[");
  toml.append(table).append("]\n").append(line).append("\n");
  EXPECT_THROW(static_cast<void>(deck(toml).read<Options>(table)), InputError) << line;
}

TEST(OptimDeck, ValuesOutOfRangeAreRefused) {
  for (const char* line : {"lr = -0.1",
                           "momentum = 1.5",
                           "dampening = -1.0",
                           "weight_decay = -1.0",
                           "kind = 'newton'",
                           "nesterov = 1",
                           "kind = 'adam'\nbetas = [0.9, 1.5]",
                           "kind = 'adam'\nbetas = 0.9",
                           "kind = 'adan'\nbetas = [0.9, 0.9]",
                           "kind = 'adam'\neps = -1e-8",
                           "kind = 'lars'\ntrust_coefficient = -1.0",
                           "clip_norm = -1.0",
                           "clip_value = -1.0",
                           "group_lr_factor = [-1.0]",
                           "group_weight_decay = [-1.0]",
                           "kind = 'lars'\nnot_adapted = [1]",
                           "kind = 'rmsprop'\nalpha = -1.0",
                           "kind = 'asgd'\nalpha = -1.0",
                           "kind = 'adadelta'\nrho = 1.5",
                           "kind = 'adagrad'\nlr_decay = -1.0",
                           "kind = 'adagrad'\ninitial_accumulator_value = -1.0",
                           "kind = 'nadam'\nmomentum_decay = -1.0",
                           "kind = 'asgd'\nlambd = -1.0",
                           "kind = 'asgd'\nt0 = -1.0"}) {
    expect_refused<OptimizerOptions>("optimizer", line);
  }
  for (const char* line : {"kind = 'linear'",
                           "unit = 'day'",
                           "kind = 'step'\nstep_size = 0",
                           "kind = 'step'\ngamma = 0.0",
                           "kind = 'cosine'\nt_max = 0",
                           "kind = 'multistep'\nmilestones = [0]",
                           "kind = 'step'\nwarmup = -1",
                           "kind = 'step'\nstart_factor = 1.5",
                           "kind = 'one_cycle'\ntotal = -1",
                           "kind = 'warmup_cosine'\nmin_factor = -0.5",
                           "kind = 'one_cycle'\npct_start = 0.0",
                           "kind = 'one_cycle'\ndiv_factor = 0.5",
                           "kind = 'one_cycle'\nfinal_div_factor = 0.5",
                           "kind = 'one_cycle'\nbase_momentum = 0.0",
                           "kind = 'one_cycle'\nmax_momentum = 1.0",
                           "kind = 'cyclic'\nmax_lr = -1.0",
                           "kind = 'cyclic'\nstep_size_up = 0",
                           "kind = 'cyclic'\nstep_size_down = -1",
                           "kind = 'cyclic'\nmode = 'square'",
                           "kind = 'plateau'\nfactor = 1.0",
                           "kind = 'plateau'\nfactor = 0.0",
                           "kind = 'plateau'\npatience = -1",
                           "kind = 'plateau'\nthreshold = -1.0",
                           "kind = 'plateau'\nthreshold_mode = 'max'",
                           "kind = 'plateau'\ncooldown = -1",
                           "kind = 'plateau'\nmin_lr = -1.0"}) {
    expect_refused<ScheduleOptions>("schedule", line);
  }
}

}  // namespace
}  // namespace lockstep
