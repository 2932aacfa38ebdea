// Which mask a dropout layer draws: in a loop of one's own, and in one whose draws are fixed.
#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include <lockstep/base/error.hpp>
#include <lockstep/nn/layers.hpp>
#include <lockstep/nn/random.hpp>
#include <lockstep/nn/sequential.hpp>
#include <lockstep/tensor/device_graph.hpp>
#include <lockstep/tensor/kernels/elementwise/dropout_run.hpp>
#include <support/message_of.hpp>

namespace lockstep::nn {
namespace {

using Mask = std::vector<float>;

Mask mask_of(Module& layer) {
  return layer(Variable(Tensor::full({8, 64}, 1.0))).data().to_vector<float>();
}

TEST(DropoutWithoutAContext, DrawsAnotherMaskInEveryForward) {
  manual_seed(1);
  Dropout first(0.5), second(0.5);
  std::set<Mask> masks;
  for (int step = 0; step < 50; ++step) {
    masks.insert(mask_of(first));
    masks.insert(mask_of(second));
    masks.insert(mask_of(first));  // a layer that a model uses twice
  }
  EXPECT_EQ(masks.size(), 150U);
}

TEST(DropoutWithoutAContext, DropsOtherChannelsInEveryForwardAlsoWhereItIsFused) {
  manual_seed(1);
  Sequential model{std::make_shared<Conv2d>(1, 64, 1), std::make_shared<Dropout2d>(0.5),
                   std::make_shared<MaxPool2d>(1), std::make_shared<ReLU>()};
  std::set<Mask> outputs;
  const Variable x(Tensor::full({2, 1, 4, 4}, 1.0));
  for (int step = 0; step < 20; ++step) outputs.insert(model(x).data().to_vector<float>());
  EXPECT_EQ(outputs.size(), 20U);
}

TEST(DropoutWithoutAContext, StartsAnewWithManualSeed) {
  const auto masks = [](std::uint64_t seed) {
    manual_seed(seed);
    Dropout layer(0.5);
    return std::vector<Mask>{mask_of(layer), mask_of(layer), mask_of(layer)};
  };
  const auto first = masks(1);
  EXPECT_EQ(masks(1), first);
  EXPECT_NE(masks(2)[0], first[0]);
  Dropout layer(0.5);
  manual_seed(1);
  const Mask once = mask_of(layer);
  manual_seed(1);
  EXPECT_EQ(mask_of(layer), once) << "also for a layer that was there before";
}

TEST(DropoutWithoutAContext, DrawsOtherMasksOnEachThreadThatWasNotSeeded) {
  const auto mask_on_a_thread = [](bool seeded) {
    Mask mask;
    std::thread([&] {
      if (seeded) manual_seed(1);
      Dropout layer(0.5);
      mask = mask_of(layer);
    }).join();
    return mask;
  };
  EXPECT_NE(mask_on_a_thread(false), mask_on_a_thread(false));
  EXPECT_EQ(mask_on_a_thread(true), mask_on_a_thread(true));
}

TEST(DropoutWithoutAContext, EvaluationDrawsNothing) {
  const auto second_mask = [](bool evaluate) {
    manual_seed(1);
    Dropout layer(0.5);
    static_cast<void>(mask_of(layer));
    layer.eval();
    if (evaluate) static_cast<void>(mask_of(layer));
    layer.train();
    return mask_of(layer);
  };
  EXPECT_EQ(second_mask(true), second_mask(false));
}

TEST(DropoutUnderAContext, IsAFunctionOfSeedStepSampleAndLayer) {
  manual_seed(1);
  Dropout first(0.5), second(0.5);
  const auto mask = [](Module& layer, const RandomContext& context) {
    const RandomContextGuard guard(context);
    return mask_of(layer);
  };
  const RandomContext context{.seed = 5, .step = 3, .first_sample = 16};
  const Mask a = mask(first, context);
  EXPECT_EQ(mask(first, context), a) << "the step computed again";
  EXPECT_NE(mask(second, context), a);
  EXPECT_NE(mask(first, {.seed = 6, .step = 3, .first_sample = 16}), a);
  EXPECT_NE(mask(first, {.seed = 5, .step = 4, .first_sample = 16}), a);
  EXPECT_NE(mask(first, {.seed = 5, .step = 3, .first_sample = 17}), a);
}

// The documented key (RandomKey): what checkpoints of earlier versions resume with.
TEST(DropoutUnderAContext, DrawsByTheDocumentedKey) {
  manual_seed(1);
  Dropout unused(0.5), layer(0.5);
  const RandomContextGuard guard({.seed = 5, .step = 3, .first_sample = 16});
  const Tensor scale = Tensor::empty({8, 64});
  dropout_scale(0.5, {.seed = 5, .stream = 1, .step = 3, .first_sample = 16}, scale);
  EXPECT_EQ(mask_of(layer), scale.to_vector<float>());
}

TEST(DropoutUnderAContext, ALayerCalledTwiceInAStepDrawsTwice) {
  manual_seed(1);
  Dropout layer(0.5);
  const auto masks = [&] {
    const RandomContextGuard guard({.seed = 5, .step = 3});
    return std::vector<Mask>{mask_of(layer), mask_of(layer), mask_of(layer)};
  };
  const auto first = masks();
  EXPECT_EQ(std::set<Mask>(first.begin(), first.end()).size(), 3U);
  EXPECT_EQ(masks(), first) << "the step computed again";
}

TEST(DropoutUnderAContext, AStreamWithANumberOfItsOwnIsCountedApartFromLayers) {
  manual_seed(1);
  RandomStream own(42);
  Dropout layer(0.5);
  const auto alone = [&] {
    const RandomContextGuard guard({.seed = 5, .step = 3});
    return mask_of(layer);
  }();
  const RandomContextGuard guard({.seed = 5, .step = 3});
  const RandomKey first = own.next();
  EXPECT_EQ(mask_of(layer), alone);
  const RandomKey second = own.next();
  EXPECT_NE(first.seed, second.seed) << "the same numbers twice in a step";
}

TEST(DropoutUnderAContext, CountsItsOwnCallsWhateverOtherGuardsCall) {
  manual_seed(1);
  std::vector<std::unique_ptr<Dropout>> layers;  // more than a guard counts in one piece
  for (int i = 0; i < 40; ++i) layers.push_back(std::make_unique<Dropout>(0.5));
  const auto masks = [&](auto between) {
    const RandomContextGuard guard({.seed = 5, .step = 3});
    std::vector<Mask> found;
    for (int call = 0; call < 2; ++call) {
      for (const auto& layer : layers) found.push_back(mask_of(*layer));
      between();
    }
    return found;
  };
  const auto alone = masks([] {});
  EXPECT_EQ(std::set<Mask>(alone.begin(), alone.end()).size(), 80U);
  EXPECT_EQ(masks([&] {
              std::thread([&] {
                const RandomContextGuard other({.seed = 5, .step = 4});
                for (const auto& layer : layers) static_cast<void>(mask_of(*layer));
              }).join();
            }),
            alone)
      << "another thread draws between";
  EXPECT_EQ(masks([&] {
              const RandomContextGuard inner({.seed = 6});
              for (const auto& layer : layers) static_cast<void>(mask_of(*layer));
            }),
            alone)
      << "a guard within draws";
}

TEST(DropoutUnderAContext, EndsWithTheGuard) {
  manual_seed(1);
  Dropout layer(0.5);
  const Mask before = mask_of(layer);
  Mask within;
  {
    const RandomContextGuard outer({.seed = 5});
    {
      const RandomContextGuard inner({.seed = 6});
      static_cast<void>(mask_of(layer));
    }
    within = mask_of(layer);
  }
  const RandomContextGuard again({.seed = 5});
  EXPECT_EQ(mask_of(layer), within);
  EXPECT_NE(within, before);
}

TEST(DropoutScale, OfARunIsThatPartOfTheWholeRows) {
  const RandomKey key{.seed = 5, .stream = 1, .step = 3, .first_sample = 16};
  const Tensor whole = Tensor::empty({3, 41}, DType::f32);
  dropout_scale(0.4, key, whole);
  const auto all = whole.to_vector<float>();
  for (const std::int64_t first : {0, 1, 4, 7, 40}) {
    for (const std::int64_t count : {1, 5, 12}) {
      if (first + count > 41) continue;
      const Tensor run = Tensor::empty({3, count}, DType::f32);
      dropout_scale_run(0.4, key, first, run);
      const auto part = run.to_vector<float>();
      for (std::int64_t i = 0; i < 3 * count; ++i) {
        EXPECT_EQ(part[static_cast<std::size_t>(i)],
                  all[static_cast<std::size_t>(i / count * 41 + first + i % count)])
            << first << ", " << count << ", " << i;
      }
    }
  }
}

/// Masks of two layers in six steps, of which the third is replays of a captured one from then on.
std::vector<Mask> masks_on_device(bool captures, bool under_a_guard) {
  constexpr Device device{DeviceType::sim, 0};
  manual_seed(5);
  Dropout a(0.5), b(0.25);
  const Variable x(Tensor::full({8, 64}, 1.0, DType::f32, device));
  Tensor y, z;
  const auto step = [&] {
    y = a(x).data();
    z = b(Variable(y)).data();
  };
  DeviceGraph graph(device);
  std::vector<Mask> masks;
  for (std::uint32_t s = 0; s < 6; ++s) {
    std::optional<RandomContextGuard> guard;
    if (under_a_guard) guard.emplace(RandomContext{7, s, 3});
    if (!captures) {
      step();
    } else if (s < 2) {
      graph.warm_up(step);
    } else {
      if (s == 2) graph.capture(step);
      graph.replay();
    }
    masks.push_back(y.to_vector<float>());
    masks.push_back(z.to_vector<float>());
  }
  return masks;
}

TEST(DropoutInAGraph, DrawsInEachReplayWhatAPlainStepDraws) {
  for (const bool under_a_guard : {false, true}) {
    const auto plain = masks_on_device(false, under_a_guard);
    EXPECT_EQ(std::set<Mask>(plain.begin(), plain.end()).size(), 12U);
    EXPECT_EQ(masks_on_device(true, under_a_guard), plain) << under_a_guard;
  }
}

TEST(DropoutInAGraph, RefusesAReplayWithoutTheGuardOfItsCapture) {
  constexpr Device device{DeviceType::sim, 0};
  Dropout layer(0.5);
  const Variable x(Tensor::full({8, 64}, 1.0, DType::f32, device));
  Tensor y;
  DeviceGraph graph(device);
  {
    const RandomContextGuard guard(RandomContext{7, 0, 0});
    const auto step = [&] { y = layer(x).data(); };
    for (int i = 0; i < 2; ++i) graph.warm_up(step);
    graph.capture(step);
  }
  const auto message = test::message_of<Error>([&] { graph.replay(); });
  EXPECT_NE(message.find("RandomContextGuard"), std::string::npos) << message;
  const RandomContextGuard other(RandomContext{8, 0, 0});
  EXPECT_THROW(graph.replay(), Error);
}

}  // namespace
}  // namespace lockstep::nn
