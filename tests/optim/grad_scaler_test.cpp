#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <lockstep/autograd/functional.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/optim/clip.hpp>
#include <lockstep/optim/grad_scaler.hpp>
#include <lockstep/optim/sgd.hpp>
#include <string>
#include <support/golden_file.hpp>
#include <support/message_of.hpp>
#include <support/test_devices.hpp>

namespace lockstep::optim {
namespace {

double number_at(const Tensor& t, std::int64_t i) {
  return t.to(DType::f64).to_vector<double>()[static_cast<std::size_t>(i)];
}

Tensor row(const Tensor& t, std::int64_t i) { return t.slice(i, i + 1).reshape({t.size(1)}); }

/// Every step of a case: the scale, and the parameters that scaled gradients led to.
void replay(const test::GoldenFile& file, const std::string& name, Device device) {
  SCOPED_TRACE(name);
  const std::string path = "scaler/" + name;
  const Tensor gradients = file.tensor(path + "/grads"), found = file.tensor(path + "/found_inf"),
               used = file.tensor(path + "/scale_used"), after = file.tensor(path + "/scale_after"),
               tracker = file.tensor(path + "/growth_tracker_after"),
               expected = file.tensor(path + "/params_after_f32");
  const float bad = file.text(path, "nonfinite") == "nan" ? std::numeric_limits<float>::quiet_NaN()
                                                          : std::numeric_limits<float>::infinity();
  GradScaler scaler(
      {.init_scale = file.number(path, "init_scale"),
       .growth_factor = file.number(path, "growth_factor"),
       .backoff_factor = file.number(path, "backoff_factor"),
       .growth_interval = static_cast<std::int64_t>(file.number(path, "growth_interval"))},
      device);
  const Variable p(file.tensor(path + "/init").clone().to(device), true);
  SGD sgd({{"p", p}}, {.lr = file.number(path, "lr")});
  const std::int64_t steps = gradients.size(0);
  ASSERT_GT(steps, 0);
  for (std::int64_t k = 0; k < steps; ++k) {
    EXPECT_EQ(scaler.scale(), number_at(used, k)) << "step " << k;
    const bool skip = number_at(found, k) != 0;
    sgd.zero_grad();
    sum(p * Variable(row(gradients, k).to(device))).backward();
    // In double, because a gradient times 2^127 is none in single precision.
    std::vector<float> scaled = p.grad().to_vector<float>();
    for (float& g : scaled) g = static_cast<float>(static_cast<double>(g) * scaler.scale());
    if (skip) scaled[1] = bad;
    p.grad().copy_from_host(std::span<const float>(scaled));
    EXPECT_EQ(scaler.step(sgd).item(), skip ? 1.0 : 0.0) << "step " << k;
    scaler.update();
    EXPECT_EQ(scaler.scale(), number_at(after, k)) << "step " << k;
    EXPECT_EQ(scaler.state_dict().at("growth_tracker").item(), number_at(tracker, k));
    EXPECT_LT(test::max_difference(p.data().to(Device{}), row(expected, k)), 16 * 2.5e-7)
        << "step " << k;
  }
}

TEST(GradScaler, EveryGoldenCaseAgreesToTheBitOfTheScale) {
  const test::GoldenFile file("amp.h5");
  const auto cases = file.groups("scaler");
  EXPECT_GE(cases.size(), 6U);
  for (const std::string& name : cases) {
    replay(file, name, Device{});
    for (const Device device : test::devices_to_test()) replay(file, name, device);
  }
}

TEST(GradScaler, TheGradientOfAScaledLossStepsAsThatOfTheLoss) {
  const auto train = [](bool scaled) {
    const Variable w(Tensor::from(std::vector<float>{0.5F, -1.25F, 2.0F}, {3}), true);
    SGD sgd({{"w", w}}, {.lr = 0.125, .momentum = 0.5});
    GradScaler scaler;
    for (int step = 0; step < 5; ++step) {
      sgd.zero_grad();
      const Variable loss = sum(w * w * w);
      (scaled ? scaler.scaled(loss) : loss).backward();
      if (scaled) scaler.unscale(sgd);
      const double norm = grad_norm(sgd.parameters());
      if (scaled) {
        EXPECT_THROW(scaler.unscale(sgd), Error);
        EXPECT_EQ(scaler.step(sgd, clip_factor(norm, 1.0)).item(), 0.0);
        scaler.update();
      } else {
        sgd.step(clip_factor(norm, 1.0));
      }
    }
    return w.data().to_vector<float>();
  };
  EXPECT_EQ(train(true), train(false)) << "a power of two leaves the bits";
}

// Which makes something finite of infinity.
TEST(GradScaler, SkipsAStepWithGradientsClippedByValueAfterAnOverflow) {
  const Variable p(Tensor::from(std::vector<float>{1, 2}, {2}), true);
  SGD sgd({{"p", p}}, {.lr = 0.5});
  GradScaler scaler;
  sum(p).backward();
  p.grad().copy_from_host(
      std::span<const float>(std::vector<float>{std::numeric_limits<float>::infinity(), 65536.0F}));
  scaler.unscale(sgd);
  clip_grad_value(sgd.parameters(), 1.0);
  EXPECT_EQ(scaler.step(sgd).item(), 1.0);
  scaler.update();
  EXPECT_EQ(scaler.scale(), 32768.0);
  EXPECT_EQ(p.data().to_vector<float>(), (std::vector<float>{1, 2}));
}

TEST(GradScaler, GradientsOfF16ReachTheParameterScaledAndAreNotUnscaledInPlace) {
  const Variable p(Tensor::zeros({2}, DType::f16), true);
  SGD sgd({{"p", p}}, {.lr = 1024});
  GradScaler scaler;
  sum(p).backward();
  p.grad().fill(std::ldexp(1.0, -10));  // 2^-26 unscaled: nothing of it is left in f16
  try {
    scaler.unscale(sgd);
    ADD_FAILURE() << "was unscaled";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("gradient of 'p' is f16"), std::string::npos);
  }
  EXPECT_EQ(number_at(p.grad(), 0), std::ldexp(1.0, -10));
  EXPECT_EQ(scaler.step(sgd).item(), 0.0);
  EXPECT_EQ(number_at(p.data(), 1), -std::ldexp(1.0, -16));
}

TEST(GradScaler, NeverScalesByZero) {
  const Variable p(Tensor::from(std::vector<float>{1, 2}, {2}), true);
  SGD sgd({{"p", p}}, {.lr = 0.5});
  GradScaler scaler;
  sum(p).backward();
  p.grad().fill(std::numeric_limits<double>::infinity());
  for (int overflow = 0; overflow < 200; ++overflow) {
    EXPECT_EQ(scaler.step(sgd).item(), 1.0);
    scaler.update();
  }
  EXPECT_EQ(scaler.scale(), std::numeric_limits<float>::min());
  p.grad().fill(0.0);
  EXPECT_EQ(scaler.step(sgd).item(), 0.0);
  EXPECT_EQ(p.data().to_vector<float>(), (std::vector<float>{1, 2}));
}

// Of two optimizers only that with the infinity leaves its step out, but both have the next scale.
TEST(GradScaler, SkipsOnlyTheOptimizerWithNonfiniteGradients) {
  for (const Device device : {Device{}, Device{DeviceType::sim, 0}}) {
    const Variable a(Tensor::full({1}, 1.0, DType::f32, device), true),
        b(Tensor::full({1}, 1.0, DType::f32, device), true);
    SGD first({{"a", a}}, {.lr = 0.5}), second({{"b", b}}, {.lr = 0.5});
    GradScaler scaler({.init_scale = 4}, device);
    sum(a + b).backward(4.0);
    a.grad().fill(std::numeric_limits<double>::infinity());
    scaler.step(first);
    scaler.step(second);
    scaler.update();
    EXPECT_EQ(a.data().item(), 1.0);
    EXPECT_EQ(b.data().item(), 0.5);
    EXPECT_EQ(scaler.scale(), 2.0);
  }
}

TEST(GradScaler, TellsAndTakesTheFlagOfUnscaledGradients) {
  const Variable p(Tensor::full({2}, 1.0), true);
  SGD sgd({{"p", p}}, {.lr = 0.5});
  GradScaler scaler({.init_scale = 4.0});
  scaler.scaled(sum(p)).backward();
  EXPECT_THROW(static_cast<void>(scaler.found_inf(sgd)), Error);
  scaler.unscale(sgd);
  EXPECT_EQ(scaler.found_inf(sgd).item(), 0.0);
  scaler.found_inf(sgd).fill(1.0);  // as of another rank's part
  EXPECT_EQ(scaler.step(sgd).item(), 1.0);
  EXPECT_EQ(p.data().to_vector<float>()[0], 1.0F);
  scaler.update();
  EXPECT_EQ(scaler.scale(), 2.0);
  EXPECT_THROW(static_cast<void>(scaler.found_inf(sgd)), Error);
}

TEST(GradScaler, RefusesCallsInAWrongOrderAndSaysTheRightOne) {
  const Variable p(Tensor::full({2}, 1.0), true), q(Tensor::full({2}, 1.0), true);
  SGD sgd({{"p", p}}, {.lr = 0.5}), other({{"q", q}}, {.lr = 0.5});
  GradScaler scaler({.init_scale = 4.0, .growth_interval = 1});
  const auto refusal = [](const auto& call) { return test::message_of<Error>(call); };
  const auto unscale = [&] { scaler.unscale(sgd); };
  const auto step = [&] { scaler.step(sgd); };
  const auto update = [&] { scaler.update(); };
  constexpr const char* no_step =
      "GradScaler: update() was called without a step() since the last one: call step() of each "
      "optimizer first";
  EXPECT_EQ(refusal(update), no_step);
  for (const bool unscales : {false, true}) {
    sgd.zero_grad();
    scaler.scaled(sum(p)).backward();
    if (unscales) {
      unscale();
      EXPECT_EQ(refusal(unscale),
                "GradScaler: these gradients are already unscaled: call update() first");
    }
    step();
    const auto once = p.data().to_vector<float>();
    EXPECT_EQ(refusal(step),
              "GradScaler: this optimizer has made its step since the last update(): call update() "
              "once after the steps of all optimizers");
    EXPECT_EQ(refusal(unscale),
              "GradScaler: unscale() was called after this optimizer's step(): call it before "
              "step(), and update() once after the steps of all optimizers");
    EXPECT_EQ(p.data().to_vector<float>(), once);
    scaler.step(other);  // has its own order
    update();
    EXPECT_EQ(refusal(update), no_step);
  }
  EXPECT_EQ(p.data().to_vector<float>()[0], 0.0F);
  EXPECT_EQ(scaler.scale(), 16.0) << "only updates after a step count";
  step();
  scaler.forget();
  unscale();
}

TEST(GradScaler, RefusesParametersOfAnotherDevice) {
  const Variable p(Tensor::full({1}, 1.0, DType::f32, {DeviceType::sim, 0}), true);
  SGD sgd({{"p", p}}, {.lr = 0.5});
  sum(p).backward();
  GradScaler scaler;
  try {
    scaler.unscale(sgd);
    ADD_FAILURE() << "was unscaled";
  } catch (const ShapeError& error) {
    EXPECT_STREQ(
        error.what(),
        "GradScaler: the parameters are on sim:0, its scale is on host: construct it with the "
        "parameters' device, GradScaler(options, device)");
  }
}

TEST(GradScaler, GoesOnFromItsState) {
  const Variable p(Tensor::full({2}, 1.0), true);
  SGD sgd({{"p", p}}, {.lr = 0.5});
  GradScaler first({.growth_interval = 3}), second({.init_scale = 8, .growth_interval = 3});
  const auto iterate = [&](GradScaler& scaler) {
    scaler.step(sgd);
    scaler.update();
  };
  iterate(first);
  iterate(first);
  second.load_state_dict(first.state_dict());
  EXPECT_EQ(second.scale(), 65536);
  iterate(second);
  EXPECT_EQ(second.scale(), 131072);
}

TEST(GradScaler, RefusesInvalidOptions) {
  for (const auto& options : std::vector<GradScalerOptions>{{.init_scale = 0},
                                                            {.init_scale = std::nan("")},
                                                            {.init_scale = 1e39},
                                                            {.init_scale = 1e-40},
                                                            {.growth_factor = 1},
                                                            {.backoff_factor = 1},
                                                            {.backoff_factor = 0},
                                                            {.growth_interval = 0}})
    EXPECT_THROW({ const GradScaler scaler(options); }, InputError);
}

}  // namespace
}  // namespace lockstep::optim
