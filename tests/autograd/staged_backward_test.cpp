// Passes whose gradients come one by one: the same numbers as if all were there at once.
#include <gtest/gtest.h>

#include <vector>

#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/autograd/staged_backward.hpp>
#include <lockstep/base/error.hpp>

#include "count_node.hpp"

namespace lockstep {
namespace {

using test::CountNode;

using Values = std::vector<double>;

Variable leaf(const Values& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}
Tensor gradient(const Values& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}

Values of(const GradStore& store, const Variable& leaf) {
  const Tensor gradient = store.gradient(leaf);
  return gradient.defined() ? gradient.to_vector<double>() : Values();
}

TEST(StagedBackward, RunsAnOperationOnceAllItsGradientsHaveArrived) {
  const Variable w = leaf({2, 3});
  int runs = 0;
  const Variable shared = record<CountNode>(mul(w, w).data(), {&w}, runs);
  const Variable a = mul(shared, 3.0), b = mul(shared, shared);
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a, b, shared}, store);
  pass.give(a, gradient({1, 1}));
  pass.run();
  EXPECT_EQ(runs, 0);
  EXPECT_TRUE(pass.waits());
  pass.give(shared, gradient({0.5, 0.25}));
  pass.run();
  EXPECT_EQ(runs, 0);
  pass.give(b, gradient({1, 1}));
  pass.run();
  EXPECT_EQ(runs, 1);
  EXPECT_FALSE(pass.waits());
  EXPECT_EQ(of(store, w), (Values{3 + 0.5 + 8, 3 + 0.25 + 18}));
  EXPECT_FALSE(w.grad().defined());
}

TEST(StagedBackward, ContinuesWithoutGradientsThatWillNotArrive) {
  const Variable w = leaf({1}), v = leaf({4});
  const Variable a = mul(w, 2.0), b = mul(mul(w, v), 3.0);
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a, b}, store);
  pass.give(a, gradient({1}));
  pass.give(b, {});
  pass.run();
  EXPECT_FALSE(pass.waits());
  EXPECT_EQ(of(store, w), Values{2});
  EXPECT_EQ(of(store, v), Values{});
}

TEST(StagedBackward, CanBeEndedBeforeAllGradientsArrive) {
  const Variable w = leaf({1});
  const Variable base = mul(w, 5.0), a = mul(base, 2.0), b = mul(base, 3.0);
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a, b}, store);
  pass.give(a, gradient({1}));
  pass.run();
  EXPECT_TRUE(pass.waits());
  EXPECT_EQ(of(store, w), Values{});
  pass.run_all();
  EXPECT_FALSE(pass.waits());
  EXPECT_EQ(of(store, w), Values{10});
}

TEST(StagedBackward, ARootMayGetSeveralGradientsAndBeALeaf) {
  const Variable w = leaf({1, 2});
  const Variable a = mul(w, 2.0);
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a, a, w}, store);
  pass.give(a, gradient({1, 0}));
  pass.give(w, gradient({10, 10}));
  pass.run();
  EXPECT_EQ(of(store, w), (Values{10, 10}));
  pass.give(a, gradient({0, 1}));
  pass.run();
  EXPECT_EQ(of(store, w), (Values{12, 12}));
}

struct BrokenNode : PooledNode<BrokenNode> {
  void backward(const Tensor&) override { throw Error("no gradient today"); }
  [[nodiscard]] const char* name() const noexcept override { return "broken"; }
};

TEST(StagedBackward, RefusesGradientsAfterAnError) {
  const Variable w = leaf({1});
  const Variable a = record<BrokenNode>(w.data().clone(), {&w}), b = mul(w, 3.0);
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a, b}, store);
  pass.give(a, gradient({1}));
  EXPECT_THROW(pass.run(), Error);
  EXPECT_THROW(pass.give(b, gradient({1})), Error);
}

TEST(StagedBackward, KeepsTheGraphForTheNextOne) {
  const Variable w = leaf({3});
  const Variable a = mul(w, w);
  for (int pass_number = 0; pass_number < 2; ++pass_number) {
    GradStore store;
    StagedBackward pass(std::vector<Variable>{a}, store);
    pass.give(a, gradient({1}));
    pass.run();
    EXPECT_EQ(of(store, w), Values{6});
  }
  GradStore store;
  StagedBackward pass(std::vector<Variable>{a}, store);
  EXPECT_THROW(pass.give(a, gradient({1, 2})), ShapeError);
}

}  // namespace
}  // namespace lockstep
