// What every optimizer promises, whatever its formula.
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>

#include <gtest/gtest.h>
#include <support/allocation_counter.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/any_key.hpp>
#include <lockstep/optim/adadelta.hpp>
#include <lockstep/optim/adagrad.hpp>
#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/adamax.hpp>
#include <lockstep/optim/adan.hpp>
#include <lockstep/optim/asgd.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/layer_wise.hpp>
#include <lockstep/optim/lion.hpp>
#include <lockstep/optim/make_optimizer.hpp>
#include <lockstep/optim/nadam.hpp>
#include <lockstep/optim/radam.hpp>
#include <lockstep/optim/rmsprop.hpp>
#include <lockstep/optim/sgd.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>
#include <lockstep/tensor/runtime/simulated_runtime.hpp>
#include <lockstep/tensor/stream.hpp>

#include "parameters.hpp"

namespace lockstep {
namespace {

using optim::OptimizerOptions;
using test::parameter;
using test::set_grad;
using test::values;
using test::waves;

struct Case {
  std::string name;
  OptimizerOptions options;
  std::vector<std::string> slots;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

std::vector<Case> every_optimizer() {
  return {
      {"sgd", {.kind = optim::SgdOptions{.lr = 0.1, .weight_decay = 0.1}}, {}},
      {"sgd_momentum",
       {.kind =
            optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1}},
       {"momentum_buffer"}},
      {"sgd_nesterov",
       {.kind = optim::SgdOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true}},
       {"momentum_buffer"}},
      {"adam",
       {.kind = optim::AdamOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_sq"}},
      {"amsgrad",
       {.kind = optim::AdamOptions{.lr = 0.1, .amsgrad = true}},
       {"exp_avg", "exp_avg_sq", "max_exp_avg_sq"}},
      {"adamw",
       {.kind = optim::AdamWOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_sq"}},
      {"lars",
       {.kind = optim::LarsOptions{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1}},
       {"momentum_buffer"}},
      {"lamb",
       {.kind = optim::LambOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_sq"}},
      {"rmsprop", {.kind = optim::RmspropOptions{.lr = 0.1, .weight_decay = 0.1}}, {"square_avg"}},
      {"rmsprop_centered",
       {.kind = optim::RmspropOptions{.lr = 0.1, .centered = true}},
       {"square_avg", "grad_avg"}},
      {"rmsprop_momentum",
       {.kind = optim::RmspropOptions{.lr = 0.1, .momentum = 0.9}},
       {"square_avg", "momentum_buffer"}},
      {"rmsprop_centered_momentum",
       {.kind = optim::RmspropOptions{.lr = 0.1, .momentum = 0.9, .centered = true}},
       {"square_avg", "grad_avg", "momentum_buffer"}},
      {"adagrad",
       {.kind = optim::AdagradOptions{.lr = 0.1, .lr_decay = 0.1, .weight_decay = 0.1}},
       {"sum"}},
      {"adadelta",
       {.kind = optim::AdadeltaOptions{.lr = 1.0, .weight_decay = 0.1}},
       {"square_avg", "acc_delta"}},
      {"adamax",
       {.kind = optim::AdamaxOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_inf"}},
      {"nadam",
       {.kind = optim::NAdamOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_sq"}},
      {"nadamw",
       {.kind =
            optim::NAdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}},
       {"exp_avg", "exp_avg_sq"}},
      {"radam",
       {.kind = optim::RAdamOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_sq"}},
      {"radamw",
       {.kind =
            optim::RAdamOptions{.lr = 0.1, .weight_decay = 0.1, .decoupled_weight_decay = true}},
       {"exp_avg", "exp_avg_sq"}},
      {"asgd", {.kind = optim::AsgdOptions{.lr = 0.1, .t0 = 2.0, .weight_decay = 0.1}}, {"ax"}},
      {"lion", {.kind = optim::LionOptions{.lr = 0.1, .weight_decay = 0.1}}, {"exp_avg"}},
      {"adan",
       {.kind = optim::AdanOptions{.lr = 0.1, .weight_decay = 0.1}},
       {"exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_grad"}},
      {"adan_no_prox",
       {.kind = optim::AdanOptions{.lr = 0.1, .weight_decay = 0.1, .no_prox = true}},
       {"exp_avg", "exp_avg_diff", "exp_avg_sq", "previous_grad"}}};
}

/// Of every kind that decks know.
TEST(EveryOptimizerOfADeck, IsAmongTheCases) {
  std::set<std::string> tested;
  for (const Case& one : every_optimizer()) tested.insert(one.options.kind.name());
  for (const auto* kind : optim::optimizer_kinds().all())
    EXPECT_TRUE(tested.contains(kind->name)) << kind->name;
}

class EveryOptimizer : public testing::TestWithParam<Case> {
 protected:
  [[nodiscard]] static std::unique_ptr<optim::Optimizer> make(
      const std::vector<nn::NamedParameter>& parameters) {
    return optim::make_optimizer(GetParam().options, parameters);
  }
};

INSTANTIATE_TEST_SUITE_P(Kinds, EveryOptimizer, testing::ValuesIn(every_optimizer()),
                         [](const auto& tested) { return tested.param.name; });

TEST_P(EveryOptimizer, NamesItsStateByParameterAndSlot) {
  const auto w = parameter("conv1.weight", {1.0F, 2.0F});
  const auto optimizer = make({w});
  std::vector<std::string> expected;
  for (const auto& slot : GetParam().slots) expected.push_back("conv1.weight/" + slot);
  if (!expected.empty()) expected.emplace_back("conv1.weight/step");
  std::vector<std::string> names;
  for (const auto& entry : optimizer->state_dict()) {
    names.push_back(entry.name);
    const bool step = entry.name == "conv1.weight/step";
    EXPECT_EQ(entry.tensor.shape(), step ? Shape{} : w.variable.shape());
    EXPECT_EQ(entry.tensor.dtype(), step ? DType::i64 : DType::f32);
  }
  EXPECT_EQ(names, expected);
}

TEST_P(EveryOptimizer, MovesAnF32CopyOfAParameterOf16BitsAndRoundsIt) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto wide = parameter("w", {1.0F, -2.0F, 0.5F});
    const nn::NamedParameter narrow{"w", Variable(wide.variable.data().to(dtype), true)};
    const auto of_wide = make({wide}), of_narrow = make({narrow});
    for (int step = 0; step < 5; ++step) {
      for (const auto& p : {wide, narrow}) set_grad(p.variable, {0.25, -0.5 * step, 1.5});
      of_wide->step(0.5);
      of_narrow->step(0.5);
      EXPECT_EQ(narrow.variable.data().dtype(), dtype);
      EXPECT_EQ(narrow.variable.data().to(DType::f32).to_vector<float>(),
                wide.variable.data().to(dtype).to(DType::f32).to_vector<float>());
      EXPECT_EQ(of_narrow->state_dict().at("w/master").to_vector<float>(), values(wide));
    }
  }
}

/// Two parameters of `dtype` on one device after a few clipped steps, with the optimizer's state.
/// Integer state, the numbers of steps, is on the host.
std::vector<double> trained_on(Device device, DType dtype, const OptimizerOptions& options) {
  std::vector<nn::NamedParameter> parameters;
  for (const std::int64_t n : {7, 33}) {
    const Tensor data = Tensor::from(waves(n, 1), {n}).to(dtype).to(device);
    parameters.push_back({"p" + std::to_string(n), Variable(data, true)});
  }
  const auto optimizer = optim::make_optimizer(options, parameters);
  for (int step = 0; step < 4; ++step) {
    for (const auto& p : parameters) {
      const auto numbers = waves(p.variable.data().numel(), 2.0 + step);
      p.variable.grad_buffer().copy_from(
          Tensor::from(numbers, p.variable.shape()).to(dtype).to(device));
      p.variable.mark_grad_present();
    }
    optimizer->step(optim::clip_factor(optim::grad_norm(parameters), 0.5));
    if (step == 1) parameters[0].variable.data().fill(0.25);  // as a user may do
  }
  std::vector<double> all;
  const auto add = [&](const Tensor& t) {
    for (const double number : t.to(DType::f64).to_vector<double>()) all.push_back(number);
  };
  for (const auto& p : parameters) add(p.variable.data());
  for (const auto& entry : optimizer->state_dict()) {
    const bool counts = !is_floating(entry.tensor.dtype());
    EXPECT_EQ(entry.tensor.device(), counts ? Device{} : device) << entry.name;
    add(entry.tensor);
  }
  return all;
}

class OptimizerOnDevice : public testing::TestWithParam<std::tuple<Case, Device>> {};

TEST_P(OptimizerOnDevice, StepsAsOnTheHost) {
  const auto& [one, device] = GetParam();
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    test::expect_like_host(device, trained_on(device, dtype, one.options),
                           trained_on(Device{}, dtype, one.options), test::gpu_tolerance(dtype));
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, OptimizerOnDevice,
                         testing::Combine(testing::ValuesIn(every_optimizer()),
                                          testing::ValuesIn(test::devices_to_test())),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" +
                                  std::string(name_of(std::get<1>(info.param).type));
                         });

/// Two parameters and their optimizer's state after ten steps at changing rates, of which the fifth
/// is skipped. From the third on, except the seventh, they are replays of a captured one, if
/// `captures`.
std::vector<double> stepped(Device device, DType dtype, const OptimizerOptions& options,
                            bool captures) {
  std::vector<nn::NamedParameter> parameters;
  for (const std::int64_t n : {7, 33}) {
    const Tensor data = Tensor::from(waves(n, 1), {n}).to(dtype).to(device);
    parameters.push_back({"p" + std::to_string(n), Variable(data, true)});
  }
  const auto optimizer = optim::make_optimizer(options, parameters);
  const Tensor factor = Tensor::full({1}, 0.5, DType::f64, device),
               found_inf = Tensor::zeros({1}, DType::f32, device);
  const auto step = [&] { optimizer->step({.gradient_factor = factor, .found_inf = found_inf}); };
  DeviceGraph graph(device);
  for (int s = 0; s < 10; ++s) {
    for (const auto& p : parameters) {
      p.variable.grad_buffer().copy_from(
          Tensor::from(waves(p.variable.data().numel(), 2.0 + s), p.variable.shape())
              .to(dtype)
              .to(device));
      p.variable.mark_grad_present();
    }
    factor.fill(0.5 + 0.01 * s);
    found_inf.fill(s == 4 ? 1.0 : 0.0);
    optimizer->set_lr(optimizer->initial_lr() * (1.0 - 0.05 * s));
    if (s == 2 && captures) graph.capture(step);
    if (!captures || s == 6) {
      step();
    } else if (s < 2) {
      graph.warm_up(step);
    } else {
      graph.replay();
    }
  }
  std::vector<double> all;
  const auto add = [&](const Tensor& t) {
    for (const double number : t.to(DType::f64).to_vector<double>()) all.push_back(number);
  };
  for (const auto& p : parameters) add(p.variable.data());
  for (const auto& entry : optimizer->state_dict()) {
    add(entry.tensor);
    EXPECT_TRUE(!entry.name.ends_with("/step") || entry.tensor.item() == 9.0) << entry.name;
  }
  return all;
}

TEST_P(OptimizerOnDevice, ACapturedStepHasTheBitsOfPlainOnes) {
  const auto& [one, device] = GetParam();
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const auto captured = [&, &one = one, device = device] {
      return stepped(device, dtype, one.options, true);
    };
    if (one.name == "lars" || one.name == "lamb") {
      const auto message = test::message_of<Error>([&] { static_cast<void>(captured()); });
      EXPECT_NE(message.find("cannot be captured"), std::string::npos) << message;
    } else {
      EXPECT_EQ(captured(), stepped(device, dtype, one.options, false));
    }
  }
}

TEST_P(EveryOptimizer, ContinuesFromAValueWrittenIntoA16BitParameter) {
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const auto narrow = [&](const std::vector<float>& numbers) {
      return nn::NamedParameter{"w",
                                Variable(parameter("w", numbers).variable.data().to(dtype), true)};
    };
    const auto loaded = narrow({1.0F, -2.0F, 0.5F}), made = narrow({3.0F, 4.0F, -0.25F});
    const auto before = make({loaded}), after = make({made});
    loaded.variable.data().copy_from(made.variable.data());  // as load_state_dict does
    for (int step = 0; step < 3; ++step) {
      for (const auto& p : {loaded, made}) set_grad(p.variable, {0.25, -0.5 * step, 1.5});
      before->step();
      after->step();
    }
    EXPECT_EQ(loaded.variable.data().to(DType::f32).to_vector<float>(),
              made.variable.data().to(DType::f32).to_vector<float>());
  }
}

/// Saves after `before` steps, continues in a new optimizer, compares with one that never stopped.
void expect_exact_resume(const OptimizerOptions& options, int before) {
  SCOPED_TRACE("saved after " + std::to_string(before) + " steps");
  const std::vector<float> start{0.3F, -1.7F, 2.9F};
  const auto step = [](optim::Optimizer& optimizer, const nn::NamedParameter& p, int s) {
    set_grad(p.variable, waves(3, s));
    optimizer.step();
  };
  const auto whole = parameter("w", start), first = parameter("w", start);
  const auto uninterrupted = optim::make_optimizer(options, {whole});
  const auto saved = optim::make_optimizer(options, {first});
  for (int s = 0; s < 6; ++s) step(*uninterrupted, whole, s);
  for (int s = 0; s < before; ++s) step(*saved, first, s);

  const auto second = parameter("w", values(first));
  const auto resumed = optim::make_optimizer(options, {second});
  resumed->load_state_dict(saved->state_dict());
  for (int s = before; s < 6; ++s) step(*resumed, second, s);
  EXPECT_EQ(values(second), values(whole));
}

TEST_P(EveryOptimizer, ResumedHasTheSameBits) {
  for (const int before : {0, 1, 3}) expect_exact_resume(GetParam().options, before);
}

std::vector<double> numbers_in(const StateDict& scalars) {
  std::vector<double> numbers;
  for (const auto& entry : scalars) numbers.push_back(entry.tensor.item());
  return numbers;
}

/// Changes every number and flag, except those that decide which state there is or that nesterov
/// needs.
class Others final : public lockstep::detail::AnyKey<Others> {
 public:
  template <class T>
  void any_key(std::string_view name, T& field, const KeyInfo&) {
    if constexpr (std::is_same_v<T, double>) {
      if (name == "dampening" || (name == "momentum" && field == 0.0)) return;
      field = field == 0.0 ? 0.125 : 0.5 * field;
    } else if constexpr (std::is_same_v<T, std::vector<double>>) {
      for (double& number : field) number *= 0.5;
    } else if constexpr (std::is_same_v<T, bool>) {
      if (name == "decoupled_weight_decay" || name == "no_prox") field = !field;
    }
  }

 private:
  std::size_t pick(std::string_view, const std::vector<std::string_view>&, std::size_t chosen,
                   std::string_view) override {
    return chosen;
  }
};

/// Of the same kind, and with the same state, but every option another.
OptimizerOptions others(OptimizerOptions options) {
  Others table;
  options.kind.declare_keys(table);
  options.group_lr_factor = {3.0, 0.125};
  options.group_weight_decay = {0.75, 0.375};
  return options;
}

// torch.optim's state_dict has param_groups, and load_state_dict takes them in place of what the
// optimizer was made with.
TEST_P(EveryOptimizer, ResumedHasTheOptionsOfEachGroupThatWereSaved) {
  OptimizerOptions options = GetParam().options;
  options.group_pattern = {"a", "b"};
  options.group_lr_factor = {0.5, 2.0};
  options.group_weight_decay = {0.0, 0.5};
  const auto make_all = [] {
    std::vector<nn::NamedParameter> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(parameter(name, {0.3F, -1.7F, 2.9F}));
    return all;
  };
  const auto step = [](optim::Optimizer& optimizer, int s) {
    for (const auto& p : optimizer.parameters()) set_grad(p.variable, waves(3, s));
    optimizer.step();
  };
  const auto first = make_all(), second = make_all();
  const auto saved = optim::make_optimizer(options, first);
  for (int s = 0; s < 2; ++s) step(*saved, s);
  saved->set_lr(0.07, [](double lr) { return lr * lr; });
  if (saved->momentum() > 0.0) saved->set_momentum(0.625);
  step(*saved, 2);

  StateDict state = saved->state_dict();
  const StateDict groups = saved->param_groups();
  EXPECT_EQ(groups.at("param_groups/1/weight_decay").item(), 0.5);
  EXPECT_EQ(groups.at("param_groups/2/lr").item(), saved->lr());
  state.insert_all("", groups);
  const auto resumed = optim::make_optimizer(others(options), second);
  for (std::size_t i = 0; i < first.size(); ++i)
    second[i].variable.data().copy_from(first[i].variable.data());
  EXPECT_NE(numbers_in(resumed->param_groups()), numbers_in(groups));
  resumed->load_state_dict(state);
  EXPECT_EQ(numbers_in(resumed->param_groups()), numbers_in(groups));
  for (const auto* which : {"as they were", "after another set_lr"}) {
    for (int s = 3; s < 5; ++s) {
      step(*saved, s);
      step(*resumed, s);
    }
    for (std::size_t i = 0; i < first.size(); ++i)
      EXPECT_EQ(values(second[i]), values(first[i])) << first[i].name << " " << which;
    for (auto* const optimizer : {saved.get(), resumed.get()}) optimizer->set_lr(0.03);
  }
}

TEST_P(EveryOptimizer, TakesAStateWithoutOptionsAndRefusesThoseOfOtherGroups) {
  OptimizerOptions options = GetParam().options;
  const auto one = make({parameter("w", {1.0F})}), other = make({parameter("w", {1.0F})});
  const auto before = numbers_in(one->param_groups());
  other->set_lr(0.7);
  one->load_state_dict(other->state_dict());  // as checkpoints were
  EXPECT_EQ(numbers_in(one->param_groups()), before);

  options.group_pattern = {"w"};
  const auto grouped = optim::make_optimizer(options, {parameter("w", {1.0F})});
  StateDict state = grouped->state_dict();
  state.insert_all("", grouped->param_groups());
  const auto message = test::message_of<Error>([&] { one->load_state_dict(state); });
  EXPECT_NE(message.find("param_groups/1/lr is not in the model"), std::string::npos) << message;
  EXPECT_EQ(numbers_in(one->param_groups()), before);
}

TEST_P(EveryOptimizer, LeavesAParameterWithoutGradientAsItIs) {
  const auto moves = parameter("moves", {1.0F}), stays = parameter("stays", {1.0F});
  const auto optimizer = make({moves, stays});
  set_grad(moves.variable, 1.0);
  set_grad(stays.variable, 1.0);
  optimizer->zero_grad();
  set_grad(moves.variable, 1.0);
  optimizer->step();
  EXPECT_NE(values(moves), std::vector<float>{1.0F});
  EXPECT_EQ(values(stays), std::vector<float>{1.0F});
}

TEST_P(EveryOptimizer, AStepBetweenForwardAndBackwardIsRefusedByBackward) {
  const auto moves = parameter("moves", {1.0F}), stays = parameter("stays", {1.0F});
  const auto optimizer = make({moves, stays});
  const auto loss_of = [](const nn::NamedParameter& p) { return sum(mul(p.variable, p.variable)); };
  const Variable late = loss_of(moves), in_time = loss_of(stays);
  set_grad(moves.variable, 1.0);
  optimizer->step();
  EXPECT_NE(test::message_of<Error>([&] { late.backward(); }).find("backward() of mul needs input"),
            std::string::npos);
  in_time.backward();
  EXPECT_EQ(stays.variable.grad().item(), 2.0);
}

TEST_P(EveryOptimizer, LeavesTheGradientAsItIs) {
  const auto w = parameter("w", {1.0F, -2.0F});
  const auto optimizer = make({w});
  set_grad(w.variable, 0.5);
  optimizer->step();
  EXPECT_EQ(w.variable.grad().to_vector<float>(), (std::vector<float>{0.5F, 0.5F}));
}

constexpr std::int64_t sizes[] = {10, 1, 64, 0, 33, 100, 7};

/// Where parameters lie: each in memory of its own, or all in one with gradients in another, one
/// after the other or padded.
enum class Lie : std::uint8_t { apart, together, padded };

/// Parameters of `sizes`.
std::vector<nn::NamedParameter> make_parameters(DType dtype, Lie lie, Device device = {}) {
  const bool flat = lie != Lie::apart;
  const auto line = static_cast<std::int64_t>(Storage::padding_bytes / size_of(dtype));
  const auto room = [&](std::int64_t n) {
    return lie == Lie::padded ? (n + line - 1) / line * line : n;
  };
  std::int64_t total = 0;
  for (const auto n : sizes) total += room(n);
  const Tensor data = Tensor::zeros({total}, dtype, device);
  const Tensor grads = Tensor::zeros({total}, dtype, device);
  if (lie == Lie::padded) {
    for (const Tensor* memory : {&data, &grads}) memory->storage()->mark_padded();
  }
  std::vector<nn::NamedParameter> parameters;
  std::int64_t at = 0;
  for (const auto n : sizes) {
    const Tensor start =
        Tensor::from(waves(n, 0.5 + static_cast<double>(parameters.size())), {n}).to(dtype);
    Tensor home = start.to(device).clone();
    if (flat) {
      home = data.slice(at, at + n);
      home.copy_from(start);
    }
    const Variable variable(home, true);
    if (flat) variable.set_grad_buffer(grads.slice(at, at + n));
    parameters.push_back({std::string("p").append(std::to_string(parameters.size())), variable});
    at += room(n);
  }
  return parameters;
}

/// Five steps, in the second of which the third parameter has no gradient.
void train(optim::Optimizer& optimizer, const std::vector<nn::NamedParameter>& parameters) {
  for (int step = 0; step < 5; ++step) {
    optimizer.zero_grad();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (step == 1 && i == 2) continue;
      const Variable& v = parameters[i].variable;
      set_grad(v, waves(v.data().numel(), static_cast<double>(i) + 0.1 * step));
    }
    optimizer.step();
  }
}

std::vector<double> all_numbers(const std::vector<nn::NamedParameter>& parameters,
                                const StateDict& state) {
  std::vector<double> numbers;
  const auto append = [&](const Tensor& t) {
    const auto part = t.to(Device{}).to(DType::f64).to_vector<double>();
    numbers.insert(numbers.end(), part.begin(), part.end());
  };
  for (const auto& p : parameters) append(p.variable.data());
  for (const auto& entry : state) append(entry.tensor);
  return numbers;
}

TEST_P(EveryOptimizer, GivesNeighboursInMemoryTheSameBitsAsParametersOnTheirOwn) {
  for (const DType dtype : {DType::f32, DType::f64}) {
    std::vector<std::vector<double>> results;
    for (const Lie lie : {Lie::apart, Lie::together, Lie::padded}) {
      const auto parameters = make_parameters(dtype, lie);
      auto options = GetParam().options;
      options.group_pattern = {"p4", "p?"};
      options.group_lr_factor = {0.5, 1.0};
      const auto optimizer = optim::make_optimizer(options, parameters);
      train(*optimizer, parameters);
      results.push_back(all_numbers(parameters, optimizer->state_dict()));
    }
    EXPECT_EQ(results[0], results[1]);
    EXPECT_EQ(results[0], results[2]);
    for (const double number : results[0]) ASSERT_TRUE(std::isfinite(number));
  }
}

TEST_P(EveryOptimizer, HasTheHostsBitsOnASimulatedDevice) {
  std::vector<std::vector<double>> results;
  for (const Device device : {Device{}, Device{DeviceType::sim, 0}}) {
    const auto parameters = make_parameters(DType::f32, Lie::padded, device);
    const auto optimizer = make(parameters);
    train(*optimizer, parameters);
    results.push_back(all_numbers(parameters, optimizer->state_dict()));
    EXPECT_EQ(parameters[0].variable.data().device(), device);
  }
  EXPECT_EQ(results[0], results[1]);
}

/// Six steps with StepTensors on the device. The first and the fourth are skipped: their gradients
/// are not finite.
std::vector<double> stepped_by_tensors(const OptimizerOptions& options, DType dtype,
                                       Device device) {
  const auto parameters = make_parameters(dtype, Lie::padded, device);
  const auto optimizer = optim::make_optimizer(options, parameters);
  const auto waits = [&] { return SimulatedRuntime::instance().counts(0).host_waits; };
  const optim::Optimizer::StepTensors tensors{Tensor::zeros({1}, DType::f64, device),
                                              Tensor::zeros({1}, DType::f32, device)};
  for (int step = 0; step < 6; ++step) {
    const bool is_left_out = step % 3 == 0;
    for (const auto& p : parameters) {
      auto gradient = waves(p.variable.data().numel(), 0.1 * step);
      if (is_left_out && !gradient.empty()) gradient[0] = NAN;
      set_grad(p.variable, gradient);
    }
    tensors.gradient_factor.fill(step == 4 ? 1.0 : 0.3);
    tensors.found_inf.fill(is_left_out ? 1.0 : 0.0);
    current_stream(device).synchronize();
    const auto before = waits();
    optimizer->step(tensors);
    EXPECT_EQ(waits(), before) << "step " << step;
  }
  return all_numbers(parameters, optimizer->state_dict());
}

TEST_P(EveryOptimizer, StepsByNumbersOfADeviceToTheHostsBitsAndTheHostDoesNotWait) {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    const auto there = stepped_by_tensors(GetParam().options, dtype, {DeviceType::sim, 0});
    EXPECT_EQ(there, stepped_by_tensors(GetParam().options, dtype, Device{})) << name_of(dtype);
    for (const double number : there) ASSERT_TRUE(std::isfinite(number));
  }
}

TEST_P(EveryOptimizer, HasTheSameBitsOnFourThreadsAtOnce) {
  std::vector<std::vector<double>> results(5);
  const auto work = [&](std::size_t i) {
    const auto parameters = make_parameters(DType::f32, Lie::padded);
    const auto optimizer = make(parameters);
    train(*optimizer, parameters);
    results[i] = all_numbers(parameters, optimizer->state_dict());
  };
  work(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < 4; ++i) threads.emplace_back(work, i);
  for (auto& thread : threads) thread.join();
  for (std::size_t i = 0; i < 4; ++i) EXPECT_EQ(results[i], results[4]);
}

TEST_P(EveryOptimizer, StepsWithAFactorAsIfGradientsWereMultipliedByIt) {
  // By a power of two, so that no product is rounded.
  const auto one_way = make_parameters(DType::f32, Lie::padded),
             other_way = make_parameters(DType::f32, Lie::padded);
  const auto by_factor = make(one_way), by_hand = make(other_way);
  for (int step = 0; step < 3; ++step) {
    for (std::size_t i = 0; i < one_way.size(); ++i) {
      const auto gradient = waves(one_way[i].variable.data().numel(), 0.1 * step);
      set_grad(one_way[i].variable, gradient);
      set_grad(other_way[i].variable, gradient);
      scale(other_way[i].variable.grad(), 0.125);
    }
    const auto before = one_way[0].variable.grad().to_vector<float>();
    by_factor->step(0.125);
    by_hand->step();
    EXPECT_EQ(one_way[0].variable.grad().to_vector<float>(), before);
    EXPECT_EQ(all_numbers(one_way, by_factor->state_dict()),
              all_numbers(other_way, by_hand->state_dict()));
  }
}

TEST_P(EveryOptimizer, AllocatesNothingInAStep) {
  const auto parameters = make_parameters(DType::f32, Lie::padded);
  auto options = GetParam().options;
  options.group_pattern = {"p1"};
  options.clip_norm = 1.0;
  const auto optimizer = optim::make_optimizer(options, parameters);
  train(*optimizer, parameters);
  const auto step = [&] {
    const auto clipping = optim::clip_gradients(options, parameters);
    optimizer->step({.gradient_factor = clipping.factor, .found_inf = {}});
  };
  step();
  const auto before = test::allocation_count();
  const auto memory_before = memory_stats().system_allocations;
  for (int s = 0; s < 20; ++s) step();
  EXPECT_EQ(test::allocation_count() - before, 0);
  EXPECT_EQ(memory_stats().system_allocations - memory_before, 0);
}

TEST_P(EveryOptimizer, AllocatesNothingWhenADeviceSkipsSteps) {
  constexpr Device device{DeviceType::sim, 0};
  const auto parameters = make_parameters(DType::f32, Lie::padded, device);
  const auto optimizer = make(parameters);
  train(*optimizer, parameters);
  const optim::Optimizer::StepTensors tensors{Tensor::full({1}, 1.0, DType::f64, device),
                                              Tensor::zeros({1}, DType::f32, device)};
  const auto step = [&](int s) {
    tensors.found_inf.fill(s % 2);
    optimizer->step(tensors);
  };
  for (int s = 0; s < 20; ++s) step(s);
  const auto before = test::allocation_count();
  for (int s = 0; s < 20; ++s) step(s);
  EXPECT_EQ(test::allocation_count() - before, 0);
}

TEST_P(EveryOptimizer, KeepsTheNamesAndOrderOfItsStateWithGroups) {
  const auto parameters = make_parameters(DType::f32, Lie::apart);
  auto options = GetParam().options;
  const auto plain = optim::make_optimizer(options, parameters)->state_dict();
  options.group_pattern = {"p5", "*"};
  options.group_weight_decay = {0.0, 0.5};
  const auto grouped = optim::make_optimizer(options, parameters)->state_dict();
  ASSERT_EQ(plain.size(), grouped.size());
  for (auto a = plain.begin(), b = grouped.begin(); a != plain.end(); ++a, ++b) {
    EXPECT_EQ(a->name, b->name);
  }
}

TEST_P(EveryOptimizer, StepsInfinitelySmallGradientsWithoutNan) {
  const auto w = parameter("w", {0.0F, 0.0F});
  const auto optimizer = make({w});
  for (const double gradient : {0.0, 1e-45, 0.0}) {
    set_grad(w.variable, gradient);
    optimizer->step();
    for (const float value : values(w)) EXPECT_TRUE(std::isfinite(value)) << gradient;
  }
}

}  // namespace
}  // namespace lockstep
