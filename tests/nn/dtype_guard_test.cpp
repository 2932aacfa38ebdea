#include <lockstep/nn/dtype_guard.hpp>

#include <gtest/gtest.h>

#include <lockstep/autograd/check_gradients.hpp>
#include <lockstep/autograd/functional/loss.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/models/convnet.hpp>
#include <lockstep/nn/random.hpp>

namespace lockstep::nn {
namespace {

TEST(DTypeGuard, ModelsHoldTheSameNumbersInDoublePrecision) {
  manual_seed(3);
  const auto single = convnet({1, 16, 16}, 10);
  manual_seed(3);
  std::shared_ptr<Module> in_double;
  {
    const DTypeGuard guard(DType::f64);
    in_double = convnet({1, 16, 16}, 10);
  }
  EXPECT_EQ(default_dtype(), DType::f32);
  const auto a = single->state_dict(), b = in_double->state_dict();
  auto other = b.begin();
  for (const auto& entry : a) {
    EXPECT_EQ(other->tensor.dtype(), DType::f64);
    EXPECT_EQ(entry.tensor.to(DType::f64).to_vector<double>(), other->tensor.to_vector<double>());
    ++other;
  }
}

// Dropout stays on: under a guard its masks are the same at every call.
TEST(DTypeGuard, AModelInDoublePrecisionPassesTheGradientCheck) {
  const DTypeGuard guard(DType::f64);
  manual_seed(5);
  const auto model = convnet({1, 16, 16}, 10);
  const Variable x(uniform({3, 1, 16, 16}, 1.0).to(DType::f64));
  const Tensor target = Tensor::from(std::vector<std::int64_t>{1, 7, 3}, {3});
  std::vector<std::pair<std::string, Variable>> parameters;
  for (auto& [name, variable] : model->named_parameters()) parameters.emplace_back(name, variable);
  const auto loss = [&] {
    const RandomContextGuard same_masks({.seed = 5});
    return nll_loss((*model)(x), target);
  };
  for (const auto& check : check_gradients(loss, parameters)) {
    EXPECT_TRUE(check.ok()) << check.name << " at " << check.where << ": " << check.gradient
                            << " against " << check.difference << ", allowed " << check.allowed;
  }
}

TEST(DTypeGuard, RefusesTypesThatParametersCannotHave) {
  EXPECT_THROW({ const DTypeGuard guard(DType::i64); }, ShapeError);
}

}  // namespace
}  // namespace lockstep::nn
