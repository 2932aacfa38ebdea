#include <gtest/gtest.h>

#include <cstring>
#include <functional>
#include <optional>

#include <support/message_of.hpp>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers/dropout.hpp>
#include <lockstep/nn/layers/linear.hpp>
#include <lockstep/nn/layers/residual.hpp>
#include <lockstep/nn/models/gpt.hpp>
#include <lockstep/nn/models/gpt_sampler.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/recompute.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/storage.hpp>

namespace lockstep::nn {
namespace {

TEST(NullPointers, AreRefusedWhereModulesAreTaken) {
  for (const auto& call : std::vector<std::function<void()>>{
           [] { Recomputed(nullptr); }, [] { Sequential({nullptr}); }, [] { Residual(nullptr); },
           [] { GptSampler(nullptr, {}, {}); }}) {
    const auto message = test::message_of<Error>(call);
    EXPECT_NE(message.find(" is null"), std::string::npos) << message;
  }
}

bool same_bits(const Tensor& a, const Tensor& b) {
  return a.defined() && b.defined() && a.shape() == b.shape() && a.dtype() == b.dtype() &&
         std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

/// Two training steps' gradients of a GPT with dropout: under a context as the Trainer's, or the
/// thread's own draws.
struct Trained {
  std::vector<Tensor> gradients;
  double loss = 0;
  std::int64_t kept_bytes = 0;  ///< for backward
};

Trained trained(bool recompute, bool in_context, const std::vector<std::string>& frozen = {}) {
  manual_seed(11);
  Gpt model({.vocabulary = 13,
             .context = 32,
             .width = 24,
             .depth = 4,
             .heads = 3,
             .dropout = 0.3,
             .recompute = recompute});
  for (const auto& p : model.named_parameters()) {
    for (const std::string& name : frozen)
      if (p.name == name) p.variable.set_requires_grad(false);
  }
  std::vector<std::int64_t> text(8 * 32);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = static_cast<std::int64_t>(i * i % 13);
  const Tensor tokens = Tensor::from(text, {8, 32});
  Trained result;
  for (int step = 0; step < 2; ++step) {
    std::optional<RandomContextGuard> context;
    if (in_context)
      context.emplace(RandomContext{.seed = 3, .step = static_cast<std::uint32_t>(step)});
    const std::int64_t before = memory_stats().in_use;
    const Variable loss = model.loss(Variable(tokens), tokens);
    result.kept_bytes = memory_stats().in_use - before;
    loss.backward();  // gradients add up over the steps
    result.loss += loss.data().item();
  }
  for (const auto& p : model.named_parameters())
    if (p.variable.requires_grad()) result.gradients.push_back(p.variable.grad().clone());
  return result;
}

TEST(Recomputed, HasTheSameBitsInLessMemory) {
  for (const bool in_context : {false, true}) {
    const Trained kept = trained(false, in_context), again = trained(true, in_context);
    EXPECT_EQ(again.loss, kept.loss);
    ASSERT_EQ(again.gradients.size(), kept.gradients.size());
    for (std::size_t i = 0; i < kept.gradients.size(); ++i)
      EXPECT_TRUE(same_bits(again.gradients[i], kept.gradients[i])) << i;
    EXPECT_LT(again.kept_bytes, kept.kept_bytes / 5);
  }
}

TEST(Recomputed, LeavesFrozenParametersAlone) {
  const std::vector<std::string> frozen{"h.0.ln_1.weight", "h.2.mlp.c_fc.weight", "wte.weight"};
  const Trained kept = trained(false, true, frozen), again = trained(true, true, frozen);
  ASSERT_EQ(again.gradients.size(), kept.gradients.size());
  for (std::size_t i = 0; i < kept.gradients.size(); ++i)
    EXPECT_TRUE(same_bits(again.gradients[i], kept.gradients[i])) << i;
}

TEST(Recomputed, TrainsWhatIsUnfrozenBetweenForwards) {
  const auto gradients = [](bool recompute) {
    manual_seed(4);
    const auto layer = std::make_shared<Linear>(3, 3);
    layer->set_requires_grad(false);
    Recomputed again(layer);
    const Variable x(normal({4, 3}, 1.0), true);
    const auto forward = [&](const Variable& in) { return recompute ? again(in) : (*layer)(in); };
    sum(forward(x)).backward();
    layer->set_requires_grad(true);
    sum(forward(Variable(x.data()))).backward();
    return std::vector<Tensor>{x.grad().clone(), layer->weight().grad().clone(),
                               layer->bias().grad().clone()};
  };
  const auto plain = gradients(false), again = gradients(true);
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], again[i])) << i;
}

