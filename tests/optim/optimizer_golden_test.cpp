#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/adam.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/sgd.hpp>

// optim.h5: every case that names an algorithm, every step, in both precisions.

namespace lockstep {
namespace {

/// The optimizer that a case's attributes describe; null for an algorithm that is not known.
std::unique_ptr<optim::Optimizer> optimizer_of(const test::GoldenFile& file,
                                               const std::string& name,
                                               std::vector<nn::NamedParameter> parameters) {
  const std::string algorithm = file.text(name, "algorithm");
  const double lr = file.number(name, "lr"), decay = file.number_or(name, "weight_decay", 0.0);
  if (algorithm == "SGD") {
    return std::make_unique<optim::SGD>(
        std::move(parameters),
        optim::SgdOptions{.lr = lr,
                          .momentum = file.number_or(name, "momentum", 0.0),
                          .dampening = file.number_or(name, "dampening", 0.0),
                          .nesterov = file.number_or(name, "nesterov", 0.0) != 0.0,
                          .weight_decay = decay});
  }
  const auto betas = file.numbers(name, "betas");
  const double eps = file.number(name, "eps");
  const bool amsgrad = file.number_or(name, "amsgrad", 0.0) != 0.0;
  if (algorithm == "Adam") {
    return std::make_unique<optim::Adam>(std::move(parameters),
                                         optim::AdamOptions{.lr = lr,
                                                            .betas = {betas[0], betas[1]},
                                                            .eps = eps,
                                                            .weight_decay = decay,
                                                            .amsgrad = amsgrad});
  }
  if (algorithm == "AdamW") {
    return std::make_unique<optim::AdamW>(std::move(parameters),
                                          optim::AdamWOptions{.lr = lr,
                                                              .betas = {betas[0], betas[1]},
                                                              .eps = eps,
                                                              .weight_decay = decay,
                                                              .amsgrad = amsgrad});
  }
  return nullptr;
}

/// Row `s` of a [steps, ...] tensor.
Tensor row(const Tensor& t, std::int64_t s) {
  return t.slice(s, s + 1).reshape(
      Shape(std::span(t.shape().begin() + 1, static_cast<std::size_t>(t.dims() - 1))));
}

class OptimizerGolden : public testing::Test {
 protected:
  /// Runs one case in `dtype`; compares parameters after each step and the final state.
  void check_case(const std::string& name, DType dtype) {
    SCOPED_TRACE(name + " in " + std::string(name_of(dtype)));
    std::vector<nn::NamedParameter> parameters;
    for (const auto& parameter : file_.datasets("common/init")) {
      const Tensor start = file_.tensor("common/init/" + parameter).to(dtype).clone();
      parameters.push_back({parameter, Variable(start, true)});
    }
    ASSERT_FALSE(parameters.empty());
    const auto optimizer = optimizer_of(file_, name, parameters);
    ASSERT_TRUE(optimizer) << "the algorithm " << file_.text(name, "algorithm") << " is not built";

    const auto steps = static_cast<std::int64_t>(file_.number("common", "steps"));
    for (std::int64_t s = 0; s < steps; ++s) {
      for (const auto& [parameter, variable] : parameters) {
        const Tensor gradient = row(file_.tensor("common/grads/" + parameter), s).to(dtype);
        variable.grad_buffer().copy_from(gradient);
        variable.mark_grad_present();
      }
      optimizer->step(clip_factor(name, s, parameters));
      optimizer->zero_grad();
      for (const auto& [parameter, variable] : parameters) {
        const std::string path = name + "/" + parameter + "_f64";
        expect_near(variable.data(), path, row(file_.tensor(path), s));
      }
      if (HasFailure()) FAIL() << "after step " << s;
    }
    check_state(name, *optimizer);
  }

 private:
  /// In double our own rounding is all that may differ.
  void expect_near(const Tensor& t, const std::string& path, const Tensor& reference) {
    const double tolerance = t.dtype() == DType::f64
                                 ? 1e-13 * std::max(1.0, file_.number(path, "ref_max_abs"))
                                 : file_.tolerance(path);
    EXPECT_LE(test::max_difference(t.to(DType::f64), reference), tolerance) << path;
  }

  double clip_factor(const std::string& name, std::int64_t s,
                     const std::vector<nn::NamedParameter>& parameters) {
    if (!file_.has_attribute(name, "max_norm")) return 1.0;
    const std::string path = name + "/total_norm_f64";
    const double norm = optim::grad_norm(parameters);
    const Tensor reference = row(file_.tensor(path), s);
    expect_near(Tensor::full({}, norm, parameters[0].variable.data().dtype()), path, reference);
    return optim::clip_factor(norm, file_.number(name, "max_norm"));
  }

  /// state/PARAMETER.SLOT_f64 of the file is PARAMETER/SLOT of ours, one to one.
  void check_state(const std::string& name, const optim::Optimizer& optimizer) {
    const StateDict state = optimizer.state_dict();
    std::size_t compared = 0;
    for (const auto& entry : state) {
      const auto slash = entry.name.find('/');
      const std::string slot = entry.name.substr(slash + 1);
      if (slot == "step") continue;
      const std::string path = name + "/state/" + entry.name.substr(0, slash) + "." + slot + "_f64";
      expect_near(entry.tensor, path, file_.tensor(path));
      ++compared;
    }
    const auto stored =
        file_.has(name + "/state") ? file_.datasets(name + "/state").size() : std::size_t{0};
    EXPECT_EQ(compared, stored);
  }

 protected:
  test::GoldenFile file_{"optim.h5"};
};

TEST_F(OptimizerGolden, EveryCaseAndStepAgreesWithPyTorch) {
  std::size_t cases = 0;
  std::vector<std::string> others;
  for (const auto& name : file_.groups("")) {
    if (!file_.has_attribute(name, "algorithm")) {
      others.push_back(name);
      continue;
    }
    check_case(name, DType::f32);
    check_case(name, DType::f64);
    EXPECT_EQ(file_.unread(name), std::vector<std::string>{});
    ++cases;
  }
  EXPECT_EQ(cases, 12U);
  EXPECT_EQ(file_.unread("common"), std::vector<std::string>{});
  EXPECT_EQ(others, (std::vector<std::string>{"common", "lr"}));  // lr: schedule_golden_test.cpp
}

}  // namespace
}  // namespace lockstep
