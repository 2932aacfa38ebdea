#include <lockstep/autograd/check_gradients.hpp>

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include "gradient_check.hpp"
#include "weighted_sum.hpp"

namespace lockstep::test {
namespace {

/// y = x, whose backward is wrong by a factor: what a user's own operation may get wrong.
class WrongNode : public PooledNode<WrongNode> {
 public:
  explicit WrongNode(double factor) : factor_(factor) {}
  void backward(const Tensor& grad_output) override {
    const auto x = grad_target(0);
    if (!x.accumulate) x.tensor.zero();
    add_scaled(grad_output, factor_, x.tensor);
  }
  [[nodiscard]] const char* name() const noexcept override { return "wrong"; }

 private:
  double factor_;
};

Variable wrong(const Variable& x, double factor) {
  return record<WrongNode>(x.data().clone(), {&x}, factor);
}

struct Net {
  Variable weight, bias;
  Variable x;
  Tensor target = Tensor::from(std::vector<std::int64_t>{2, 0, 1, 4}, {4});

  explicit Net(DType dtype)
      : weight(random_tensor({5, 7}, 1).to(dtype), true),
        bias(random_tensor({5}, 2).to(dtype), true),
        x(random_tensor({4, 7}, 3).to(dtype)) {}

  [[nodiscard]] Variable loss(double factor) const {
    return cross_entropy(relu(linear(x, wrong(weight, factor), bias)), target);
  }
  [[nodiscard]] std::vector<GradientCheck> check(double factor) const {
    return check_gradients([&] { return loss(factor); }, {{"weight", weight}, {"bias", bias}});
  }
};

TEST(CheckGradients, RightGradientsPassInBothPrecisions) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const auto results = Net(dtype).check(1.0);
    ASSERT_EQ(results.size(), 2U);
    for (const auto& result : results) {
      EXPECT_TRUE(result.ok()) << result.name << " at " << result.where << ": " << result.gradient
                               << " against " << result.difference;
      EXPECT_EQ(result.comparisons, 13);
    }
  }
}

TEST(CheckGradients, AnErrorOfOneInAThousandIsFoundAndLocated) {
  const auto results = Net(DType::f64).check(1.001);
  EXPECT_FALSE(results[0].ok());
  EXPECT_EQ(results[0].name, "weight");
  EXPECT_NEAR(results[0].gradient / results[0].difference, 1.001, 1e-5);
  EXPECT_TRUE(results[1].ok());
}

TEST(CheckGradients, AnErrorOfATenthIsFoundInF32) {
  EXPECT_FALSE(Net(DType::f32).check(1.1)[0].ok());
}

TEST(CheckGradients, ANanGradientFails) {
  EXPECT_FALSE(Net(DType::f64).check(std::numeric_limits<double>::quiet_NaN())[0].ok());
}

TEST(CheckGradients, LeavesTheValuesAsTheyWere) {
  const Net net(DType::f32);
  const auto before = net.weight.data().to_vector<float>();
  static_cast<void>(net.check(1.0));
  EXPECT_EQ(net.weight.data().to_vector<float>(), before);
}

TEST(CheckGradients, AVariableThatTheLossDoesNotUseIsNamed) {
  const Net net(DType::f64);
  const Variable stranger(Tensor::zeros({3}, DType::f64), true);
  try {
    static_cast<void>(check_gradients([&] { return net.loss(1.0); }, {{"stranger", stranger}}));
    FAIL() << "nothing was thrown";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("'stranger' no gradient"), std::string::npos);
  }
}

}  // namespace
}  // namespace lockstep::test
