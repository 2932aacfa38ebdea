#include <cmath>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/schedules.hpp>

// optim.h5, lr/*: the rate (and one_cycle's momentum) of optimizer step k, for every schedule.

namespace lockstep {
namespace {

class ScheduleGolden : public testing::Test {
 protected:
  [[nodiscard]] double number(const std::string& name, const char* attribute) const {
    return file_.number("lr/" + name, attribute);
  }
  [[nodiscard]] std::int64_t whole(const std::string& name, const char* attribute) const {
    return static_cast<std::int64_t>(number(name, attribute));
  }

  /// The schedule that a case describes by its name and attributes.
  [[nodiscard]] optim::ScheduleKind schedule_of(const std::string& name) const {
    if (name == "step")
      return optim::StepLR{.step_size = whole(name, "step_size"), .gamma = number(name, "gamma")};
    if (name == "multistep") {
      optim::MultiStepLR options{.gamma = number(name, "gamma")};
      for (const double milestone : file_.numbers("lr/" + name, "milestones")) {
        options.milestones.push_back(static_cast<std::int64_t>(milestone));
      }
      return options;
    }
    if (name == "exponential") return optim::ExponentialLR{.gamma = number(name, "gamma")};
    if (name == "cosine" || name == "cosine_wraps") {
      return optim::CosineAnnealingLR{.t_max = whole(name, "T_max"),
                                      .eta_min = number(name, "eta_min")};
    }
    if (name == "linear_then_cosine_sequential") {
      return optim::CosineAnnealingLR{
          .t_max = whole(name, "T_max"),
          .eta_min = number(name, "eta_min"),
          .warmup = {.units = whole(name, "warmup"), .start_factor = number(name, "start_factor")}};
    }
    if (name == "warmup_cosine") {
      return optim::WarmupCosine{.warmup = whole(name, "warmup"),
                                 .total = whole(name, "total"),
                                 .min_factor = number(name, "min_factor")};
    }
    if (name == "one_cycle") {
      EXPECT_EQ(number(name, "base_lr"), number(name, "max_lr"));
      return optim::OneCycleLR{.total = whole(name, "total_steps"),
                               .pct_start = number(name, "pct_start"),
                               .div_factor = number(name, "div_factor"),
                               .final_div_factor = number(name, "final_div_factor"),
                               .base_momentum = number(name, "base_momentum"),
                               .max_momentum = number(name, "max_momentum")};
    }
    ADD_FAILURE() << "the schedule " << name << " is not built";
    return {};
  }

  test::GoldenFile file_{"optim.h5"};
};

TEST_F(ScheduleGolden, EveryRateAndMomentumAgreesWithPyTorch) {
  std::size_t rates_compared = 0, momenta_compared = 0;
  for (const auto& name : file_.groups("lr")) {
    const auto rates = file_.tensor("lr/" + name + "/lr").to_vector<double>();
    const auto schedule = optim::make_schedule({.kind = schedule_of(name)}, std::ssize(rates), 1);
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const double lr = schedule->lr(number(name, "base_lr"), static_cast<std::int64_t>(k));
      EXPECT_LE(std::abs(lr - rates[k]), 1e-12) << name << ", k = " << k;
      ++rates_compared;
    }
    if (!file_.has("lr/" + name + "/momentum")) {
      EXPECT_FALSE(schedule->momentum(0)) << name;
      continue;
    }
    const auto momenta = file_.tensor("lr/" + name + "/momentum").to_vector<double>();
    for (std::size_t k = 0; k < momenta.size(); ++k) {
      const auto momentum = schedule->momentum(static_cast<std::int64_t>(k));
      ASSERT_TRUE(momentum.has_value());
      EXPECT_LE(std::abs(*momentum - momenta[k]), 1e-12) << name << ", k = " << k;
      ++momenta_compared;
    }
  }
  EXPECT_EQ(rates_compared, 8U * 100U);
  EXPECT_EQ(momenta_compared, 100U);
  EXPECT_EQ(file_.unread("lr"), std::vector<std::string>{});
}

}  // namespace
}  // namespace lockstep
