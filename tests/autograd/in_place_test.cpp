// x += y, x[i] and item(), as PyTorch's users write them.
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/state_dict.hpp>
#include <support/message_of.hpp>

namespace lockstep {
namespace {

using Doubles = std::vector<double>;

Variable trained(const Doubles& values) { return Variable(Tensor::from(values), true); }
Doubles values_of(const Variable& x) { return x.data().to_vector<double>(); }
Doubles grad_of(const Variable& x) { return x.grad().to_vector<double>(); }

TEST(InPlace, AResultTakesPartInDifferentiation) {
  const Variable w = trained({2, 3});
  Variable x = w * 1.0;
  const Variable before = x;
  x += w;  // 2 w
  x *= w;  // 2 w^2
  x -= 1.0;
  x /= 2.0;  // w^2 - 1/2
  EXPECT_EQ(values_of(x), (Doubles{3.5, 8.5}));
  EXPECT_EQ(values_of(before), (Doubles{2, 3})) << "what others have of it stays";
  sum(x).backward();
  EXPECT_EQ(grad_of(w), (Doubles{4, 6}));
}

TEST(InPlace, EarlierResultsKeepTheirGradients) {
  const Variable w = trained({2, 3});
  Variable x = w * 1.0;
  const Variable square = x * x;
  x += 100.0;
  sum(square).backward();
  EXPECT_EQ(grad_of(w), (Doubles{4, 6}));
}

TEST(InPlace, ASumOfLossesStartsFromAConstant) {
  const Variable w = trained({2});
  Variable total(Tensor::zeros({}, DType::f64));
  for (int i = 0; i < 3; ++i) total += sum(w * w);
  EXPECT_EQ(total.item(), 12);
  total.backward();
  EXPECT_EQ(grad_of(w), Doubles{12});
}

TEST(InPlace, ATrainedLeafIsRefusedWhileRecording) {
  Variable w = trained({2, 3});
  const Variable same = w;
  for (const auto& change : std::vector<std::function<void()>>{
           [&] { w += 1.0; }, [&] { w -= w; }, [&] { w *= 2.0; }, [&] { w /= w; }}) {
    const auto message = test::message_of<Error>(change);
    EXPECT_NE(message.find("leaf that requires a gradient"), std::string::npos) << message;
  }
  EXPECT_EQ(values_of(w), (Doubles{2, 3}));
  const NoGradGuard guard;
  w -= 0.5;
  w *= w;
  EXPECT_EQ(values_of(same), (Doubles{2.25, 6.25})) << "the module's handle, too";
  EXPECT_TRUE(w.requires_grad() && w.is_leaf());
}

TEST(InPlace, ALeafThatOthersShareIsRefusedIfTheyWouldKeepTheOldValue) {
  const Variable parameter(Tensor::full({2}, 3.0, DType::f64));
  Variable same = parameter;  // as of named_parameters()
  const auto message = test::message_of<Error>([&] { same *= 0.5; });
  EXPECT_NE(message.find("they would keep the old value"), std::string::npos) << message;
  EXPECT_EQ(values_of(parameter), (Doubles{3, 3}));
  {
    const NoGradGuard guard;
    same *= 0.5;
  }
  EXPECT_EQ(values_of(parameter), (Doubles{1.5, 1.5}));
  Variable alone(Tensor::full({2}, 3.0, DType::f64));
  alone *= 2.0;
  EXPECT_EQ(values_of(alone), (Doubles{6, 6}));
}

TEST(Variable, OfATemporaryGivesItsValueNotAReference) {
  static_assert(std::is_same_v<decltype(std::declval<Variable>().data()), Tensor>);
  static_assert(std::is_same_v<decltype(std::declval<Variable>().shape()), Shape>);
  static_assert(std::is_same_v<decltype(std::declval<StateDict>().at("")), Tensor>);
  static_assert(std::is_same_v<decltype(std::declval<const Variable&>().data()), const Tensor&>);
  const Tensor& sum = (trained({2}) + 1.0).data();
  EXPECT_EQ(sum.to_vector<double>(), Doubles{3});
}

TEST(InPlace, TheShapeStays) {
  Variable x(Tensor::zeros({2}, DType::f64));
  const Variable wide(Tensor::zeros({3, 2}, DType::f64)), one(Tensor::full({}, 2, DType::f64));
  EXPECT_THROW(x += wide, ShapeError);
  x += one;
  EXPECT_EQ(values_of(x), (Doubles{2, 2}));
}

TEST(Row, HasTheGradientOfItsElements) {
  const Variable w(Tensor::from({1.0, 2.0, 3.0, 4.0}, {2, 2}), true);
  EXPECT_EQ(w[1].shape(), Shape({2}));
  EXPECT_EQ(w[-2][1].item(), 2);
  (w[1][0] * w[0][1]).backward();
  EXPECT_EQ(grad_of(w), (Doubles{0, 3, 2, 0}));
  EXPECT_THROW(static_cast<void>(w[2]), ShapeError);
  EXPECT_THROW(static_cast<void>(w[0][0][0]), ShapeError);
  EXPECT_FALSE((std::is_assignable_v<Variable, Variable>)) << "x[i] = y would change nothing";
}

TEST(Reshape, FindsTheExtentThatIsLeftOpen) {
  const Variable w(Tensor::zeros({2, 6}), true);
  EXPECT_EQ(reshape(w, {-1, 3}).shape(), Shape({4, 3}));
  EXPECT_THROW(static_cast<void>(reshape(w, {-1, 5})), ShapeError);
}

TEST(Item, IsTheValueOfOneElement) {
  EXPECT_EQ(mean(trained({2, 3})).item(), 2.5);
  EXPECT_THROW(static_cast<void>(trained({2, 3}).item()), ShapeError);
  EXPECT_THROW(static_cast<void>(Variable().item()), Error);
}

}  // namespace
}  // namespace lockstep
