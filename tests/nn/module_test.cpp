#include <gtest/gtest.h>
#include <support/message_of.hpp>

#include <algorithm>
#include <cmath>

#include <lockstep/autograd/functional/arithmetic.hpp>
#include <lockstep/autograd/functional/reduction.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/nn/init.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>

namespace lockstep::nn {
namespace {

using test::message_of;

struct Inner : Module {
  Inner()
      : scale(register_parameter("scale", Tensor::full({2}, 3.0))),
        seen(register_buffer("seen", Tensor::zeros({1}))) {}
  Variable forward(const Variable& x) override { return x; }
  Variable scale;
  Tensor seen;
};

struct Outer : Module {
  Variable forward(const Variable& x) override { return inner->forward(fc->forward(x)); }
  std::shared_ptr<Linear> fc = register_module("fc", std::make_shared<Linear>(4, 2));
  std::shared_ptr<Inner> inner = register_module("inner", std::make_shared<Inner>());
};

std::vector<std::string> names(const StateDict& state) {
  std::vector<std::string> all;
  for (const auto& entry : state) all.push_back(entry.name);
  return all;
}

TEST(Module, StateHasPyTorchsDottedNamesInOrderOfRegistration) {
  const Outer model;
  EXPECT_EQ(names(model.state_dict()),
            (std::vector<std::string>{"fc.weight", "fc.bias", "inner.scale", "inner.seen"}));
  EXPECT_EQ(model.named_parameters().size(), 3U) << "a buffer is not a parameter";
  EXPECT_EQ(model.parameter_count(), 2 * 4 + 2 + 2);
}

TEST(Module, LoadedStateIsTheModelsOwn) {
  Outer from, to;
  from.inner->scale.data().fill(7.0);
  to.load_state_dict(from.state_dict());
  EXPECT_EQ(to.inner->scale.data().to_vector<float>(), (std::vector<float>{7, 7}));
  EXPECT_EQ(to.fc->state_dict().at("weight").to_vector<float>(),
            from.fc->state_dict().at("weight").to_vector<float>());
}

TEST(Module, AStateLoadedBetweenForwardAndBackwardIsRefusedByBackward) {
  Outer model;
  const Variable x(Tensor::full({1, 4}, 1.0), true);
  const Variable loss = sum(model.fc->forward(x));
  model.load_state_dict(Outer().state_dict());
  EXPECT_THROW(loss.backward(), Error);
}

TEST(Module, StateOfAnotherModelIsRefusedWithEveryDifferenceAndNothingIsCopied) {
  Outer model;
  StateDict other;
  other.insert("fc.weight", Tensor::zeros({3, 4}));
  other.insert("inner.scale", Tensor::zeros({2}));
  other.insert("inner.seen", Tensor::zeros({1}));
  other.insert("extra", Tensor::zeros({1}));
  try {
    model.load_state_dict(other);
    FAIL() << "it was accepted";
  } catch (const Error& error) {
    const std::string message = error.what();
    for (const char* part : {"fc.weight", "[3, 4]", "[2, 4]", "fc.bias is missing", "extra"}) {
      EXPECT_NE(message.find(part), std::string::npos) << message;
    }
  }
  EXPECT_EQ(model.inner->scale.data().to_vector<float>(), (std::vector<float>{3, 3}));
}

TEST(Module, HoldsItsParametersIn16BitsAndGivesResultsOfTheirType) {
  manual_seed(1);
  const auto net = std::make_shared<Sequential>();
  net->push_back("fc", std::make_shared<Linear>(6, 4));
  net->push_back("norm", std::make_shared<LayerNorm>(4));
  const auto x = normal({3, 6}, 1.0).to(DType::bf16);
  const auto y32 = (*net)(Variable(x.to(DType::f32))).data();
  net->to(DType::bf16);
  for (const auto& entry : net->state_dict()) EXPECT_EQ(entry.tensor.dtype(), DType::bf16);
  const Variable y = (*net)(Variable(x));
  EXPECT_EQ(y.data().dtype(), DType::bf16);
  sum(y * y).backward();
  for (const auto& p : net->parameters()) EXPECT_EQ(p.grad().dtype(), DType::bf16);
  const auto found = y.data().to(DType::f32).to_vector<float>(), expected = y32.to_vector<float>();
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 0.05F);
  net->to(DType::f32);
  EXPECT_EQ(net->parameters()[0].data().dtype(), DType::f32);
  EXPECT_THROW(net->to(DType::f64), ShapeError);
}

TEST(Module, TrainAndEvalReachEveryPart) {
  Outer model;
  model.eval();
  EXPECT_FALSE(model.inner->is_training());
  model.train();
  EXPECT_TRUE(model.inner->is_training());
}

TEST(Module, NamesAreUniqueAndHaveNoDots) {
  struct Twice : Module {
    Twice() {
      register_parameter("a", Tensor::zeros({1}));
      register_buffer("a", Tensor::zeros({1}));
    }
    Variable forward(const Variable& x) override { return x; }
  };
  struct Dotted : Module {
    Dotted() { register_parameter("a.b", Tensor::zeros({1})); }
    Variable forward(const Variable& x) override { return x; }
  };
  EXPECT_THROW(Twice(), Error);
  EXPECT_THROW(Dotted(), Error);
}

TEST(Initialisation, SameSeedGivesTheSameParametersAndAnotherSeedOthers) {
  const auto weights = [](std::uint64_t seed) {
    manual_seed(seed);
    return Outer().fc->state_dict().at("weight").to_vector<float>();
  };
  EXPECT_EQ(weights(1), weights(1));
  EXPECT_NE(weights(1), weights(2));
}

TEST(Initialisation, ThatIsSkippedLeavesLaterParametersAsTheyAre) {
  const auto second_of_two = [](bool first_is_skipped) {
    manual_seed(5);
    std::optional<SkipInit> skip;
    if (first_is_skipped) skip.emplace();
    const Tensor first = normal({3, 4}, 1.0);
    EXPECT_EQ(first.shape(), Shape({3, 4}));
    skip.reset();
    return uniform({7}, 1.0).to_vector<float>();
  };
  EXPECT_EQ(second_of_two(true), second_of_two(false));
}

TEST(Initialisation, DefaultsAreUniformWithinOneOverTheRootOfFanIn) {
  manual_seed(3);
  const auto weight = default_weight({100, 10, 5, 5}).to_vector<float>();
  const double bound = 1.0 / std::sqrt(250.0);
  double sum = 0, squares = 0;
  for (const float w : weight) {
    ASSERT_LE(std::abs(w), bound);
    sum += w;
    squares += static_cast<double>(w) * w;
  }
  const auto n = static_cast<double>(weight.size());
  EXPECT_LE(std::abs(sum / n), 4 * bound / std::sqrt(3 * n)) << "mean, four standard errors";
  EXPECT_NEAR(squares / n, bound * bound / 3, 0.05 * bound * bound / 3)
      << "variance of a uniform distribution";
}

TEST(Dropout, ActsInTrainingOnlyAndKeepsTheMean) {
  manual_seed(1);
  Dropout layer(0.25);
  const Variable ones(Tensor::full({1000, 10}, 1.0));
  double sum = 0, zeros = 0;
  for (const float y : layer(ones).data().to_vector<float>()) {
    sum += y;
    zeros += y == 0.0F ? 1 : 0;
  }
  EXPECT_NEAR(zeros / 10000, 0.25, 0.02);
  EXPECT_NEAR(sum / 10000, 1.0, 0.03);
  layer.eval();
  EXPECT_EQ(layer(ones).data().to_vector<float>(), ones.data().to_vector<float>());
}

TEST(Module, ASlabTakesTheWholeParametersPlaceEverywhere) {
  Linear layer(3, 4);
  const Variable weight = layer.weight();
  const Tensor slab = Tensor::full({2, 3}, 5.0);
  const Placement placement = Placement::slab({4, 3}, {1, 0});
  weight.grad_buffer().zero();
  weight.mark_grad_present();
  layer.keep_slab("weight", slab, placement);
  EXPECT_EQ(weight.data().data(), slab.data());
  EXPECT_FALSE(weight.grad().defined());
  EXPECT_EQ(layer.state_dict().find("weight")->placement, placement);
  EXPECT_EQ(layer.parameter_count(), 6 + 4);
  EXPECT_EQ(message_of<Error>([&] { layer.keep_slab("gain", slab, placement); }),
            "this module has no parameter 'gain' of its own");
  EXPECT_EQ(message_of<Error>([&] { weight.set_value(slab.to(DType::f64)); }),
            "a variable f32[2, 3] on host keeps its dtype when its value is replaced");
  EXPECT_EQ(message_of<Error>([&] { (weight * 2.0).set_value(slab); }),
            "only a leaf's value can be replaced");
}

TEST(Dropout, StreamsThatAgreeDrawTheSame) {
  manual_seed(3);
  RandomStream a, b;
  static_cast<void>(b.next());
  const RandomKey key = a.next();
  a.agree_on(key);
  b.agree_on(key);
  const auto numbers = [](const RandomKey& k) {
    return std::vector<std::uint64_t>{k.seed, k.stream, k.step,
                                      static_cast<std::uint64_t>(k.first_sample)};
  };
  std::vector<std::vector<std::uint64_t>> drawn{numbers(key)};
  for (int i = 0; i < 3; ++i) {
    drawn.push_back(numbers(a.next()));
    EXPECT_EQ(numbers(b.next()), drawn.back());
  }
  std::ranges::sort(drawn);
  EXPECT_EQ(std::ranges::adjacent_find(drawn), drawn.end()) << "all draws differ";
  const RandomContextGuard context({.seed = 9, .step = 4});
  EXPECT_EQ(numbers(a.next()), numbers(b.next()));
}

TEST(Layers, ImpossibleSizesAreRefused) {
  EXPECT_THROW(Linear(0, 3), InputError);
  EXPECT_THROW(Conv2d(3, 4, 3, {.groups = 2}), InputError);
  EXPECT_THROW(Dropout(1.1), InputError);
  EXPECT_THROW(Dropout(-0.1), InputError);
  EXPECT_THROW(Dropout(std::nan("")), InputError);
}

}  // namespace
}  // namespace lockstep::nn