TEST(Recomputed, WithinAnotherIsComputedAgainAndAgain) {
  const auto gradients = [](bool recompute) {
    manual_seed(4);
    const auto inner = std::make_shared<Sequential>();
    inner->push_back(std::make_shared<Linear>(3, 3));
    inner->push_back(std::make_shared<Dropout>(0.5));
    struct Outer : Module {
      explicit Outer(std::shared_ptr<Module> part) : again(part) { register_module("inner", part); }
      Variable forward(const Variable& x) override { return again(x) + x; }
      Recomputed again;
    };
    const auto outer = std::make_shared<Outer>(inner);
    Recomputed whole(outer);
    const Variable x(normal({4, 3}, 1.0), true);
    sum(recompute ? whole(x) : (*inner)(x) + x).backward();
    std::vector<Tensor> all{x.grad().clone()};
    for (const Variable& p : inner->parameters()) all.push_back(p.grad().clone());
    return all;
  };
  const auto plain = gradients(false), nested = gradients(true);
  ASSERT_EQ(plain.size(), nested.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], nested[i])) << i;
}

/// The gradients of x and all parameters after a pass through `block`, plain or recomputed.
std::vector<Tensor> gradients_of(const std::shared_ptr<Sequential>& block, bool recompute) {
  const Variable x(Tensor::from(std::vector<float>{1, -2, 3, -4, 5, -6}, {3, 2}), true);
  block->zero_grad();
  const RandomContextGuard same_draws({.seed = 5});
  Recomputed again(block);
  sum(recompute ? again(x) : (*block)(x)).backward();
  std::vector<Tensor> all{x.grad().clone()};
  for (const Variable& p : block->parameters()) all.push_back(p.grad().clone());
  return all;
}

void expect_same_bits_recomputed(const std::shared_ptr<Sequential>& block) {
  const auto plain = gradients_of(block, false), again = gradients_of(block, true);
  ASSERT_EQ(plain.size(), again.size());
  for (std::size_t i = 0; i < plain.size(); ++i) EXPECT_TRUE(same_bits(plain[i], again[i])) << i;
}

TEST(Recomputed, TakesABlockOfAnyNumberOfParameters) {
  manual_seed(4);
  for (const int layers : {15, 16, 17, 40}) {  // 2 parameters each, and x: 31, 33, 35, 81 gradients
    const auto block = std::make_shared<Sequential>();
    for (int i = 0; i < layers; ++i) block->push_back(std::make_shared<Linear>(2, 2));
    expect_same_bits_recomputed(block);
  }
}

TEST(Recomputed, TakesABlockOfAnyNumberOfDropouts) {
  manual_seed(4);
  for (const int layers : {15, 16, 17, 40}) {
    const auto block = std::make_shared<Sequential>();
    for (int i = 0; i < layers; ++i) block->push_back(std::make_shared<Dropout>(0.1));
    expect_same_bits_recomputed(block);
  }
}

TEST(Recomputed, AGraphKeepsTheModuleAlive) {
  manual_seed(4);
  std::weak_ptr<Module> module;
  const Variable x(normal({4, 3}, 1.0), true);
  Variable y = [&] {
    const auto layer = std::make_shared<Linear>(3, 3);
    module = layer;
    return sum(Recomputed(layer)(x));
  }();
  EXPECT_FALSE(module.expired());
  y.backward();
  EXPECT_TRUE(x.grad().defined());
  y = {};
  EXPECT_TRUE(module.expired());
}

TEST(Recomputed, RefusesALeafThatIsNotItsParameter) {
  struct Leaking : Module {
    Variable outside{Tensor::full({3}, 2.0), true};
    Variable forward(const Variable& x) override { return x * outside; }
  };
  Recomputed again(std::make_shared<Leaking>());
  const Variable x(Tensor::full({3}, 1.0), true);
  const Variable y = sum(again(x));
  EXPECT_NE(test::message_of<Error>([&] { y.backward(); }).find("not one of its parameters"),
            std::string::npos);
  const Variable z = sum(x * 2.0);  // the engine is as it was
  x.zero_grad();
  z.backward();
  EXPECT_EQ(x.grad().to_vector<float>(), std::vector<float>(3, 2.0F));
}

}  // namespace
}  // namespace lockstep::nn
