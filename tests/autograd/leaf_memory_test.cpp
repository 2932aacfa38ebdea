// What DistributedDataParallel needs of a leaf: hooks of several users, and memory of its choice.
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/autograd/backward_pass.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/autograd/pass_observer.hpp>
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

/// Records its calls.
struct Told final : PassObserver {
  Told(char its_name, std::string& all) : name(its_name), told(all) {}
  Answer pass_begins(std::span<const Variable> /*roots*/, std::span<const Tensor> gradients,
                     double seed) override {
    write(!gradients.empty() ? "begins with gradients " : seed == 2.0 ? "begins2 " : "begins ");
    return {follows, sink};
  }
  void leaves_are_known(bool first, bool reached) override {
    write(first ? "first " : "known ");
    if (!reached) write("without leaves ");
    if (fails_at_leaves) throw Error("not these leaves");
  }
  void pass_is_over() override { write("over "); }
  void pass_has_failed() noexcept override { write("failed "); }
  void write(const char* what) { told += std::string(1, name) + ' ' + what; }

  char name;
  std::string& told;
  bool follows = true, fails_at_leaves = false;
  GradSink* sink = nullptr;
};

TEST(PassObserver, IsCalledOncePerPassInOrderOfCreation) {
  std::string told;
  Told a('a', told), b('b', told), stays_out('c', told);
  stays_out.follows = false;
  const Variable v = leaf({1, 2}), w = leaf({3, 4});
  const GradHook hooks[] = {v.add_grad_hook([] {}, &b), w.add_grad_hook([] {}, &b),
                            w.add_grad_hook([] {}, &a), v.add_grad_hook([] {}, &stays_out)};
  sum(mul(mul(v, w), v)).backward(2.0);
  EXPECT_EQ(told, "b begins2 c begins2 a begins2 a first b known a over b over ");
  told.clear();
  static_cast<void>(grad(sum(mul(v, w)), v));
  GradStore store;
  const Variable loss = sum(mul(v, w));
  backward({&loss, 1}, {}, {.sink = &store});
  EXPECT_EQ(told, "") << "gradients go elsewhere";
}

TEST(PassObserver, GivenToAPassIsCalledOnceWhetherOrNotItsLeavesAreReached) {
  std::string told;
  Told a('a', told), b('b', told);
  const Variable v = leaf({1, 2}), w = leaf({3, 4});
  const GradHook hooks[] = {v.add_grad_hook([] {}, &a), w.add_grad_hook([] {}, &b)};
  Variable loss = sum(mul(w, w));
  BackwardPass({.roots = {&loss, 1}, .observer = &a}).run();
  EXPECT_EQ(told, "b begins a begins a first a without leaves b known a over b over ");
  told.clear();
  loss = sum(mul(v, w));
  BackwardPass({.roots = {&loss, 1}, .observer = &a}).run();
  EXPECT_EQ(told, "a begins b begins a first b known a over b over ");
  told.clear();
  backward(std::vector{mul(v, 2.0)}, std::vector{Tensor::full({2}, 1.0, DType::f64)});
  EXPECT_EQ(told, "a begins with gradients a first a over ");
}

/// Its end starts another pass, once.
struct StartsAnother final : PassObserver {
  Answer pass_begins(std::span<const Variable> /*roots*/, std::span<const Tensor> /*gradients*/,
                     double /*seed*/) override {
    return {true, nullptr};
  }
  void pass_is_over() override {
    if (const Variable loss = std::exchange(next, Variable()); loss.defined()) loss.backward();
  }
  Variable next;
};

TEST(PassObserver, MayStartAnotherPassAtTheEndOfOne) {
  std::string told;
  StartsAnother starts;
  Told later('b', told);
  const Variable v = leaf({1, 2}), w = leaf({3, 4});
  const GradHook hooks[] = {v.add_grad_hook([] {}, &starts), v.add_grad_hook([] {}, &later),
                            w.add_grad_hook([] {}, &later)};
  starts.next = sum(mul(w, 2.0));
  sum(mul(v, 3.0)).backward();
  EXPECT_EQ(told, "b begins b known b begins b first b over b over ");
  EXPECT_EQ(v.grad().to_vector<double>(), (std::vector<double>{3, 3}));
  EXPECT_EQ(w.grad().to_vector<double>(), (std::vector<double>{2, 2}));
}

