#include <algorithm>
#include <cctype>
#include <cmath>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/deck/deck.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/make_optimizer.hpp>

// optim.h5, breadth.h5 and adan.h5: every case that names an algorithm, every step, in both
// precisions.

namespace lockstep {
namespace {

/// What torch.optim calls the options, which decks do too; a flag is 0 or 1.
constexpr const char* numbers[] = {"lr",       "momentum", "dampening",      "eps",   "alpha",
                                   "lr_decay", "rho",      "momentum_decay", "lambd", "t0"};
constexpr const char* switches[] = {"nesterov", "amsgrad", "centered", "no_prox"};

/// The optimizer that a case's attributes describe, by way of a deck; null for an algorithm that is
/// not known. Without an attribute there is no decay.
std::unique_ptr<optim::Optimizer> optimizer_of(const test::GoldenFile& file,
                                               const std::string& name,
                                               std::vector<nn::NamedParameter> parameters) {
  std::string kind = file.text(name, "algorithm");
  std::ranges::transform(kind, kind.begin(), [](unsigned char c) { return std::tolower(c); });
  const auto known = optim::optimizer_kinds().all();
  if (std::ranges::none_of(known, [&](const auto* one) { return one->name == kind; }))
    return nullptr;
  std::string text = fmt::format("[optimizer]\nkind = '{}'\nweight_decay = {}\n", kind,
                                 file.number_or(name, "weight_decay", 0.0));
  for (const char* key : numbers) {
    if (file.has_attribute(name, key))
      text += fmt::format("{} = {}\n", key, file.number(name, key));
  }
  for (const char* key : switches) {
    if (file.has_attribute(name, key))
      text += fmt::format("{} = {}\n", key, file.number(name, key) != 0.0);
  }
  if (file.has_attribute(name, "betas"))
    text += fmt::format("betas = [{}]\n", fmt::join(file.numbers(name, "betas"), ", "));
  Deck deck = Deck::parse(text, name);
  const auto options = optim::read_optimizer_options(deck);
  deck.check_all_read();
  return optim::make_optimizer(options, std::move(parameters));
}

/// Row `s` of a [steps, ...] tensor.
Tensor row(const Tensor& t, std::int64_t s) {
  return t.slice(s, s + 1).reshape(
      Shape(std::span(t.shape().begin() + 1, static_cast<std::size_t>(t.dims() - 1))));
}

/// A file, and the group in it that holds the cases.
class OptimizerCases {
 public:
  OptimizerCases(const std::string& file, std::string root) : file_(file), root_(std::move(root)) {}

  /// Runs every case; how many there were.
  std::size_t check() {
    std::size_t cases = 0;
    for (const auto& name : file_.groups(root_)) {
      const std::string path = root_ + name;
      if (!file_.has_attribute(path, "algorithm")) {
        others_.push_back(name);
        continue;
      }
      check_case(path, DType::f32);
      check_case(path, DType::f64);
      EXPECT_EQ(file_.unread(path), std::vector<std::string>{});
      ++cases;
    }
    EXPECT_EQ(file_.unread(root_ + "common"), std::vector<std::string>{});
    return cases;
  }
  [[nodiscard]] const std::vector<std::string>& others() const { return others_; }

 private:
  /// Runs one case in `dtype`; compares parameters after each step and the final state.
  void check_case(const std::string& name, DType dtype) {
    SCOPED_TRACE(name + " in " + std::string(name_of(dtype)));
    const std::string algorithm = file_.text(name, "algorithm");
    in_double_ = algorithm == "ASGD" || algorithm == "NAdam" ? 1e-8 : 1e-13;
    std::vector<nn::NamedParameter> parameters;
    for (const auto& parameter : file_.datasets(root_ + "common/init")) {
      const Tensor start = file_.tensor(root_ + "common/init/" + parameter).to(dtype).clone();
      parameters.push_back({parameter, Variable(start, true)});
    }
    ASSERT_FALSE(parameters.empty());
    const auto optimizer = optimizer_of(file_, name, parameters);
    ASSERT_TRUE(optimizer) << "the algorithm " << file_.text(name, "algorithm") << " is not built";

    const std::string grads = root_ + "common/grads/";
    const auto steps = file_.tensor(grads + parameters[0].name).size(0);
    for (std::int64_t s = 0; s < steps; ++s) {
      for (const auto& [parameter, variable] : parameters) {
        const Tensor gradient = row(file_.tensor(grads + parameter), s).to(dtype);
        variable.grad_buffer().copy_from(gradient);
        variable.mark_grad_present();
      }
      optimizer->step(clip_factor(name, s, parameters));
      optimizer->zero_grad();
      for (const auto& [parameter, variable] : parameters) {
        const std::string path = name + "/" + parameter + "_f64";
        expect_near(variable.data(), path, row(file_.tensor(path), s));
      }
      if (testing::Test::HasFailure()) FAIL() << "after step " << s;
    }
    if (file_.has(name + "/state") || root_.empty()) check_state(name, *optimizer);
  }

  /// In double our own rounding is all that may differ; but some of PyTorch's optimizers keep
  /// numbers of their own (ASGD's eta, NAdam's product of momenta) in single precision then too.
  void expect_near(const Tensor& t, const std::string& path, const Tensor& reference) {
    const double tolerance = t.dtype() == DType::f64
                                 ? in_double_ * std::max(1.0, file_.number(path, "ref_max_abs"))
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

  test::GoldenFile file_;
  std::string root_;
  std::vector<std::string> others_;
  double in_double_ = 0.0;
};

TEST(OptimizerGolden, EveryCaseAndStepAgreesWithPyTorch) {
  OptimizerCases cases("optim.h5", "");
  EXPECT_EQ(cases.check(), 12U);
  // lr: schedule_golden_test.cpp
  EXPECT_EQ(cases.others(), (std::vector<std::string>{"common", "lr"}));
}

TEST(OptimizerGolden, EveryFurtherOptimizersStepsAgreeWithPyTorch) {
  OptimizerCases cases("breadth.h5", "optim/");
  EXPECT_EQ(cases.check(), 8U);
  EXPECT_EQ(cases.others(), std::vector<std::string>{"common"});
}

// By an implementation of its own in numpy (tests/golden/make_adan.py): PyTorch has no Adan.
TEST(OptimizerGolden, EveryStepOfAdanAgreesWithAnImplementationOfItsPaper) {
  OptimizerCases cases("adan.h5", "");
  EXPECT_EQ(cases.check(), 5U);
  EXPECT_EQ(cases.others(), std::vector<std::string>{"common"});
}

}  // namespace
}  // namespace lockstep
