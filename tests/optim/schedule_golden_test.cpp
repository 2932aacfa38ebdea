#include <cmath>
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/schedule.hpp>

// optim.h5, lr/*: the rate of optimizer step k for every schedule that exists.

namespace lockstep {
namespace {

using optim::ScheduleOptions;

/// The schedule a case describes by its attributes, if it is one of ours.
std::optional<ScheduleOptions> schedule_of(const test::GoldenFile& file, const std::string& path,
                                           const std::string& name) {
  ScheduleOptions options;
  if (name == "step") {
    options.kind = ScheduleOptions::Kind::step;
    options.step_size = static_cast<std::int64_t>(file.number(path, "step_size"));
    options.gamma = file.number(path, "gamma");
    return options;
  }
  if (name.starts_with("cosine")) {
    options.kind = ScheduleOptions::Kind::cosine;
    options.t_max = static_cast<std::int64_t>(file.number(path, "T_max"));
    options.eta_min = file.number(path, "eta_min");
    return options;
  }
  return std::nullopt;
}

TEST(ScheduleGolden, EveryRateAgreesWithPyTorch) {
  const test::GoldenFile file("optim.h5");
  int run = 0;
  std::vector<std::string> not_built;
  for (const auto& name : file.groups("lr")) {
    const std::string path = "lr/" + name;
    const auto options = schedule_of(file, path, name);
    if (!options) {
      not_built.push_back(name);
      continue;
    }
    const auto rates = file.tensor(path + "/lr").to_vector<double>();
    ASSERT_FALSE(rates.empty());
    for (std::size_t k = 0; k < rates.size(); ++k) {
      const double lr =
          optim::scheduled_lr(*options, file.number(path, "base_lr"), static_cast<std::int64_t>(k));
      EXPECT_LE(std::abs(lr - rates[k]), 1e-12) << path << ", k = " << k;
    }
    ++run;
  }
  EXPECT_GE(run, 2);
  std::printf("optim.h5 lr: %d schedules compared, %zu not built:", run, not_built.size());
  for (const auto& name : not_built) std::printf(" %s", name.c_str());
  std::printf("\n");
  RecordProperty("not_built", static_cast<int>(not_built.size()));
}

TEST(Schedule, ConstantNeverChanges) {
  for (const std::int64_t k : {0, 1, 1000000}) EXPECT_EQ(optim::scheduled_lr({}, 0.25, k), 0.25);
}

TEST(Schedule, UnitSaysWhetherEpochsOrStepsCount) {
  ScheduleOptions options{.kind = ScheduleOptions::Kind::step, .step_size = 2, .gamma = 0.5};
  EXPECT_EQ(optim::scheduled_lr(options, 1.0, 4, 1000), 0.25);
  options.unit = ScheduleOptions::Unit::step;
  EXPECT_EQ(optim::scheduled_lr(options, 1.0, 1000, 3), 0.5);
}

}  // namespace
}  // namespace lockstep