/// What a pass in a store leaves apart.
TEST(GradStore, HoldsGradientsOfObservedLeavesUntilThePassEnds) {
  std::string told;
  Told a('a', told);
  const Variable v = leaf({1, 2}), w = leaf({3, 4});
  const GradHook hook = v.add_grad_hook([] {}, &a);
  const auto of = [](const Tensor& t) { return t.to_vector<double>(); };
  using Values = std::vector<double>;
  GradStore store;
  const auto pass = [&](double factor, bool with_w) {
    const Variable loss = with_w ? sum(mul(add(v, w), factor)) : sum(mul(v, factor));
    backward({&loss, 1}, {}, {.sink = &store});
  };
  store.begin_pass(true);
  pass(1.0, true);
  EXPECT_EQ(store.leaves_of_pass().size(), 2U);
  EXPECT_EQ(of(store.part_of_sum(v, 0.25)), Values(2, 1.0));
  store.put_sum(v, Tensor::full({2}, 10.0, DType::f64));
  store.begin_pass(true);
  pass(2.0, false);
  ASSERT_EQ(store.leaves_of_pass().size(), 1U);
  EXPECT_EQ(store.leaves_of_pass()[0].record(), v.record());
  EXPECT_EQ(of(store.part_of_sum(v, 0.25)), Values(2, 2.0)) << "without what all ranks have";
  store.keep_own(v, 4.0);
  EXPECT_EQ(of(store.gradient(v)), Values(2, 18.0));
  store.begin_pass(true);
  EXPECT_EQ(of(store.part_of_sum(v, 0.25)), Values(2, 4.5)) << "of what is this rank's own";
  pass(3.0, true);
  EXPECT_EQ(of(store.part_of_sum(v, 0.25)), Values(2, 7.5));
  store.put_sum(v, Tensor::full({2}, 20.0, DType::f64));
  EXPECT_EQ(of(store.gradient(v)), Values(2, 20.0)) << "the sum has what was this rank's own";
  store.begin_pass(true);
  store.put_sum(v, Tensor::full({2}, 5.0, DType::f64));
  EXPECT_EQ(of(store.gradient(v)), Values(2, 25.0)) << "of other ranks";
  pass(1.0, false);
  store.end_pass();  // without a sum to read
  EXPECT_EQ(of(store.gradient(v)), Values(2, 26.0));
  EXPECT_EQ(of(store.gradient(w)), Values(2, 4.0));
  EXPECT_EQ(of(store.part_of_sum(v, 1.0)), Values(2, 26.0)) << "and nobody knows that it is alike";
}

TEST(PassObserver, IsCalledForAFailureAnywhereInThePass) {
  std::string told;
  Told a('a', told), b('b', told);
  b.fails_at_leaves = true;
  const Variable v = leaf({1, 2});
  const GradHook hooks[] = {v.add_grad_hook([] {}, &a), v.add_grad_hook([] {}, &b)};
  EXPECT_THROW(sum(v).backward(), Error);
  EXPECT_EQ(told, "a begins b begins a first b known a failed b failed ");
  EXPECT_FALSE(v.grad().defined());
  b.fails_at_leaves = false;
  told.clear();
  const Variable freed = sum(mul(leaf({1}), leaf({2})));
  freed.backward();
  const Variable one = leaf({5});
  const GradHook hook = one.add_grad_hook([] {}, &a);
  EXPECT_THROW(add(sum(one), add(one, freed)).backward(), Error);
  EXPECT_EQ(told, "a begins a failed ");
}

TEST(PassObserver, MaySendGradientsOfItsLeavesElsewhere) {
  std::string told;
  Told a('a', told);
  GradStore store;
  a.sink = &store;
  const Variable v = leaf({1, 2});
  const GradHook hook = v.add_grad_hook([] {}, &a);
  sum(mul(v, v)).backward();
  EXPECT_FALSE(v.grad().defined());
  EXPECT_EQ(store.gradient(v).to_vector<double>(), (std::vector<double>{2, 4}));
  EXPECT_EQ(told, "a begins a first a over ");
}

TEST(GradHook, MovedEndsWithItsLastOwner) {
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

TEST(RequiresGrad, OfALeafCanBeSwitchedAndResultsHaveTheirOwn) {
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

TEST(RequiresGrad, TrainedBetweenForwardAndBackwardGetsNone) {
  const Variable w = leaf({1, 2}), v = leaf({3, 4});
  w.set_requires_grad(false);
  const Variable loss = sum(mul(w, v));
  w.set_requires_grad(true);
  loss.backward();
  EXPECT_FALSE(w.grad().defined());
  EXPECT_EQ(v.grad().to_vector<double>(), (std::vector<double>{1, 2}));
  for (const auto when : {LossGradients::in_forward, LossGradients::in_backward}) {
    const Variable x(Tensor::full({2, 3}, 0.5, DType::f64), true),
        head(Tensor::full({4, 3}, 0.25, DType::f64));
    const Variable of_head =
        linear_cross_entropy(x, head, Tensor::from(std::vector<std::int64_t>{1, 3}, {2}), {}, when);
    head.set_requires_grad(true);
    of_head.backward();
    EXPECT_FALSE(head.grad().defined());
    EXPECT_TRUE(x.grad().defined());
  }
}

TEST(ValueBuffer, HoldsTheValueForEveryHandle) {
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
