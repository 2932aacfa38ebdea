// The model of a scaling study: fits return known parameters, and steps worked out by hand.
#include <gtest/gtest.h>

#include <cmath>
#include <lockstep/base/error.hpp>
#include <lockstep/deck/deck.hpp>
#include <lockstep/train/task/classification.hpp>
#include <numbers>
#include <scaling/model/prediction.hpp>
#include <scaling/model/rehearsal.hpp>
#include <scaling/model/robust_fit.hpp>
#include <scaling/model/stragglers.hpp>
#include <scaling/model/timeline.hpp>
#include <support/message_of.hpp>

namespace lockstep::scaling {
namespace {

using test::message_of;

bool says(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

const std::vector<double> sizes_in_bytes{1 << 10, 1 << 14, 1 << 18, 1 << 22, 25 << 20};

/// Seconds by the formula alone.
double formula(Algorithm algorithm, Collective kind, int ranks, double bytes, double overhead,
               double latency, double bandwidth) {
  return overhead + rounds_of(algorithm, kind, ranks) * latency +
         bus_factor(kind, ranks) * bytes / bandwidth;
}

TEST(RobustFit, GivesTheCoefficientsBackAndIsNotMovedByADisturbedPoint) {
  std::vector<Equation> equations;
  for (const double x : {1.0, 2.0, 5.0, 9.0, 20.0, 50.0})
    equations.push_back({{1, x}, 3 + 0.5 * x});
  equations[3].value *= 4;
  const auto found = robust_fit(equations);
  EXPECT_NEAR(found[0], 3, 1e-6);
  EXPECT_NEAR(found[1], 0.5, 1e-6);
  // Nothing below 0: a falling line becomes a constant.
  const auto falling = robust_fit({{{1, 1}, 3}, {{1, 2}, 2}, {{1, 3}, 1}});
  EXPECT_EQ(falling[1], 0);
  EXPECT_GT(falling[0], 0);
}

TEST(CollectiveModel, RoundsAreThoseOfThePublishedAlgorithms) {
  EXPECT_EQ(rounds_of(Algorithm::ring, Collective::all_reduce, 8), 14);
  EXPECT_EQ(rounds_of(Algorithm::ring, Collective::all_gather, 8), 7);
  EXPECT_EQ(rounds_of(Algorithm::halving, Collective::all_reduce, 8), 6);
  EXPECT_EQ(rounds_of(Algorithm::halving, Collective::broadcast, 5), 3);
  EXPECT_EQ(rounds_of(Algorithm::direct, Collective::all_reduce, 4096), 2);
  EXPECT_EQ(rounds_of(Algorithm::ring, Collective::all_reduce, 1), 0);
}

TEST(CollectiveModel, GivesAlgorithmLatencyOverheadAndBandwidthBack) {
  for (const Collective kind : collectives) {
    for (const Algorithm algorithm : {Algorithm::halving, Algorithm::ring}) {
      std::vector<CollectiveTime> times;
      for (const int ranks : {2, 4, 8, 16}) {
        for (const double bytes : sizes_in_bytes) {
          times.push_back(
              {ranks, bytes, formula(algorithm, kind, ranks, bytes, 4e-6, 1.5e-6, 8e9)});
        }
      }
      times[7].seconds *= 3;  // somebody used the machine
      const CollectiveModel model(kind, times);
      EXPECT_EQ(model.algorithm(), algorithm) << words(kind);
      EXPECT_NEAR(model.overhead_s(), 4e-6, 1e-11);
      EXPECT_NEAR(model.latency_s(), 1.5e-6, 1e-11);
      EXPECT_NEAR(1 / model.seconds_a_byte(), 8e9, 1e4);
      EXPECT_EQ(model.measured_ranks(), (std::vector<int>{2, 4, 8, 16}));
      EXPECT_NEAR(model.error(), 2.0 / 3, 1e-6);  // the disturbed one
      const double expected = formula(algorithm, kind, 512, 1e6, 4e-6, 1.5e-6, 8e9);
      EXPECT_NEAR(model.seconds(512, 1e6), expected, 1e-6 * expected);
      EXPECT_EQ(model.seconds(1, 1e6), 0);
    }
  }
}

// Caches hold small tensors: the straight line is wrong, the correction is not.
TEST(CollectiveModel, FollowsABandwidthThatFallsWithSize) {
  const std::vector<double> measured{1.5e-6, 1.6e-6, 4.6e-6, 220e-6, 2841e-6};
  std::vector<CollectiveTime> times;
  for (std::size_t i = 0; i < measured.size(); ++i)
    times.push_back({2, sizes_in_bytes[i], measured[i]});
  const CollectiveModel model(Collective::all_reduce, times);
  EXPECT_GT(model.line_error(), 0.2);
  EXPECT_NEAR(model.error(), 0, 1e-9);
  for (std::size_t i = 0; i < measured.size(); ++i)
    EXPECT_NEAR(model.seconds(2, sizes_in_bytes[i]), measured[i], 1e-12);
  EXPECT_GT(model.seconds(2, 1e6), measured[2]);
  EXPECT_LT(model.seconds(2, 1e6), measured[3]);
}

TEST(CollectiveModel, OneNumberOfRanksTellsNoLatencyFromOverhead) {
  std::vector<CollectiveTime> times;
  for (const double bytes : sizes_in_bytes)
    times.push_back(
        {4, bytes, formula(Algorithm::ring, Collective::all_reduce, 4, bytes, 1e-6, 1e-6, 1e9)});
  const CollectiveModel model(Collective::all_reduce, times);
  EXPECT_EQ(model.latency_s(), 0);
  EXPECT_NEAR(model.overhead_s(), 7e-6, 1e-10);
  times.resize(2);
  EXPECT_TRUE(says(message_of<InputError>(
                       [&] { static_cast<void>(CollectiveModel(Collective::all_reduce, times)); }),
                   "2 size(s): three at least are needed"));
}

TEST(CollectiveModel, AnAssumedNetworkIsARing) {
  const auto model = CollectiveModel::assumed(Collective::all_reduce, 2e-6, 1e9);
  EXPECT_DOUBLE_EQ(model.seconds(8, 8e6), 14 * 2e-6 + 2 * 7.0 / 8 * 8e6 / 1e9);
  EXPECT_DOUBLE_EQ(model.with_bandwidth(2).seconds(8, 8e6), 14 * 2e-6 + 2 * 7.0 / 8 * 8e6 / 2e9);
}

Json benchmark(int ranks, int nodes, double net_bandwidth) {
  Json one{{"ranks", ranks}, {"nodes", nodes}, {"oversubscribed", false}};
  one["collectives"] = Json::array();
  for (const double bytes : sizes_in_bytes) {
    double seconds = formula(Algorithm::halving, Collective::all_reduce, ranks / nodes, bytes,
                             ranks > nodes ? 2e-6 : 0, 1e-6, 1e10);
    if (nodes > 1) {
      seconds += formula(Algorithm::halving, Collective::all_reduce, nodes, bytes, 3e-6, 5e-6,
                         net_bandwidth);
    }
    one["collectives"].push_back(
        {{"op", "all_reduce"}, {"bytes", bytes}, {"us", {{"median", 1e6 * seconds}}}});
  }
  return one;
}

TEST(CollectiveModel, LevelsAreFittedOneAfterTheOther) {
  Json benchmarks = Json::array();
  for (const int nodes : {1, 2, 4, 8}) {
    for (const int on_a_node : {2, 4})
      benchmarks.push_back(benchmark(nodes * on_a_node, nodes, 1e9));
  }
  Json crowded = benchmark(4, 1, 1e9);
  crowded["oversubscribed"] = true;
  for (Json& one : crowded["collectives"]) one["us"]["median"] = 1e9;
  benchmarks.push_back(crowded);
  const std::vector<int> all{2, 4, 8, 16, 32};
  const auto in_node = fit_level(Level::in_node, benchmarks, all, Collective::all_reduce);
  const auto between =
      fit_level(Level::between_nodes, benchmarks, all, Collective::all_reduce, in_node);
  ASSERT_TRUE(in_node && between);
  EXPECT_NEAR(in_node->overhead_s() + 2 * in_node->latency_s(), 4e-6, 1e-10);
  EXPECT_EQ(between->algorithm(), Algorithm::halving);
  EXPECT_NEAR(between->latency_s(), 5e-6, 1e-9);
  EXPECT_NEAR(1 / between->seconds_a_byte(), 1e9, 1e4);
  EXPECT_FALSE(fit_level(Level::between_nodes, benchmarks, {2}, Collective::all_reduce, in_node));
  const Network network{in_node, between};
  const auto cost = network.all_reduce(32, 8, 1e6);
  EXPECT_NEAR(cost.link_s,
              formula(Algorithm::halving, Collective::all_reduce, 8, 1e6, 3e-6, 5e-6, 1e9), 1e-8);
  EXPECT_NEAR(cost.own_s,
              formula(Algorithm::halving, Collective::all_reduce, 4, 1e6, 2e-6, 1e-6, 1e10), 1e-8);
  const Network alone{in_node, std::nullopt};
  EXPECT_TRUE(says(message_of<InputError>([&] { static_cast<void>(alone.all_reduce(8, 2, 1)); }),
                   "--network"));
}

TEST(Stragglers, TheLatestOfNormalRanksIsThatOfPublishedTables) {
  EXPECT_EQ(expected_maximum(1), 0);
  EXPECT_NEAR(expected_maximum(2), 1 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_maximum(3), 1.5 / std::sqrt(std::numbers::pi), 1e-9);
  EXPECT_NEAR(expected_maximum(4), 1.0293753730, 1e-9);
  EXPECT_NEAR(expected_maximum(8), 1.4236003060, 1e-9);
  EXPECT_NEAR(expected_maximum(100), 2.5075936, 1e-6);
  EXPECT_GT(expected_maximum(4096), expected_maximum(4095));
}

TEST(Timeline, ABucketsSumIsHiddenBehindTheRestOfBackward) {
  // 10 s: ready at 4 and 10. The first is done at 7; the second takes 2 more.
  EXPECT_DOUBLE_EQ(overlap(10, {{{4, 0, 3}, {10, 0, 2}}}).exposed_s, 2);
  // The link is busy until 4 + 9: the second begins then.
  EXPECT_DOUBLE_EQ(overlap(10, {{{4, 0, 9}, {10, 0, 2}}}).exposed_s, 5);
  // All is done before the end.
  EXPECT_DOUBLE_EQ(overlap(10, {{{4, 0, 3}, {8, 0, 2}}}).exposed_s, 0);
  EXPECT_DOUBLE_EQ(overlap(10, {}).end_s, 10);
}

TEST(Timeline, OwnWorkDelaysBackward) {
  // Ready at 4; own work until 5; the second is ready at 11, done at 12 with its own, at 14 sent.
  const Overlap both = overlap(10, {{{4, 1, 3}, {10, 1, 2}}});
  EXPECT_DOUBLE_EQ(both.end_s, 14);
  EXPECT_DOUBLE_EQ(both.exposed_s, 4);
}

TEST(Timeline, FurtherRoundsBeginWhenTheFirstIsOver) {
  // First round: done at 7 and 12. Second: 12 to 13, 13 to 14.
  EXPECT_DOUBLE_EQ(overlap(10, {{{4, 0, 3}, {10, 0, 2}}, {{1, 0, 1}, {1, 0, 1}}}).end_s, 14);
  // With own work of 2 for each: at 14 sent until 15, at 16 until 17.
  EXPECT_DOUBLE_EQ(overlap(10, {{{4, 0, 3}, {10, 0, 2}}, {{1, 2, 1}, {1, 2, 1}}}).end_s, 17);
}

/// 10 steps, of forward 1 ms + 0.1 ms a sample, backward twice that, rest 2 ms.
Result measured(int ranks, std::int64_t batch, double late_ms, double exposed_ms) {
  const double share = static_cast<double>(batch) / ranks;
  const double forward = 1e-2 + 1e-3 * share, rest = 2e-2;
  const double exposed = exposed_ms * 1e-2;
  return {.ranks = ranks,
          .nodes = 1,
          .repeat = 1,
          .batch_size = batch,
          .intervals = {{.steps = 10,
                         .samples = 10.0 * static_cast<double>(batch),
                         .seconds = 3 * forward + rest + exposed,
                         .compute = 3 * forward + rest,
                         .communication = exposed,
                         .late = late_ms * 1e-2,
                         .forward = forward,
                         .backward = 2 * forward}},
          .peak_rss_mib = {60}};
}

TEST(ComputeModel, GivesTimeASampleAndScatterBack) {
  const double sigma = 0.25;  // ms
  std::vector<Result> results;
  for (const int ranks : {1, 2, 4}) {
    const double late = sigma * expected_maximum(ranks);
    results.push_back(measured(ranks, 128, late, late));
  }
  const ComputeModel model(step_parts(results, 4));
  const auto seconds = model.seconds(16);
  EXPECT_NEAR(seconds.forward, 2.6e-3, 1e-9);
  EXPECT_NEAR(seconds.backward, 5.2e-3, 1e-9);
  EXPECT_NEAR(seconds.rest, 2e-3, 1e-9);
  EXPECT_NEAR(model.seconds(16, 4).forward, 4e-3 + 1.6e-3, 1e-9);  // fixed time 4 times
  EXPECT_NEAR(model.seconds(16, 4).rest, 2e-3, 1e-9);
  EXPECT_NEAR(model.scatter_s(), sigma * 1e-3, 1e-9);
  EXPECT_NEAR(model.error(), 0, 1e-6);
}

TEST(ComputeModel, KnowsOnlyTheShareThatWasMeasured) {
  const ComputeModel model(step_parts({measured(1, 32, 0, 0), measured(2, 64, 0, 0)}, 4));
  EXPECT_NEAR(model.seconds(32).forward, 4.2e-3, 1e-9);
  EXPECT_NEAR(model.seconds(128, 4).forward, 4 * 4.2e-3, 1e-9);
  EXPECT_TRUE(says(message_of<InputError>([&] { static_cast<void>(model.seconds(16)); }),
                   "all sizes of the fit had 32"));
}

/// A bucket of 1 MB that is ready at half of backward, and one of 2 MB at its end.
GradientPlan two_buckets(const Variant& variant, int /*ranks*/, std::int64_t /*samples*/) {
  const double times = variant.name == "half" ? 0.5 : 1;
  return {.rounds = {{{0.5, times * 1e6}, {1, times * 2e6}}}};
}

PredictionInput study_of(const std::vector<int>& ranks) {
  PredictionInput input;
  for (const int one : ranks) {
    const double late = 0.25 * expected_maximum(one);
    input.results.push_back(measured(one, 128, late, late));
    input.benchmarks.push_back(benchmark(one, 1, 1e9));
  }
  input.benchmarks.erase(0);
  input.fit = {1, 2, 4};
  input.places = 8;
  input.rehearse = two_buckets;
  return input;
}

TEST(Prediction, AHeldOutSizeIsPredictedFromTheOthers) {
  const auto input = study_of({1, 2, 4, 8});
  const Prediction prediction = predict(input, {});
  EXPECT_EQ(prediction.fit, (std::vector<int>{1, 2, 4}));
  ASSERT_EQ(prediction.sizes.size(), 4U);
  const Predicted& held = prediction.sizes[3];
  ASSERT_EQ(held.failed, "");
  EXPECT_TRUE(held.is_held_out);
  EXPECT_FALSE(prediction.sizes[2].is_held_out);
  const auto cost = [](double bytes) {
    return formula(Algorithm::halving, Collective::all_reduce, 8, bytes, 2e-6, 1e-6, 1e10);
  };
  EXPECT_NEAR(held.compute_ms, 3 * 2.6 + 2, 1e-6);
  EXPECT_NEAR(held.exposed_ms, 1e3 * (cost(1e6) + cost(2e6)), 1e-6);  // the ranks' own work
  EXPECT_NEAR(held.straggler_ms, 0.25 * expected_maximum(8), 1e-6);
  EXPECT_NEAR(held.step_ms, held.compute_ms + held.exposed_ms + held.straggler_ms, 1e-9);
  EXPECT_NEAR(held.error(), held.exposed_ms / held.measured_ms, 1e-6);  // nobody measured it there
  EXPECT_TRUE(says(table(prediction), "held out"));
  EXPECT_EQ(prediction.json().at("sizes").at(3).at("held_out"), true);
  EXPECT_TRUE(prediction.json().at("sizes").at(3).contains("error"));
}

TEST(Prediction, ReachesManyNodesOnAnAssumedNetwork) {
  auto input = study_of({1, 2, 4, 8});
  input.mode = Mode::weak;  // of one share: 128 samples a rank
  for (Result& result : input.results) result = measured(result.ranks, 128 * result.ranks, 0, 0);
  input.predict = {4096};
  EXPECT_TRUE(says(predict(input, {}).sizes[4].failed, "--network"));
  input.network = {2, 1};
  const Predicted many = predict(input, {}).sizes[4];
  ASSERT_EQ(many.failed, "");
  EXPECT_EQ(many.nodes, 512);
  EXPECT_EQ(many.batch_size, 128 * 4096);
  const auto link = CollectiveModel::assumed(Collective::all_reduce, 2e-6, 1e9);
  const double backward = 2 * (1e-3 + 128e-4);
  const auto own = [](double bytes) {
    return formula(Algorithm::halving, Collective::all_reduce, 8, bytes, 2e-6, 1e-6, 1e10);
  };
  const Overlap expected = overlap(backward, {{{backward / 2, own(1e6), link.seconds(512, 1e6)},
                                               {backward, own(2e6), link.seconds(512, 2e6)}}});
  EXPECT_NEAR(many.exposed_ms, 1e3 * expected.exposed_s, 1e-6);
  ASSERT_FALSE(many.notes.empty());
  EXPECT_TRUE(says(many.notes.front(), "8 ranks a node, and 4 at most in the fit"));
  EXPECT_TRUE(says(many.notes.back(), "--network"));
  input.ranks_a_node = 4096;
  EXPECT_EQ(predict(input, {}).sizes[4].nodes, 1);
}

TEST(Prediction, RefusesSizesWithoutSamplesOrMeasurements) {
  auto input = study_of({1, 2, 4});
  input.predict = {256};
  EXPECT_TRUE(says(predict(input, {}).sizes[3].failed, "no sample for each of 256 ranks"));
  input.fit = {1, 16};
  EXPECT_TRUE(says(message_of<InputError>([&] { static_cast<void>(predict(input, {})); }),
                   "--fit 16: that number of ranks was not measured"));
  input.fit = {1};
  EXPECT_TRUE(says(predict(input, {}).sizes[1].failed, "all sizes of the fit had 128"));
  input.fit = {1, 2, 4};
  input.benchmarks = Json::array();
  EXPECT_TRUE(says(predict(input, {}).sizes[1].failed, "no all_reduce within a node was measured"));
  for (Result& result : input.results) result.failed = "killed";
  input.fit.clear();
  EXPECT_TRUE(says(message_of<InputError>([&] { static_cast<void>(predict(input, {})); }),
                   "no size was measured"));
}

// 4 ranks on places for 2: each takes twice as long, and does not wait besides.
TEST(Prediction, DividesAMachineWithMoreRanksThanCores) {
  auto input = study_of({1, 2, 4});
  input.places = 2;
  input.fit.clear();
  Result& crowded = input.results[2];
  crowded.oversubscribed = true;
  const Prediction prediction = predict(input, {});
  EXPECT_EQ(prediction.fit, (std::vector<int>{1, 2}));  // 4 is left out by itself
  const Predicted& four = prediction.sizes[2];
  EXPECT_TRUE(four.is_held_out);
  EXPECT_NEAR(four.compute_ms, 2 * (3 * 4.2 + 2), 1e-6);
  EXPECT_EQ(four.straggler_ms, 0);
  ASSERT_FALSE(four.notes.empty());
  EXPECT_TRUE(says(table(prediction), "2 ranks for the cores of one"));
  EXPECT_TRUE(says(table(prediction), "too few to tell how good the fit is"));
  // Named, it is taken, divided by two, and that is said.
  input.fit = {1, 2, 4};
  Interval& all = crowded.intervals.front();
  all.forward *= 2;
  all.backward *= 2;
  all.compute *= 2;
  all.late = 0;
  const Prediction named = predict(input, {});
  EXPECT_NEAR(named.sizes[0].compute_ms, 3 * 13.8 + 2, 1e-6);
  EXPECT_TRUE(says(table(named), "is not that of a rank with cores of its own"));
}

TEST(Prediction, ChangesThatWouldHelpAreATableBestFirst) {
  const auto input = study_of({1, 2, 4});
  const std::vector<Variant> variants{
      {.name = "half", .settings = {"ddp.comm_hook=\"bf16_compress\""}},
      {.name = "double batch", .settings = {"train.batch_size=256"}, .batch = 2},
      {.name = "network", .bandwidth = 4}};
  const Prediction prediction = predict(input, variants);
  EXPECT_EQ(prediction.advice_ranks, 4);
  ASSERT_EQ(prediction.advice.size(), 2U);  // one node has no network
  EXPECT_EQ(prediction.advice[0].variant.name, "double batch");
  EXPECT_EQ(prediction.advice[1].variant.name, "half");
  const auto step_ms = [](double share, double bytes) {
    return 3 * (1 + 0.1 * share) + 2 + 0.25 * expected_maximum(4) +
           1e3 * (2 * (2e-6 + 4e-6) + 1.5 * 3 * bytes / 1e10);
  };
  EXPECT_NEAR(prediction.advice[1].gain, step_ms(32, 1e6) / step_ms(32, 0.5e6) - 1, 1e-6);
  EXPECT_NEAR(prediction.advice[0].gain, 2 * step_ms(32, 1e6) / step_ms(64, 1e6) - 1, 1e-6);
  EXPECT_TRUE(says(table(prediction), "--set train.batch_size=256"));
  const auto usual = usual_variants(25 << 20, 128, 2);
  EXPECT_EQ(usual[4].settings,
            (std::vector<std::string>{"train.batch_size=512", "train.accumulate=8"}));
}

train::RunPlan plan_of(const std::vector<std::string>& settings) {
  auto deck = Deck::parse("", "model", settings);
  return train::read_run_plan(deck);
}

TEST(Rehearsal, SendsTheRealBucketsOfAnyNumberOfRanks) {
  auto deck = Deck::parse("[data]\nkind = \"synthetic\"\nsynthetic_samples = 100\n", "model",
                          {"model.kind=\"mlp\"", "model.hidden=[64]"});
  const train::Classification task(deck);
  const auto bytes_of = [](const GradientPlan& plan, std::size_t round) {
    double bytes = 0;
    for (const auto& message : plan.rounds.at(round)) bytes += message.bytes;
    return bytes;
  };
  const std::vector<std::string> small{"ddp.bucket_bytes=1024", "ddp.first_bucket_bytes=1024"};
  const GradientPlan plain = rehearse(task, plan_of({}), 4096, 3);
  ASSERT_EQ(plain.rounds.size(), 1U);
  EXPECT_EQ(plain.rounds[0].size(), 1U);  // less than 1 MiB
  const GradientPlan many = rehearse(task, plan_of(small), 64, 3);
  ASSERT_EQ(many.rounds.size(), 1U);
  EXPECT_GT(many.rounds[0].size(), 2U);
  double before = 0;
  for (const auto& message : many.rounds[0]) {
    EXPECT_GE(message.ready, before);
    EXPECT_LE(message.ready, 1);
    before = message.ready;
  }
  const GradientPlan half = rehearse(task, plan_of({"ddp.comm_hook=\"bf16_compress\""}), 8, 3);
  EXPECT_EQ(2 * bytes_of(half, 0), bytes_of(plain, 0));
  const GradientPlan thin =
      rehearse(task, plan_of({"ddp.comm_hook=\"power_sgd\"", "ddp.power_sgd_start_step=0"}), 8, 3);
  ASSERT_EQ(thin.rounds.size(), 2U);
  EXPECT_LT(bytes_of(thin, 0) + bytes_of(thin, 1), bytes_of(plain, 0) / 4);
  EXPECT_GT(thin.hook_after, 0);
  for (const char* setting :
       {"ddp.comm_hook=\"post_local_sgd\"", "ddp.broadcast_buffers_each_forward=true", "mesh.tp=2",
        "train.zero=3"}) {
    EXPECT_TRUE(says(message_of<InputError>(
                         [&] { static_cast<void>(rehearse(task, plan_of({setting}), 8, 3)); }),
                     "is not modelled"))
        << setting;
  }
}

}  // namespace
}  // namespace lockstep::scaling
