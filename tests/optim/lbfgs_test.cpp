// LBFGS against PyTorch's (make_lbfgs.py), and what golden numbers do not show.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>
#include <utility>
#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/optim/lbfgs.hpp>

namespace lockstep::optim {
namespace {

using Parameters = std::vector<nn::NamedParameter>;

Variable rosenbrock(const Parameters& p) {
  const Variable& x = p[0].variable;
  const std::int64_t n = x.data().size(0);
  const Variable a = narrow(x, 0, 0, n - 1), b = narrow(x, 0, 1, n - 1) - a * a, c = 1.0 - a;
  return sum(100.0 * (b * b) + c * c);
}

Variable network(const Parameters& p, const Tensor& inputs, const Tensor& targets) {
  const Variable hidden = tanh(linear(Variable(inputs), p[0].variable, p[1].variable));
  return mse_loss(linear(hidden, p[2].variable, p[3].variable), targets);
}

Parameters parameters_of(const std::vector<Tensor>& initial) {
  Parameters parameters;
  for (const Tensor& tensor : initial) {
    parameters.push_back({"p" + std::to_string(parameters.size()), Variable(tensor.clone(), true)});
  }
  return parameters;
}

LBFGS::Closure closure_of(const Parameters& parameters, std::function<Variable()> loss_of) {
  return [parameters, loss_of = std::move(loss_of)] {
    for (const auto& parameter : parameters) parameter.variable.zero_grad();
    const Variable loss = loss_of();
    loss.backward();
    return loss.data().item();
  };
}

std::vector<double> flat(const Parameters& parameters) {
  std::vector<double> all;
  for (const auto& parameter : parameters) {
    const auto values = parameter.variable.data().to(DType::f64).to_vector<double>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

TEST(Lbfgs, TakesPyTorchsStepsInDoublePrecision) {
  const test::GoldenFile file("lbfgs.h5");
  const auto groups = file.groups("");
  ASSERT_EQ(groups.size(), 7U);
  for (const std::string& group : groups) {
    const auto number = [&](const char* name, double otherwise) {
      return file.number_or(group, name, otherwise);
    };
    LbfgsOptions options;
    options.lr = number("lr", options.lr);
    options.max_iter = static_cast<std::int64_t>(number("max_iter", 20));
    options.max_eval = static_cast<std::int64_t>(number("max_eval", 0));
    options.history_size = static_cast<std::int64_t>(number("history_size", 100));
    options.tolerance_change = number("tolerance_change", options.tolerance_change);
    if (file.has_attribute(group, "line_search_fn"))
      options.line_search_fn = LbfgsOptions::LineSearch::strong_wolfe;
    std::vector<Tensor> initial;
    while (file.has(group + "/initial_" + std::to_string(initial.size())))
      initial.push_back(file.tensor(group + "/initial_" + std::to_string(initial.size())));
    const Parameters parameters = parameters_of(initial);
    LBFGS lbfgs(parameters, options);
    LBFGS::Closure closure = closure_of(parameters, [&] { return rosenbrock(parameters); });
    if (group.starts_with("network")) {
      closure = closure_of(parameters, [&, inputs = file.tensor(group + "/inputs"),
                                        targets = file.tensor(group + "/targets")] {
        return network(parameters, inputs, targets);
      });
    }
    const auto losses = file.tensor(group + "/losses").to_vector<double>(),
               trajectory = file.tensor(group + "/parameters").to_vector<double>();
    const auto evals = file.tensor(group + "/func_evals").to_vector<std::int64_t>();
    for (std::size_t step = 0; step < losses.size(); ++step) {
      const double loss = lbfgs.step(closure);
      EXPECT_NEAR(loss, losses[step], 1e-7 * (1e-3 + losses[step])) << group << " " << step;
      EXPECT_EQ(lbfgs.func_evals(), evals[step]) << group << " " << step;
      const auto now = flat(parameters);
      const double bound = step < 2 ? 1e-9 : 1e-4;  // each direction enlarges the rounding
      for (std::size_t i = 0; i < now.size(); ++i)
        ASSERT_NEAR(now[i], trajectory[step * now.size() + i], bound) << group << " " << step;
    }
    EXPECT_EQ(file.unread(group), std::vector<std::string>()) << group;
  }
}

TEST(Lbfgs, GoesOnFromItsStateWithTheSameBits) {
  for (const auto search :
       {LbfgsOptions::LineSearch::none, LbfgsOptions::LineSearch::strong_wolfe}) {
    const LbfgsOptions options{
        .lr = 0.01, .max_iter = 3, .history_size = 2, .line_search_fn = search};
    const Parameters whole =
        parameters_of({Tensor::from(std::vector<float>{-1.2F, 1.0F, 0.3F}, {3})});
    LBFGS first(whole, options);
    const auto closure = closure_of(whole, [&] { return rosenbrock(whole); });
    for (int step = 0; step < 3; ++step) first.step(closure);
    const Parameters resumed = parameters_of({whole[0].variable.data()});
    LBFGS second(resumed, options);
    second.load_state_dict(first.state_dict());
    const auto other = closure_of(resumed, [&] { return rosenbrock(resumed); });
    for (int step = 0; step < 3; ++step) EXPECT_EQ(first.step(closure), second.step(other));
    EXPECT_EQ(flat(whole), flat(resumed));
    EXPECT_EQ(first.func_evals(), second.func_evals());
    const Parameters more = parameters_of({Tensor::zeros({4})});
    LBFGS another(more, options);
    EXPECT_EQ(test::message_of<Error>([&] { another.load_state_dict(first.state_dict()); }),
              "LBFGS: the state has 3 elements, the parameters have 4: the state belongs to "
              "another model");
  }
}

TEST(Lbfgs, TakesTheHostsStepsOnADevice) {
  const auto trained = [](Device where) {
    const Tensor start = Tensor::from(std::vector<float>{-1.2F, 1.0F, 0.3F}, {3});
    const Parameters p = parameters_of({start.to(where)});
    LBFGS lbfgs(p, {.lr = 0.5, .line_search_fn = LbfgsOptions::LineSearch::strong_wolfe});
    std::vector<double> result;
    for (int step = 0; step < 3; ++step)
      result.push_back(lbfgs.step(closure_of(p, [&] { return rosenbrock(p); })));
    EXPECT_EQ(p[0].variable.data().device(), where);
    for (const double x : flat(p)) result.push_back(x);
    return result;
  };
  EXPECT_EQ(trained({DeviceType::sim, 0}), trained({}));
}

TEST(Lbfgs, KeepsTheNewestOfALongerHistoryAndTakesAStateWholeOrNotAtAll) {
  const Parameters p = parameters_of({Tensor::from(std::vector<float>{-1.2F, 1.0F, 0.3F}, {3})});
  const auto closure = closure_of(p, [&] { return sum(p[0].variable * p[0].variable); });
  const auto ro_of = [](const LBFGS& lbfgs) {
    return lbfgs.state_dict().at("ro").to_vector<double>();
  };
  LbfgsOptions options{.lr = 0.01, .max_iter = 3, .history_size = 5};
  LBFGS longer(p, options);
  for (int step = 0; step < 3; ++step) longer.step(closure);
  const auto all = ro_of(longer);
  ASSERT_GT(all.size(), 2U);

  options.history_size = 2;
  LBFGS shorter(p, options);
  StateDict without_its_last;
  for (const auto& entry : longer.state_dict()) {
    if (entry.name != "n_iter") without_its_last.insert(entry.name, entry.tensor);
  }
  EXPECT_THROW(shorter.load_state_dict(without_its_last), Error);
  EXPECT_EQ(shorter.state_dict().at("d").numel(), 0);

  shorter.load_state_dict(longer.state_dict());
  EXPECT_EQ(ro_of(shorter), (std::vector<double>{all[all.size() - 2], all.back()}));
  shorter.step(closure);
  EXPECT_EQ(ro_of(shorter).size(), 2U);
}

TEST(Lbfgs, EndsAtAZeroGradientAndRefusesInvalidOptions) {
  const Parameters at_minimum = parameters_of({Tensor::full({3}, 1.0, DType::f64)});
  LBFGS lbfgs(at_minimum);
  EXPECT_EQ(lbfgs.step(closure_of(at_minimum, [&] { return rosenbrock(at_minimum); })), 0.0);
  EXPECT_EQ(lbfgs.func_evals(), 1);
  EXPECT_THROW(LBFGS(at_minimum, {.lr = -1}), InputError);
  EXPECT_THROW(LBFGS(at_minimum, {.history_size = 0}), InputError);
  EXPECT_THROW(LBFGS({}), Error);
  EXPECT_THROW(LBFGS(parameters_of({Tensor::zeros({2}, DType::f16)})), Error);
}

}  // namespace
}  // namespace lockstep::optim
