// Several outputs, several roots, gradients from elsewhere and to elsewhere.
#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <thread>

#include <lockstep/autograd/backward.hpp>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/autograd/grad_store.hpp>
#include <lockstep/autograd/node.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/tensor/kernels/elementwise/elementwise.hpp>

#include <support/message_of.hpp>
#include "gradient_check.hpp"

namespace lockstep::test {
namespace {

using Values = std::vector<double>;

Variable leaf(const Values& values) {
  return Variable(Tensor::from(values, {static_cast<std::int64_t>(values.size())}), true);
}
Tensor tensor(const Values& values) {
  return Tensor::from(values, {static_cast<std::int64_t>(values.size())});
}
Values gradient(const Variable& v) { return v.grad().to_vector<double>(); }

/// What a ThriceNode saw.
struct Seen {
  int runs = 0;
  std::string defined;  ///< of each output, in each run: x or -
};

/// x, 2 x and 3 x.
class ThriceNode : public MultiOutputNode<ThriceNode> {
 public:
  explicit ThriceNode(Seen& seen) : seen_(seen) {}
  void backward(std::span<const Tensor> grad_outputs) override {
    ++seen_.runs;
    for (std::size_t i = 0; i < 3; ++i) {
      seen_.defined += grad_outputs[i].defined() ? 'x' : '-';
      if (!grad_outputs[i].defined()) continue;
      const GradTarget x = grad_target(0);
      if (!x.wanted) continue;
      if (!x.accumulate) x.tensor.zero();
      add_scaled(grad_outputs[i], static_cast<double>(i + 1), x.tensor);
    }
  }
  [[nodiscard]] const char* name() const noexcept override { return "thrice"; }

