// What DistributedDataParallel needs of a leaf: hooks of several users, and memory of its choice.
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>

namespace lockstep {
namespace {

Variable leaf(const std::vector<double>& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}

TEST(GradHook, SeveralAreCalledInTheOrderInWhichTheyWereAdded) {
  const Variable w = leaf({1, 2});
  std::string called;
  const GradHook a = w.add_grad_hook([&] { called += 'a'; });
  GradHook b = w.add_grad_hook([&] { called += 'b'; });
  const GradHook c = w.add_grad_hook([&] {
    EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{3, 3}));
    called += 'c';
  });
  sum(add(mul(w, 2.0), w)).backward();
  EXPECT_EQ(called, "abc") << "once each, though the leaf is used twice";
  w.zero_grad();
  b = {};
  const GradHook d = w.add_grad_hook([&] { called += 'd'; });
  sum(mul(w, 3.0)).backward();
  EXPECT_EQ(called, "abcacd");
}

TEST(GradHook, MovedGoesWithTheLastThatHoldsIt) {
  const Variable w = leaf({1});
  int calls = 0;
  {
    GradHook first = w.add_grad_hook([&] { ++calls; });
    std::vector<GradHook> kept;
    kept.push_back(std::move(first));
    sum(w).backward();
    EXPECT_EQ(calls, 1);
  }
  sum(w).backward();
  EXPECT_EQ(calls, 1);
}

TEST(RequiresGrad, OfALeafComesAndGoesAndResultsHaveTheirOwn) {
  const Variable w = leaf({1, 2}), v = leaf({3, 4});
  sum(mul(w, v)).backward();
  w.set_requires_grad(false);
  EXPECT_FALSE(w.grad().defined());
  v.zero_grad();
  const Variable loss = sum(mul(w, v));
  loss.backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(v.grad().to_vector<double>(), (std::vector<double>{1, 2}));
  w.set_requires_grad(true);
  sum(mul(w, v)).backward();
  EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{3, 4}));
  EXPECT_THROW(mul(w, v).set_requires_grad(false), Error);
  EXPECT_THROW(loss.set_requires_grad(true), Error);
  EXPECT_THROW(Variable(Tensor::zeros({2}, DType::i64)).set_requires_grad(true), Error);
}

TEST(RequiresGrad, FrozenBetweenForwardAndBackwardGetsNone) {
  const Variable w = leaf({1, 2}), v = leaf({3, 4});
  const Variable loss = sum(mul(w, v));
  w.set_requires_grad(false);
  loss.backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(v.grad().to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(ValueBuffer, HoldsTheValueFromThenOnForEveryHandle) {
  const Variable w = leaf({1, 2}), same = w;
  const Tensor before = w.data(), home = Tensor::zeros({4}, DType::f64);
  w.set_value_buffer(home.slice(1, 3));
  EXPECT_EQ(home.to_vector<double>(), (std::vector<double>{0, 1, 2, 0}));
  home.fill(5);
  EXPECT_EQ(same.data().to_vector<double>(), (std::vector<double>{5, 5}));
  EXPECT_EQ(before.to_vector<double>(), (std::vector<double>{1, 2}));
}

TEST(ValueBuffer, OfAnotherShapeOrDtypeOrOfAResultIsRefused) {
  const Variable w = leaf({1, 2});
  EXPECT_THROW(w.set_value_buffer(Tensor::zeros({3}, DType::f64)), ShapeError);
  EXPECT_THROW(w.set_value_buffer(Tensor::zeros({2}, DType::f32)), ShapeError);
  EXPECT_THROW(sum(w).set_value_buffer(Tensor::zeros({}, DType::f64)), Error);
}

}  // namespace
}  // namespace lockstep
