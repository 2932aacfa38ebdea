#include <gtest/gtest.h>

#include <cmath>
#include <regex>
#include <string>
#include <support/process.hpp>
#include <tuple>
#include <utility>

#include "../../docs/examples/cart_pole.hpp"

// The programs with remote calls in docs/tutorials learn.

namespace lockstep::test {
namespace {

/// The match of `pattern` in the output of a program that must succeed.
std::smatch found(const Finished& finished, const std::string& pattern) {
  EXPECT_EQ(finished.exit_code, 0) << finished.output;
  std::smatch match;
  EXPECT_TRUE(std::regex_search(finished.output, match, std::regex(pattern))) << finished.output;
  return match;
}

// (M + m) x'' + m l (angle'' cos(angle) - angle'^2 sin(angle)) = F and
// 4/3 l angle'' + x'' cos(angle) = g sin(angle): the cart's and the pole's equations of motion.
TEST(CartPole, ObeysTheEquationsOfMotion) {
  int pushes = 0;
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CartPole world(seed);
    for (std::uint64_t i = seed; !world.is_over(); ++i, ++pushes) {
      const State a = world.state();
      const bool right = i % 3 == 0;
      EXPECT_EQ(world.push(right ? 1 : 0), 1.0F);
      const State b = world.state();
      const double x2 = (b[1] - a[1]) / 0.02, angle2 = (b[3] - a[3]) / 0.02;
      const double sine = std::sin(a[2]), cosine = std::cos(a[2]);
      EXPECT_NEAR(1.1 * x2 + 0.1 * 0.5 * (angle2 * cosine - a[3] * a[3] * sine),
                  right ? 10.0 : -10.0, 1e-3);
      EXPECT_NEAR(4.0 / 3.0 * 0.5 * angle2 + x2 * cosine, 9.8 * sine, 1e-3);
      EXPECT_NEAR(b[0] - a[0], 0.02 * a[1], 1e-6);
      EXPECT_NEAR(b[2] - a[2], 0.02 * a[3], 1e-6);
    }
  }
  EXPECT_GT(pushes, 100);
}

TEST(CartPole, FallsOrEndsAfter200Pushes) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    CartPole world(seed);
    int pushes = 0;
    for (; !world.is_over(); ++pushes) world.push(1);
    EXPECT_TRUE(world.has_fallen());
    EXPECT_GT(std::abs(world.state()[2]), 0.2F);  // 12 degrees are 0.209
    EXPECT_LE(pushes, 12);
    world.reset();
    for (pushes = 0; !world.is_over(); ++pushes)
      world.push(3 * world.state()[2] + world.state()[3] > 0 ? 1 : 0);
    EXPECT_FALSE(world.has_fallen());
    EXPECT_EQ(pushes, 200);
  }
}

// The random numbers depend on the caller and the moment, not on how calls are answered.
TEST(RpcApplications, CartPoleIsSolvedByTheSameEpisodesEitherWay) {
  std::string solved;
  for (const char* how : {"singly", "together"}) {
    const Finished finished = run(app(4, "docs/examples/cart_pole", {how}));
    const auto score = found(finished, "mean reward ([0-9.]+) over 100 episodes, after ([0-9]+)\n");
    ASSERT_EQ(score.size(), 3U);
    EXPECT_GE(std::stod(score[1]), 195.0);
    EXPECT_LE(std::stoi(score[2]), 500);
    if (solved.empty()) solved = score[0];
    EXPECT_EQ(score[0], solved);
    const auto rates = found(finished, "actions/s: ([0-9]+) singly, ([0-9]+) together");
    ASSERT_EQ(rates.size(), 3U);
    EXPECT_GT(std::stoi(rates[1]), 0);
    EXPECT_GT(std::stoi(rates[2]), 0);
  }
}

TEST(RpcApplications, TheParameterServerLearnsFromSingleAndFromBatchedGradients) {
  for (const int ranks : {3, 5}) {
    const Finished finished = run(app(ranks, "docs/examples/batched_parameter_server", {}));
    for (const char* how : {"single ", "batched"}) {
      const auto losses = found(
          finished, how + std::string("  loss ([0-9.]+) to ([0-9.]+), [1-9][0-9]* gradients/s"));
      ASSERT_EQ(losses.size(), 3U);
      EXPECT_NEAR(std::stod(losses[1]), 2.3, 0.2);  // log(10)
      EXPECT_LT(std::stod(losses[2]), 0.5);
    }
  }
}

// The frequencies of character pairs alone cost 2.257 nats per character of this text.
TEST(RpcApplications, TheRecurrentNetworkOnTwoRanksLearnsAndHasTheGradientsOfOneProcess) {
  const ScratchFolder folder;
  const std::string text = folder.file("bible.txt");
  if (run({"sh", "-c", "command -v bible"}).exit_code != 0)
    GTEST_SKIP() << "no program bible here, whose text is to be learnt (Debian: bible-kjv)";
  const Finished written = run({"sh", "-c", "bible -f gen1:1-rev22:21 | cut -d' ' -f2- >" + text});
  ASSERT_EQ(written.exit_code, 0) << written.output;
  ASSERT_EQ(read_file(text).substr(0, 23), "In the beginning God cr");

  const Finished finished = run(app(3, "docs/examples/rnn_model_parallel", {text, "200"}));
  found(finished, "gradients differ from those of one process by 0 and 0\n");
  const auto loss = found(finished, "step 200  loss ([0-9.]+)\n");
  ASSERT_EQ(loss.size(), 2U);
  EXPECT_LT(std::stod(loss[1]), 2.0);
}

