// train.precision: whole runs with 16-bit products.
#include <gtest/gtest.h>

#include <apps/small_run.hpp>
#include <nlohmann/json.hpp>

namespace lockstep::test {
namespace {

using Arguments = std::vector<std::string>;

Arguments run_in(const std::string& precision, const std::string& dir, const Arguments& more) {
  Arguments arguments = small_run(
      dir, {"--set", "train.precision=\"" + precision + "\"", "--set", "model.kind=\"mlp\"",
            "--set", "model.hidden=[48, 32]", "--set", "optimizer.lr=0.1"});
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

double test_loss(const std::string& dir) {
  return nlohmann::json::parse(read_file(dir + "/summary.json")).at("test_loss").get<double>();
}

/// The loss scale in a checkpoint; 0 without one.
double scale_in(const std::string& checkpoint) {
  const Finished finished = lockstep_utility({"checkpoint", "inspect", checkpoint});
  const auto at = finished.output.find("grad_scale ");
  return at == std::string::npos ? 0 : std::stod(finished.output.substr(at + 11));
}

TEST(Precision, Of16BitsReachesTheLossOfF32) {
  const ScratchFolder scratch;
  for (const char* precision : {"f32", "bf16", "fp16"}) {
    const Finished finished = classify(2, run_in(precision, scratch.file(precision), {}));
    ASSERT_EQ(finished.exit_code, 0) << finished.output;
  }
  const double f32 = test_loss(scratch.file("f32"));
  EXPECT_LT(f32, 0.5) << "it learns";
  EXPECT_NEAR(test_loss(scratch.file("bf16")), f32, 0.05 * f32);
  EXPECT_NEAR(test_loss(scratch.file("fp16")), f32, 0.05 * f32);
  EXPECT_NE(test_loss(scratch.file("bf16")), f32);
}

TEST(Precision, OfBf16ReachesTheLossOfF32WithEveryModelOfImages) {
  struct Model {
    const char* kind;
    Arguments settings;
  };
  for (const Model& model :
       {Model{"convnet", {"data.synthetic_image_size=28", "data.synthetic_channels=1"}},
        Model{"resnet18",
              {"data.synthetic_image_size=12", "optimizer.lr=0.005", "train.epochs=3",
               "train.batch_size=20", "data.synthetic_samples=220"}},
        Model{"transformer",
              {"data.synthetic_image_size=28", "model.depth=1", "train.batch_size=30",
               "data.synthetic_samples=330"}}}) {
    SCOPED_TRACE(model.kind);
    const ScratchFolder scratch;
    for (const char* precision : {"f32", "bf16"}) {
      Arguments settings = model.settings;
      settings.insert(settings.end(), {std::string("model.kind=\"") + model.kind + "\"",
                                       std::string("train.precision=\"") + precision + "\""});
      Arguments arguments;
      for (const std::string& setting : settings) {
        arguments.emplace_back("--set");
        arguments.push_back(setting);
      }
      const Finished finished = classify(2, small_run(scratch.file(precision), arguments));
      ASSERT_EQ(finished.exit_code, 0) << finished.output;
    }
    const double f32 = test_loss(scratch.file("f32")), bf16 = test_loss(scratch.file("bf16"));
    EXPECT_LT(f32, 2.1) << "it learns";
    EXPECT_NEAR(bf16, f32, 0.05 * f32 + 0.02);
    EXPECT_NE(bf16, f32);
  }
}

TEST(Precision, ScaleThatIsTooLargeIsHalvedUntilStepsCount) {
  const ScratchFolder scratch;
  const Finished finished =
      classify(2, run_in("fp16", scratch.file("run"), {"--set", "train.loss_scale=1e9"}));
  ASSERT_EQ(finished.exit_code, 0) << finished.output;
  EXPECT_TRUE(finished.says("step 1 is skipped: its gradients are not finite in fp16"))
      << finished.output;
  EXPECT_LT(test_loss(scratch.file("run")), 2.0) << finished.output;
}

TEST(Precision, ScaleThatSinglePrecisionDoesNotHoldIsRefused) {
  const ScratchFolder scratch;
  for (const char* setting : {"train.loss_scale=1e39", "train.loss_scale=1e-46"}) {
    const Finished finished = classify(1, run_in("fp16", scratch.file("run"), {"--set", setting}));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says("train.loss_scale")) << finished.output;
  }
}

TEST(Precision, ResumedRunGoesOnWithItsLossScale) {
  const ScratchFolder scratch;
  const Arguments growing{"--set", "train.loss_scale=4",
                          "--set", "train.loss_scale_growth_steps=7",
                          "--set", "checkpoint.every_steps=10"};
  Arguments arguments = run_in("fp16", scratch.file("whole"), growing);
  ASSERT_EQ(classify(2, arguments).exit_code, 0);
  const std::string middle = scratch.file("whole/checkpoints/step-00000020.h5");
  EXPECT_EQ(scale_in(middle), 16) << "doubled after 7 and 14 of 20 steps";
  arguments = run_in("fp16", scratch.file("resumed"), growing);
  arguments.push_back("--resume=" + middle);
  const Finished resumed = classify(2, arguments);
  ASSERT_EQ(resumed.exit_code, 0) << resumed.output;
  EXPECT_EQ(test_loss(scratch.file("resumed")), test_loss(scratch.file("whole")));
  EXPECT_EQ(scale_in(scratch.file("resumed/checkpoints/step-00000040.h5")), 128);
}

TEST(Precision, FP16WithLocalSgdIsRefused) {
  const ScratchFolder scratch;
  const Finished finished = classify(
      2, run_in("fp16", scratch.file("run"), {"--set", "ddp.comm_hook=\"post_local_sgd\""}));
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("Use bf16 or f32")) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
