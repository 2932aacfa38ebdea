// Schedules as data: their bubbles against the formulas, their memory, the proof that they end, and
// what the proof refuses.
#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <support/mentions.hpp>
#include <support/message_of.hpp>

#include <lockstep/base/clock.hpp>
#include <lockstep/base/error.hpp>
#include <lockstep/parallel/pipeline/simulation.hpp>

namespace lockstep {
namespace {

using Kind = PipelineAction::Kind;

constexpr int most_ranks = 8, most_microbatches = 32;

template <class Body>
void for_each_size(const Body& body) {
  for (int ranks = 1; ranks <= most_ranks; ++ranks) {
    for (int microbatches = 1; microbatches <= most_microbatches; ++microbatches) {
      SCOPED_TRACE(std::to_string(ranks) + " ranks, " + std::to_string(microbatches) +
                   " micro-batches");
      body(ranks, microbatches);
    }
  }
}

/// The bubble fraction if each rank waits for `waits` while it computes for `works`.
double fraction(double waits, double works) { return waits / (waits + works); }

TEST(PipelineSchedules, GPipeAnd1F1BHaveTheBubbleOfTheFormula) {
  for_each_size([](int p, int m) {
    const PipelineCosts costs{.forward = 1.0, .backward_input = 0.7, .backward_weight = 1.1};
    EXPECT_NEAR(simulate(gpipe(p, m), {costs}).bubble, fraction(p - 1, m), 1e-12);
    EXPECT_NEAR(simulate(one_f_one_b(p, m), {costs}).bubble, fraction(p - 1, m), 1e-12);
  });
}

TEST(PipelineSchedules, InterleavingDividesTheBubbleByTheStagesOfARank) {
  for_each_size([](int p, int m) {
    for (int v = 1; v <= 4; ++v) {
      const auto simulation = simulate(interleaved_1f1b(p, v, m));
      if (m < p) {
        EXPECT_LE(simulation.bubble, fraction(p - 1, m) + 1e-12);
      } else {
        EXPECT_NEAR(simulation.bubble, fraction((p - 1.0) / v, m), 1e-12) << v << " a rank";
      }
    }
  });
}

TEST(PipelineSchedules, ZeroBubbleH1HasAThirdOf1F1BsBubbleWithTheSameMemory) {
  for_each_size([](int p, int m) {
    const auto simulation = simulate(zero_bubble_h1(p, m));
    if (m >= p) {
      EXPECT_NEAR(simulation.bubble, fraction((p - 1) / 3.0, m), 1e-12);
    } else {
      EXPECT_LE(simulation.bubble, fraction(p - 1, m) + 1e-12);
    }
    EXPECT_LE(*std::ranges::max_element(simulation.peak_activations), p);
  });
}

TEST(PipelineSchedules, HoldActivationsOfAsManyMicroBatchesAsTheySay) {
  for_each_size([](int p, int m) {
    const auto gpipe_peak = simulate(gpipe(p, m)).peak_activations;
    const auto peak = simulate(one_f_one_b(p, m)).peak_activations;
    for (int rank = 0; rank < p; ++rank) {
      EXPECT_EQ(gpipe_peak[static_cast<std::size_t>(rank)], m);
      EXPECT_EQ(peak[static_cast<std::size_t>(rank)], std::min(p - rank, m));
    }
  });
}

TEST(PipelineSchedules, TakeTheMicroBatchesInOrderSoThatGradientsAreSummedInOneOrder) {
  for_each_size([](int p, int m) {
    for (const auto& schedule :
         {gpipe(p, m), one_f_one_b(p, m), interleaved_1f1b(p, 3, m), zero_bubble_h1(p, m)}) {
      for (const auto& actions : schedule.actions) {
        std::vector<std::vector<int>> next(
            4, std::vector<int>(static_cast<std::size_t>(schedule.stages()), 0));
        for (const auto& [kind, stage, microbatch] : actions) {
          EXPECT_EQ(next[static_cast<std::size_t>(kind)][static_cast<std::size_t>(stage)]++,
                    microbatch)
              << schedule.name;
        }
      }
    }
  });
}

TEST(PipelineSchedules, TakeTimeForMessagesIntoAccount) {
  // Two ranks, one micro-batch: F, message, F, B, message, B.
  const PipelineCosts costs{
      .forward = 1.0, .backward_input = 2.0, .backward_weight = 0.0, .message = 0.5};
  EXPECT_DOUBLE_EQ(simulate(gpipe(2, 1), {costs}).makespan, 7.0);
  // The second stage is slower: it never waits after its first action.
  const std::vector<PipelineCosts> uneven{{1.0, 1.0, 1.0}, {2.0, 2.0, 2.0}};
  const auto simulation = simulate(one_f_one_b(2, 4), uneven);
  EXPECT_DOUBLE_EQ(simulation.makespan, 1.0 + 4 * 6.0 + 2.0);
  EXPECT_DOUBLE_EQ(simulation.busy[0], 12.0);
  EXPECT_DOUBLE_EQ(simulation.begins[1].front(), 1.0);
}

TEST(PipelineSchedules, PrintAsAGrid) {
  EXPECT_EQ(to_string(one_f_one_b(2, 3)),
            "1f1b, 2 ranks, 2 stages, 3 micro-batches: bubble 25.0 %\n"
            "rank 0  F0 F1 .  .  B0 -  F2 B1 -  .  B2 -\n"
            "rank 1  .  F0 B0 -  F1 B1 -  F2 B2 -  .  .\n");
  EXPECT_EQ(to_string(zero_bubble_h1(2, 2)),
            "zero-bubble h1, 2 ranks, 2 stages, 2 micro-batches: bubble 14.3 %\n"
            "rank 0  F0 F1 .  I0 W0 I1 W1\n"
            "rank 1  .  F0 I0 F1 I1 W0 W1\n");
  const std::string grid = to_string(interleaved_1f1b(2, 2, 2));
  EXPECT_TRUE(test::mentions(grid, "rank 0  0F0 0F1 2F0 2F1")) << grid;
}

TEST(PipelineSchedules, For64StagesAreMadeProvenAndSimulatedInLessThanTwoSeconds) {
  const auto begin = Clock::now();
  for (const auto& schedule : {gpipe(64, 512), one_f_one_b(64, 512), interleaved_1f1b(64, 4, 512),
                               zero_bubble_h1(64, 512)}) {
    EXPECT_GT(simulate(schedule).bubble, 0.0);
  }
  EXPECT_LT(seconds_since(begin), 2.0);
}

TEST(PipelineSchedules, RefuseNumbersBelowOne) {
  const auto refusal = [](auto make) { return test::message_of<InputError>(make); };
  EXPECT_TRUE(test::mentions(refusal([] { return gpipe(0, 1); }), "gpipe: ranks is 0"));
  EXPECT_TRUE(test::mentions(refusal([] { return one_f_one_b(1, 0); }), "microbatches is 0"));
  EXPECT_TRUE(
      test::mentions(refusal([] { return interleaved_1f1b(2, -1, 4); }), "stages_per_rank is -1"));
  EXPECT_TRUE(test::mentions(refusal([] { return zero_bubble_h1(0, 4); }), "ranks is 0"));
}

std::string refusal(const PipelineSchedule& schedule) {
  return test::message_of<InputError>([&] { expect_deadlock_free(schedule); });
}

TEST(DeadlockProof, NamesRankStageAndMicroBatchOfRanksThatWaitForEachOther) {
  PipelineSchedule crossed = one_f_one_b(2, 2);
  // Rank 0 wants the gradient of micro-batch 1 first, which rank 1 sends second, after rank 0's F1.
  crossed.actions[0] = {
      {Kind::forward, 0, 0}, {Kind::backward, 0, 1}, {Kind::forward, 0, 1}, {Kind::backward, 0, 0}};
  const std::string message = refusal(crossed);
  EXPECT_TRUE(test::mentions(message, "Rank 0 waits in backward of stage 0 of micro-batch 1"))
      << message;
  EXPECT_TRUE(test::mentions(message, "forward of stage 0 of micro-batch 1, which it has later"))
      << message;

  // Each rank takes the other's micro-batch last.
  PipelineSchedule between = gpipe(2, 2);
  std::ranges::swap(between.actions[0][1], between.actions[0][2]);  // F0 B0 F1 B1
  EXPECT_EQ(refusal(between),
            "pipeline schedule \"gpipe\": a deadlock. Rank 0 waits in backward of stage 0 of "
            "micro-batch 0 (its action 1) for backward of stage 1 of micro-batch 0, and rank 1 "
            "waits too, in forward of stage 1 of micro-batch 1. Change the order of actions.");
}

TEST(DeadlockProof, RefusesActionsThatAreMissingTwiceOrInTheWrongPlace) {
  PipelineSchedule schedule = one_f_one_b(2, 2);
  const auto changed = [&](const auto& change) {
    PipelineSchedule copy = schedule;
    change(copy);
    return refusal(copy);
  };
  EXPECT_EQ(refusal(schedule), "nothing was thrown");
  EXPECT_TRUE(test::mentions(changed([](auto& s) { s.actions[1].pop_back(); }),
                             "rank 1 has no backward of stage 1 of micro-batch 1"));
  EXPECT_TRUE(
      test::mentions(changed([](auto& s) { s.actions[1].back().kind = Kind::backward_weight; }),
                     "rank 1 has no backward (input) of stage 1 of micro-batch 1"));
  EXPECT_TRUE(test::mentions(changed([](auto& s) {
                               s.actions[1].push_back({Kind::forward, 1, 0});
                             }),
                             "rank 1 has forward of stage 1 of micro-batch 0 twice"));
  EXPECT_TRUE(test::mentions(changed([](auto& s) { s.actions[0].front().stage = 1; }),
                             "but that stage is on rank 1"));
  EXPECT_TRUE(test::mentions(changed([](auto& s) { s.actions[0].front().microbatch = 2; }),
                             "there are 2 stages and 2 micro-batches"));
  EXPECT_TRUE(
      test::mentions(changed([](auto& s) { s.rank_of_stage[1] = 2; }), "stage 1 is on rank 2"));
  EXPECT_TRUE(test::mentions(changed([](auto& s) { s.actions.clear(); }), "0 ranks"));
  EXPECT_TRUE(test::mentions(test::message_of<InputError>([&] {
                               static_cast<void>(simulate(schedule, std::vector<PipelineCosts>(3)));
                             }),
                             "3 costs for 2 stages"));
}

}  // namespace
}  // namespace lockstep