 private:
  Seen& seen_;
};

std::array<Variable, 3> thrice(const Variable& x, Seen& seen) {
  std::array<Tensor, 3> outputs;
  for (std::size_t i = 0; i < 3; ++i) {
    outputs[i] = Tensor::zeros(x.shape(), x.data().dtype());
    add_scaled(x.data(), static_cast<double>(i + 1), outputs[i]);
  }
  return record<ThriceNode>(outputs, {&x}, seen);
}

TEST(SeveralOutputs, RunTheirNodeOnceWithTheGradientsOfUsedOutputs) {
  Seen seen;
  const Variable x = leaf({1, 2});
  const auto y = thrice(x, seen);
  sum(y[0] * y[2]).backward();  // 3 x^2
  EXPECT_EQ(gradient(x), (Values{6, 12}));
  EXPECT_EQ(seen.defined, "x-x");
  EXPECT_EQ(seen.runs, 1);
}

TEST(SeveralOutputs, AwaitTheNewestUseOfEach) {
  Seen seen;
  const Variable x = leaf({2});
  const auto y = thrice(x, seen);
  const Variable z = y[1] * y[0];           // 2 x^2
  sum(exp(mul(z, 0.0)) * y[2]).backward();  // 3 x, whose other factor reaches the node later
  EXPECT_EQ(gradient(x), (Values{3}));
  EXPECT_EQ(seen.defined, "xxx");
  EXPECT_EQ(seen.runs, 1);
}

TEST(SeveralOutputs, OfARetainedGraphGiveTheSameAgain) {
  Seen seen;
  const Variable x = leaf({1, 2});
  const auto y = thrice(x, seen);
  const Variable loss = sum(y[0] * y[2]);
  loss.backward(1.0, true);
  loss.backward(1.0, true);
  sum(y[1]).backward();
  EXPECT_EQ(gradient(x), (Values{14, 26}));
  EXPECT_EQ(seen.defined, "x-xx-x-x-");
}

TEST(SeveralOutputs, AreFreedTogether) {
  Seen seen;
  const Variable x = leaf({1, 2});
  const auto y = thrice(x, seen);
  sum(y[0]).backward();
  EXPECT_FALSE(y[1].is_leaf());
  const auto message = message_of<Error>([&] { sum(y[1]).backward(); });
  EXPECT_NE(message.find("a second time"), std::string::npos) << message;
  EXPECT_EQ(seen.runs, 1);
}

TEST(SeveralOutputs, FreeTheGraphInAnyOrderOfDestruction) {
  Seen seen;
  const Variable x = leaf({1, 2});
  {
    auto y = thrice(x, seen);
    y[0] = {};
    y[2] = {};
    sum(y[1]).backward();
  }
  EXPECT_EQ(gradient(x), (Values{2, 2}));
  Variable middle = thrice(x, seen)[1];
  EXPECT_EQ(middle.data().to_vector<double>(), (Values{2, 4}));
  middle = {};
  EXPECT_EQ(x.record()->owners(), 1) << "the node is gone";
}

TEST(Graph, IsFreedEvenIfLongerThanTheStack) {
  const Variable x(Tensor::full({}, 1.0), true);
  Variable sum = x + 1.0;
  for (int i = 0; i < 200'000; ++i) sum = sum + x;
  EXPECT_EQ(sum.data().item(), 200'002.0);
  sum = {};
  const Variable y = x * 3.0;
  y.backward();
  EXPECT_EQ(x.grad().item(), 3.0);
}

TEST(Split, IsOneOperation) {
  const Variable x = leaf({1, 2, 3, 4, 5});
  const std::vector<std::int64_t> sizes{2, 1, 2};
  const auto parts = split(x, sizes);
  ASSERT_EQ(parts.size(), 3U);
  EXPECT_EQ(parts[0].record()->producer, parts[2].record()->producer);
  (sum(parts[2] * parts[2]) + sum(parts[0])).backward();
  EXPECT_EQ(gradient(x), (Values{1, 1, 0, 8, 10}));
  EXPECT_NE(message_of<ShapeError>([&] {
              static_cast<void>(split(x, std::vector<std::int64_t>{-1, 6}));
            }).find("-1"),
            std::string::npos);
}

TEST(ManyInputs, ReachTheirGradients) {
  for (const std::size_t count : {3, 4, 5, 16, 17, 1000}) {
    std::vector<Variable> parts;
    for (std::size_t i = 0; i < count; ++i) parts.push_back(leaf({static_cast<double>(i)}));
    const Variable y = concat(parts);
    sum(y * y).backward();
    for (std::size_t i = 0; i < count; ++i) {
      ASSERT_EQ(gradient(parts[i]), (Values{2.0 * static_cast<double>(i)})) << count;
    }
  }
}

/// Two losses on one trunk, the second deeper.
struct Trunk {
  Variable w = leaf({0.5, -1.25, 0.3});
  Variable h = exp(w);
  Variable first = sum(h * w), second = sum(sqrt(h) * h);
};

TEST(SeveralRoots, GiveTheBitsOfTheirSum) {
  const Trunk together, added;
  backward(std::vector{together.first, together.second});
  (added.first + added.second).backward();
  EXPECT_EQ(gradient(together.w), gradient(added.w));
}

TEST(SeveralRoots, MayDependOnEachOther) {
  const Variable x = leaf({1, 2});
  const Variable y = x * x, z = y * y;  // with the gradients g y + h y^2: (g + 2 h x^2) 2 x
  backward(std::vector{z, y}, std::vector{tensor({1, 3}), tensor({10, 20})});
  EXPECT_EQ(gradient(x), (Values{24, 176}));
}

TEST(SeveralRoots, OfOneNodeRunItOnce) {
  Seen seen;
  const Variable x = leaf({1, 2});
  const auto y = thrice(x, seen);
  backward(std::vector{y[2], y[0]}, std::vector{tensor({1, 1}), tensor({0, 5})});
  EXPECT_EQ(gradient(x), (Values{3, 8}));
  EXPECT_EQ(seen.defined, "x-x");
}

TEST(GivenGradients, AreOnlyRead) {
  const Variable x = leaf({1, 2, 3, 4});
  const Variable y = reshape(x, {2, 2});  // passes its gradient on without a copy
  const Tensor given = Tensor::from(Values{1, 2, 3, 4}, {2, 2});
  const Variable root = reshape(mul(y, 1.0), {2, 2});
  backward(std::vector{root, y, sum(x)}, std::vector{given, given, Tensor()});
  EXPECT_EQ(given.to_vector<double>(), (Values{1, 2, 3, 4}));
  EXPECT_EQ(gradient(x), (Values{3, 5, 7, 9}));
}

TEST(GivenGradients, MayBeLeftOutForOneElement) {
  const Variable x = leaf({3});
  backward(std::vector{x * x, x}, std::vector{tensor({2}), Tensor()});
  EXPECT_EQ(gradient(x), (Values{13}));
}

TEST(LeafRoots, AddAndCallTheirHooks) {
  const Variable x = leaf({3});
  int calls = 0;
  const GradHook hook = x.add_grad_hook([&] { ++calls; });
  x.backward();
  x.backward(0.5);
  EXPECT_EQ(gradient(x), (Values{1.5}));
  EXPECT_EQ(calls, 2);
}

TEST(Roots, ThatAreInvalidAreNamed) {
  const Variable x = leaf({1, 2});
  const Variable y = x * x, none, fixed(tensor({1, 2}));
  const auto said = [&](std::vector<Variable> roots, std::vector<Tensor> gradients) {
    return message_of<Error>([&] { backward(roots, gradients); });
  };
  const Tensor one = tensor({1, 1});
  const auto expect = [](const std::string& message, const char* words) {
    EXPECT_NE(message.find(words), std::string::npos) << message << ", not: " << words;
  };
  expect(said({}, {}), "without roots");
  expect(said({y, none}, {one, one}), "root 1 is undefined");
  expect(said({fixed}, {one}), "depends on no parameter");
  expect(said({y}, {}), "needs a gradient");
  expect(said({y, x}, {one}), "2 roots and 1 gradients");
  expect(said({y}, {tensor({1})}), "a gradient of another kind, f64[1]");
  expect(said({y}, {one.to(DType::f32)}), "a gradient of another kind, f32[2]");
  expect(said({x, y, x}, {one, one, one}), "root 2, f64[2] on host, is given twice");
  expect(message_of<Error>([&] { y.backward(); }), "one element");
  EXPECT_FALSE(x.grad().defined()) << "nothing was touched";
  backward(std::vector{y}, std::vector{one});
  EXPECT_EQ(gradient(x), (Values{2, 4}));
}

class NestedNode : public PooledNode<NestedNode> {
 public:
  explicit NestedNode(Variable other) : other_(std::move(other)) {}
  void backward(const Tensor& grad_output) override {
    other_.backward();
    pass_grad(0, grad_output);
  }
  [[nodiscard]] const char* name() const noexcept override { return "nested"; }

 private:
  Variable other_;
};

TEST(BackwardInsideBackward, IsRefusedAndLeavesTheEngineUsable) {
  const Variable x = leaf({1}), other = leaf({2});
  const Variable y = record<NestedNode>(x.data().clone(), {&x}, mul(other, 3.0));
  EXPECT_NE(message_of<Error>([&] { y.backward(); }).find("inside backward"), std::string::npos);
  EXPECT_FALSE(other.grad().defined());
  mul(other, 3.0).backward();
  EXPECT_EQ(gradient(other), (Values{3}));
}

TEST(Grad, EqualsBackwardAndLeavesLeavesAlone) {
  const Trunk asked, reference;
  reference.second.backward();
  const auto gradients = grad(asked.second, std::vector{asked.w, asked.h}, {.retain_graph = true});
  EXPECT_EQ(gradients.at(0).data().to_vector<double>(), gradient(reference.w));
  const auto h = asked.h.data().to_vector<double>(),
             of_h = gradients.at(1).data().to_vector<double>();
  for (std::size_t i = 0; i < h.size(); ++i) EXPECT_NEAR(of_h[i], 1.5 * std::sqrt(h[i]), 1e-15);
  EXPECT_FALSE(asked.w.grad().defined());
  asked.second.backward();
  EXPECT_EQ(gradient(asked.w), gradient(reference.w));
}

TEST(Grad, ComputesAndFreesOnlyPathsToItsInputs) {
  Seen before, beside;
  const Variable x = leaf({1, 2}), z = leaf({3, 4});
  const Variable y = thrice(x, before)[1] * x;
  const Variable side = thrice(z, beside)[0];
  const Variable loss = sum(y * side);
  EXPECT_EQ(grad(loss, y).data().to_vector<double>(), (Values{3, 4}));
  EXPECT_EQ(before.runs + beside.runs, 0);
  backward(std::vector{y, side}, std::vector{tensor({1, 1}), tensor({1, 1})});
  EXPECT_EQ(gradient(x), (Values{4, 8}));
  EXPECT_EQ(gradient(z), (Values{1, 1}));
}

TEST(Grad, OfTheOutputItselfIsItsGradient) {
  const Variable x = leaf({1, 2});
  const Variable y = x * x;
  const Variable given(tensor({5, 6}));
  const auto gradients = grad(y, std::vector{y, x}, {.grad_outputs = std::span(&given, 1)});
  EXPECT_EQ(gradients.at(0).data().to_vector<double>(), (Values{5, 6}));
  EXPECT_EQ(gradients.at(1).data().to_vector<double>(), (Values{10, 24}));
}

TEST(Grad, NamesInputsThatTheOutputsDoNotDependOn) {
  const Variable x = leaf({1}), other = leaf({2});
  const auto message = message_of<Error>([&] {
    static_cast<void>(grad(std::vector{x * x}, std::vector{x, other}));
  });
  EXPECT_NE(message.find("do not depend on input 1"), std::string::npos) << message;
  const auto gradients = grad(std::vector{x * x}, std::vector{x, other}, {.allow_unused = true});
  EXPECT_EQ(gradients.at(0).data().to_vector<double>(), (Values{2}));
  EXPECT_FALSE(gradients.at(1).defined());
  const Variable fixed(tensor({1}));
  EXPECT_THROW(static_cast<void>(grad(std::vector{x * x}, std::vector{fixed})), Error);
  EXPECT_THROW(static_cast<void>(grad(std::vector{x * x}, std::vector{x, x})), Error);
  EXPECT_THROW(static_cast<void>(grad(std::vector{x * x}, {})), Error);
}

/// Leaves one leaf alone.
class Store : public GradStore {
 public:
  explicit Store(Variable left_alone = {}) : left_alone_(std::move(left_alone)) {}
  [[nodiscard]] bool takes(const Variable& v) const override {
    return v.record() != left_alone_.record();
  }
  [[nodiscard]] Values at(const Variable& v) const { return gradient(v).to_vector<double>(); }

 private:
  Variable left_alone_;
};

TEST(Sink, GathersPassesThatStartAtAnyArrivingGradient) {
  const Trunk context, whole;
  Store store;
  int calls = 0;
  const GradHook hook = context.w.add_grad_hook([&] { ++calls; });
  backward(std::vector{context.first}, {}, {.retain_graph = true, .sink = &store});
  backward(std::vector{context.h}, std::vector{tensor({1, 2, 3})},
           {.retain_graph = true, .sink = &store});
  backward(std::vector{context.second}, {}, {.sink = &store});
  backward(std::vector{whole.first, whole.h, whole.second},
           std::vector{Tensor(), tensor({1, 2, 3}), Tensor()});
  const auto gathered = store.at(context.w), expected = gradient(whole.w);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    EXPECT_NEAR(gathered[i], expected[i], 1e-14);  // another order of additions
  }
  EXPECT_FALSE(context.w.grad().defined());
  EXPECT_EQ(calls, 0) << "the leaf's own gradient is none of this pass's business";
}

TEST(Sink, LeavesOtherLeavesAlone) {
  const Variable taken = leaf({2}), own = leaf({3});
  Store store(own);
  int calls = 0;
  const GradHook hook = own.add_grad_hook([&] {
    EXPECT_FALSE(own.awaits_gradient());
    ++calls;
  });
  backward(std::vector{taken * own + own}, {}, {.sink = &store});
  EXPECT_EQ(gradient(own), (Values{3}));
  EXPECT_EQ(store.at(taken), (Values{3}));
  EXPECT_EQ(store.gradients().size(), 1U);
  EXPECT_EQ(calls, 1);
}

TEST(Sink, TakesTheGradientOfARootThatIsALeaf) {
  const Variable x = leaf({2, 3});
  Store store;
  backward(std::vector{x, sum(x)}, std::vector{tensor({5, 6}), Tensor()}, {.sink = &store});
  EXPECT_EQ(store.at(x), (Values{6, 7}));
}

TEST(Sink, LetsThreadsDifferentiateGraphsThatShareParameters) {
  const Variable shared = leaf({1, 2, 3});
  constexpr int threads = 4, rounds = 200;
  std::vector<Values> results(threads);
  std::vector<std::jthread> team;
  for (int t = 0; t < threads; ++t) {
    team.emplace_back([&, t] {
      Store store;
      for (int round = 0; round < rounds; ++round) {
        backward(std::vector{sum(mul(shared, static_cast<double>(t)) * shared)}, {},
                 {.sink = &store});
      }
      results[static_cast<std::size_t>(t)] = store.at(shared);
    });
  }
  team.clear();
  for (int t = 0; t < threads; ++t) {
    const double by = 2.0 * t * rounds;
    EXPECT_EQ(results[static_cast<std::size_t>(t)], (Values{by, 2 * by, 3 * by}));
  }
  EXPECT_FALSE(shared.grad().defined());
}

TEST(Graph, RecordedByOneThreadAfterAnotherRunsNewestFirst) {
  const Variable x = leaf({1});
  Variable y = x;
  for (int i = 0; i < 50; ++i) y = mul(y, 1.0);
  std::jthread([&] { y = exp(y) * y; }).join();  // its first nodes
  y.backward();
  EXPECT_EQ(gradient(x), (Values{2 * std::exp(1.0)}));
}

}  // namespace
}  // namespace lockstep::test