// With one part it is the same computation; with several their order changes the rounding.
TEST(RpcApplications, ThePipelineHasTheGradientsOfTheUncutModelAndTrains) {
  const Finished finished = run(app(3, "docs/examples/pipeline", {"16", "2", "16"}));
  const auto here = found(finished, "uncut, one rank +([0-9.]+) images/s  loss ([0-9.]+)\n");
  ASSERT_EQ(here.size(), 3U);
  for (const std::string size : {"16", " 8", " 4", " 2"}) {
    const auto difference = found(
        finished, "split size  " + size + "  gradients differ from the uncut model's by (.+)\n");
    const auto trained =
        found(finished, "split size  " + size + " +([0-9.]+) images/s  loss ([0-9.]+)\n");
    ASSERT_EQ(difference.size(), 2U);
    ASSERT_EQ(trained.size(), 3U);
    EXPECT_LE(std::stod(difference[1]), size == "16" ? 0.0 : 1e-4);  // summed over 62 parameters
    EXPECT_GT(std::stod(trained[1]), 0.0);
    if (size == "16") {
      EXPECT_NEAR(std::stod(trained[2]), std::stod(here[2]), 0.02);
    } else {
      EXPECT_LT(std::stod(trained[2]), 1.0);
    }
  }
}

// Sums over trainers have another order than one process's: some units in the last place per step.
TEST(RpcApplications, DataParallelTrainersWithATableElsewhereTrainAsOneProcess) {
  const Finished finished = run(app(4, "docs/examples/ddp_and_rpc", {"200"}));
  for (const std::string what :
       {"gradients differ from those of one process", "parameters after 200 steps"}) {
    const auto differences = found(finished, what + ": dense (.+) and (.+), sparse (.+)\n");
    ASSERT_EQ(differences.size(), 4U);
    for (std::size_t i = 1; i < 4; ++i)
      EXPECT_LE(std::stod(differences[i]), what[0] == 'g' ? 1e-6 : 1e-4);
  }
  const auto losses = found(finished, "loss ([0-9.]+) to ([0-9.]+)\n");
  ASSERT_EQ(losses.size(), 3U);
  EXPECT_GT(std::stod(losses[1]), 2.0);  // log(8) is 2.08
  EXPECT_LT(std::stod(losses[2]), 0.5);
}

TEST(RpcApplications, OneRankAloneIsToldToBringOthers) {
  for (const auto& [program, words] :
       {std::pair("cart_pole", "start at least 2 ranks"),
        std::pair("batched_parameter_server", "start at least 2"),
        std::pair("ddp_and_rpc", "start 4 ranks"), std::pair("parameter_server", "mpiexec -n 2"),
        std::pair("rnn_model_parallel", "start 3 ranks"), std::pair("pipeline", "start 3 ranks")}) {
    const Finished finished = run(app(1, std::string("docs/examples/") + program, {}));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(words)) << finished.output;
  }
}

TEST(RpcApplications, StepsThatAreNoneAreExitCodeTwo) {
  for (const auto& [program, ranks] :
       {std::pair("parameter_server", 2), std::pair("ddp_and_rpc", 4), std::pair("pipeline", 3)}) {
    for (const char* steps : {"x", "0", "-1"}) {
      const Finished finished = run(app(ranks, std::string("docs/examples/") + program, {steps}));
      EXPECT_EQ(finished.exit_code, 2) << program << " " << steps << ": " << finished.output;
      EXPECT_TRUE(finished.says("from 1 on")) << finished.output;
    }
  }
}

TEST(RpcApplications, TheRecurrentNetworkNamesTheFaultOfItsText) {
  const ScratchFolder folder;
  const std::string text = folder.write("short.txt", std::string(3000, 'x'));
  for (const auto& [file, steps, words] :
       {std::tuple(text, "x", "STEPS, from 1 on"),
        {text, "0", "STEPS, from 1 on"},
        {text, "5", "short.txt has text for 4 steps"},
        {folder.file("none.txt"), "5", "none.txt is missing or too short"}}) {
    const Finished finished = run(app(3, "docs/examples/rnn_model_parallel", {file, steps}));
    EXPECT_EQ(finished.exit_code, 2) << finished.output;
    EXPECT_TRUE(finished.says(words)) << finished.output;
  }
}

TEST(RpcApplications, CartPoleRefusesAnUnknownMode) {
  const Finished finished = run(app(2, "docs/examples/cart_pole", {"togther"}));
  EXPECT_EQ(finished.exit_code, 2) << finished.output;
  EXPECT_TRUE(finished.says("[singly | together]")) << finished.output;
}

}  // namespace
}  // namespace lockstep::test
