#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/golden_file.hpp>

#include <lockstep/optim/sgd.hpp>

// optim.h5: every case of the algorithms that exist, every step; the others are listed and counted.

namespace lockstep {
namespace {

optim::SgdOptions options_of(const test::GoldenFile& file, const std::string& name) {
  return {.lr = file.number(name, "lr"),
          .momentum = file.number_or(name, "momentum", 0.0),
          .dampening = file.number_or(name, "dampening", 0.0),
          .nesterov = file.number_or(name, "nesterov", 0.0) != 0.0,
          .weight_decay = file.number_or(name, "weight_decay", 0.0)};
}

/// Row `s` of a [steps, ...] tensor.
Tensor row(const Tensor& t, std::int64_t s) {
  return t.slice(s, s + 1).reshape(
      Shape(std::span(t.shape().begin() + 1, static_cast<std::size_t>(t.dims() - 1))));
}

/// Runs one case in `dtype`; compares parameters after each step and the final state.
void check_case(const test::GoldenFile& file, const std::string& name, DType dtype) {
  SCOPED_TRACE(name + " in " + std::string(name_of(dtype)));
  std::vector<nn::NamedParameter> parameters;
  for (const auto& parameter : file.datasets("common/init")) {
    const Tensor start = file.tensor("common/init/" + parameter).to(dtype).clone();
    parameters.push_back({parameter, Variable(start, true)});
  }
  ASSERT_FALSE(parameters.empty());
  optim::SGD sgd(parameters, options_of(file, name));
  // In double our own rounding is all that may differ.
  const auto tolerance = [&](const std::string& path) {
    return dtype == DType::f64 ? 1e-13 * std::max(1.0, file.number(path, "ref_max_abs"))
                               : file.tolerance(path);
  };

  const auto steps = static_cast<std::int64_t>(file.number("common", "steps"));
  for (std::int64_t s = 0; s < steps; ++s) {
    for (const auto& [parameter, variable] : parameters) {
      const Tensor gradient = row(file.tensor("common/grads/" + parameter), s).to(dtype);
      variable.grad_buffer().copy_from(gradient);
      variable.mark_grad_present();
    }
    sgd.step();
    sgd.zero_grad();
    for (const auto& [parameter, variable] : parameters) {
      const std::string path = name + "/" + parameter + "_f64";
      EXPECT_LE(test::max_difference(variable.data().to(DType::f64), row(file.tensor(path), s)),
                tolerance(path))
          << path << " after step " << s;
    }
  }

  if (!file.has(name + "/state")) {
    EXPECT_EQ(sgd.state_dict().size(), 0U);
    return;
  }
  for (const auto& [parameter, variable] : parameters) {
    const std::string path = name + "/state/" + parameter + ".momentum_buffer_f64";
    const Tensor buffer = sgd.state_dict().at(parameter + "/momentum_buffer");
    EXPECT_LE(test::max_difference(buffer.to(DType::f64), file.tensor(path)), tolerance(path))
        << path;
  }
}

TEST(SgdGolden, EveryCaseAndStepAgreesWithPyTorch) {
  const test::GoldenFile file("optim.h5");
  int run = 0;
  std::vector<std::string> not_built;
  for (const auto& name : file.groups("")) {
    if (!file.has_attribute(name, "algorithm")) continue;
    if (file.text(name, "algorithm") != "SGD") {
      not_built.push_back(name);
      continue;
    }
    check_case(file, name, DType::f32);
    check_case(file, name, DType::f64);
    ++run;
  }
  EXPECT_GT(run, 0);
  std::printf("optim.h5: %d cases compared, %zu not built:", run, not_built.size());
  for (const auto& name : not_built) std::printf(" %s", name.c_str());
  std::printf("\n");
  RecordProperty("not_built", static_cast<int>(not_built.size()));
}

}  // namespace
}  // namespace lockstep
