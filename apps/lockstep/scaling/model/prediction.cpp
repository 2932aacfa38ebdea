#include "scaling/model/prediction.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include <lockstep/base/error.hpp>

#include "scaling/model/stragglers.hpp"
#include "scaling/model/timeline.hpp"

namespace lockstep::scaling {
namespace {

bool holds(const std::vector<int>& ranks, int one) {
  return std::ranges::find(ranks, one) != ranks.end();
}

/// A size as the model sees it.
struct Size {
  int ranks = 1, nodes = 1;
  std::int64_t batch_size = 1;
  double crowding = 1;
};

/// Sizes that the fit takes. Throws InputError: there are none, or others are named.
std::vector<StepParts> sizes_of_fit(const PredictionInput& input,
                                    const std::vector<StepParts>& measured) {
  std::vector<StepParts> sizes;
  for (const int ranks : input.fit) {
    if (std::ranges::none_of(measured, [&](const StepParts& one) { return one.ranks == ranks; }))
      throw InputError(fmt::format("--fit {}: that number of ranks was not measured", ranks));
  }
  const bool any_alone =
      std::ranges::any_of(measured, [](const StepParts& one) { return one.crowding <= 1; });
  for (const StepParts& one : measured) {
    const bool is_wanted =
        input.fit.empty() ? one.crowding <= 1 || !any_alone : holds(input.fit, one.ranks);
    if (is_wanted) sizes.push_back(one);
  }
  if (sizes.empty()) throw InputError("nothing can be predicted: no size was measured");
  return sizes;
}

class Predictor {
 public:
  Predictor(const PredictionInput& input, const std::vector<StepParts>& fit)
      : input_(input), compute_(fit) {
    for (const StepParts& one : fit) {
      if (!holds(ranks_, one.ranks)) ranks_.push_back(one.ranks);
    }
    network_.in_node = fit_level(Level::in_node, input.benchmarks, ranks_, Collective::all_reduce);
    if (!input.network.empty()) {
      network_.between_nodes = CollectiveModel::assumed(
          Collective::all_reduce, 1e-6 * input.network.at(0), 1e9 * input.network.at(1));
    } else {
      network_.between_nodes = fit_level(Level::between_nodes, input.benchmarks, ranks_,
                                         Collective::all_reduce, network_.in_node);
    }
  }

  [[nodiscard]] const std::vector<int>& ranks() const noexcept { return ranks_; }
  [[nodiscard]] const ComputeModel& compute() const noexcept { return compute_; }
  [[nodiscard]] const Network& network() const noexcept { return network_; }

  /// Throws InputError.
  [[nodiscard]] Predicted predict(const Size& size, const Variant& variant) const {
    const double batch = variant.batch * static_cast<double>(size.batch_size);
    const double share = batch / size.ranks;
    if (share < 1) {
      throw InputError(
          fmt::format("a batch of {:.0f} has no sample for each of {} ranks", batch, size.ranks));
    }
    // The last rank has the largest share.
    const double samples = input_.mode == Mode::weak ? share : std::ceil(share);
    const double parts = static_cast<double>(input_.accumulate) * variant.parts;
    const auto own = compute_.seconds(samples, variant.parts);
    const auto a_part = static_cast<std::int64_t>(std::ceil(share / parts));
    const GradientPlan plan = input_.rehearse(variant, size.ranks, a_part);
    const double last = size.crowding * own.backward / parts;
    Network network = network_;
    if (network.between_nodes)
      network.between_nodes = network.between_nodes->with_bandwidth(variant.bandwidth);
    std::vector<std::vector<Transfer>> rounds;
    for (const auto& round : plan.rounds) {
      auto& transfers = rounds.emplace_back();
      for (const GradientPlan::Message& message : round) {
        const Network::Cost cost = network.all_reduce(size.ranks, size.nodes, message.bytes);
        transfers.push_back({message.ready * last, size.crowding * cost.own_s, cost.link_s});
      }
    }
    double hook = plan.hook_after;
    if (!variant.name.empty()) {
      const GradientPlan plain = input_.rehearse({}, size.ranks, a_part);
      hook += std::max(0.0, plan.hook_within - plain.hook_within);
    }
    const double compute = size.crowding * (own.forward + own.backward + own.rest) + hook * last;
    const double exposed = overlap(last, rounds).exposed_s;
    const double straggler =
        size.crowding > 1 ? 0 : compute_.scatter_s() * expected_maximum(size.ranks);
    const double step = compute + exposed + straggler;
    Predicted predicted{.ranks = size.ranks,
                        .nodes = size.nodes,
                        .batch_size = static_cast<std::int64_t>(batch),
                        .step_ms = 1e3 * step,
                        .compute_ms = 1e3 * compute,
                        .exposed_ms = 1e3 * exposed,
                        .straggler_ms = 1e3 * straggler,
                        .samples_per_s = batch / step};
    add_notes(predicted, share, size.crowding);
    return predicted;
  }

 private:
  void add_notes(Predicted& predicted, double share, double crowding) const {
    if (share < compute_.least_share() * (1 - 1e-9) || share > compute_.most_share() * (1 + 1e-9)) {
      predicted.notes.push_back(
          fmt::format("{:.6g} samples a rank, and {:.6g} to {:.6g} in the fit", share,
                      compute_.least_share(), compute_.most_share()));
    }
    if (crowding > 1) {
      predicted.notes.push_back(fmt::format(
          "{:.3g} ranks for the cores of one: compute is that many times longer", crowding));
    }
    const int on_a_node = (predicted.ranks + predicted.nodes - 1) / predicted.nodes;
    const auto beyond = [&](const std::optional<CollectiveModel>& level, int count,
                            const char* what) {
      if (count <= 1 || !level || level->measured_ranks().empty()) return;
      const int most = level->measured_ranks().back();
      if (count > most)
        predicted.notes.push_back(
            fmt::format("{} {}, and {} at most in the fit", count, what, most));
    };
    beyond(network_.in_node, on_a_node, "ranks a node");
    beyond(network_.between_nodes, predicted.nodes, "nodes");
    if (predicted.nodes > 1 && !input_.network.empty())
      predicted.notes.emplace_back("the network is the one of --network");
  }

  const PredictionInput& input_;
  ComputeModel compute_;
  Network network_;
  std::vector<int> ranks_;
};

Predicted predicted_or_why(const Predictor& predictor, const Size& size) {
  try {
    return predictor.predict(size, {});
  } catch (const InputError& error) {
    return {.ranks = size.ranks,
            .nodes = size.nodes,
            .batch_size = size.batch_size,
            .failed = error.what()};
  }
}

Size size_of(const StepParts& measured) {
  return {measured.ranks, measured.nodes, measured.batch_size, measured.crowding};
}

Json model_json(const PredictionInput& input, const Predictor& predictor) {
  Json json{{"compute", predictor.compute().json()}};
  Json in_node = Json::array(), between = Json::array();
  for (const Collective kind : collectives) {
    const auto inside = fit_level(Level::in_node, input.benchmarks, predictor.ranks(), kind);
    const auto outside =
        fit_level(Level::between_nodes, input.benchmarks, predictor.ranks(), kind, inside);
    if (inside) in_node.push_back(inside->json());
    if (outside) between.push_back(outside->json());
  }
  json["in_node"] = std::move(in_node);
  json["between_nodes"] = std::move(between);
  if (!input.network.empty())
    json["assumed_network"] = {{"latency_us", input.network[0]}, {"gb_per_s", input.network[1]}};
  return json;
}

std::vector<std::string> notes_of(const std::vector<StepParts>& fit, const Predictor& predictor) {
  std::vector<std::string> notes;
  if (std::ranges::any_of(fit, [](const StepParts& one) { return one.crowding > 1; })) {
    notes.emplace_back(
        "the fit has sizes with more ranks than cores: their compute time is not that of a rank "
        "with cores of its own, and was divided by the ranks for each; predictions of sizes with "
        "enough cores can be wrong by the error of that division");
  }
  if (fit.size() < 3) {
    notes.push_back(
        fmt::format("compute time is fitted to {} size(s), too few to tell how good the fit is: "
                    "only a held-out "
                    "size does",
                    fit.size()));
  }
  if (!predictor.compute().knows_scatter()) {
    notes.emplace_back(
        "no size of two ranks or more on cores of their own: late ranks are not in the prediction");
  }
  const auto few = [&](const std::optional<CollectiveModel>& level, const char* what) {
    const std::size_t counts = level ? level->measured_ranks().size() : 0;
    if (counts == 1) {
      notes.push_back(fmt::format(
          "collectives {} were measured for one number only ({}): how latency grows with it is not "
          "known, and it is taken not to",
          what, level->measured_ranks().front()));
    } else if (counts == 2) {
      notes.push_back(fmt::format(
          "collectives {} were measured for two numbers only ({}): a ring fits them as well as "
          "halving does, which is taken",
          what, fmt::join(level->measured_ranks(), ", ")));
    }
  };
  few(predictor.network().in_node, "in a node");
  few(predictor.network().between_nodes, "between nodes");
  return notes;
}

/// The gain of a change at one size; throws InputError.
double gain(const Predictor& predictor, const Size& size, const Variant& variant) {
  return predictor.predict(size, variant).samples_per_s /
             predictor.predict(size, {}).samples_per_s -
         1;
}

}  // namespace

std::vector<Variant> usual_variants(std::int64_t bucket_bytes, std::int64_t batch_size,
                                    std::int64_t accumulate) {
  constexpr int times = 4;
  std::vector<Variant> variants;
  for (const std::int64_t bytes : {bucket_bytes / times, bucket_bytes * times}) {
    if (bytes < 1) continue;
    variants.push_back({.name = fmt::format("buckets of {} bytes", bytes),
                        .settings = {fmt::format("ddp.bucket_bytes={}", bytes),
                                     fmt::format("ddp.first_bucket_bytes={}", bytes)}});
  }
  variants.push_back(
      {.name = "gradients as bf16", .settings = {"ddp.comm_hook=\"bf16_compress\""}});
  variants.push_back({.name = "PowerSGD of rank 1",
                      .settings = {"ddp.comm_hook=\"power_sgd\"", "ddp.power_sgd_start_step=0"}});
  variants.push_back({.name = "4 times the batch, accumulated",
                      .settings = {fmt::format("train.batch_size={}", times * batch_size),
                                   fmt::format("train.accumulate={}", times * accumulate)},
                      .batch = times,
                      .parts = times});
  variants.push_back({.name = "4 times the batch",
                      .settings = {fmt::format("train.batch_size={}", times * batch_size)},
                      .batch = times});
  variants.push_back({.name = "4 times the bandwidth between nodes", .bandwidth = times});
  return variants;
}

Prediction predict(const PredictionInput& input, const std::vector<Variant>& variants) {
  const std::vector<StepParts> measured = step_parts(input.results, input.places);
  const std::vector<StepParts> fit = sizes_of_fit(input, measured);
  const Predictor predictor(input, fit);
  Prediction prediction{.fit = predictor.ranks(),
                        .model = model_json(input, predictor),
                        .notes = notes_of(fit, predictor)};
  std::optional<Size> largest, largest_measured;
  for (const StepParts& one : measured) {
    Predicted predicted = predicted_or_why(predictor, size_of(one));
    predicted.measured_ms = 1e3 * one.step;
    predicted.is_held_out = !holds(predictor.ranks(), one.ranks);
    const bool is_good = predicted.failed.empty() && one.crowding <= 1;
    if (is_good && (!largest_measured || one.ranks > largest_measured->ranks))
      largest_measured = size_of(one);
    prediction.sizes.push_back(std::move(predicted));
  }
  const StepParts& fewest = *std::ranges::min_element(measured, {}, &StepParts::ranks);
  const int on_a_node = std::max(1, input.ranks_a_node > 0 ? input.ranks_a_node : input.places);
  for (const int ranks : input.predict) {
    if (std::ranges::any_of(measured, [&](const StepParts& one) { return one.ranks == ranks; }))
      continue;
    Size size{.ranks = ranks,
              .nodes = (ranks + on_a_node - 1) / on_a_node,
              .batch_size = fewest.batch_size};
    if (input.mode == Mode::weak) size.batch_size = fewest.batch_size * ranks / fewest.ranks;
    Predicted predicted = predicted_or_why(predictor, size);
    if (predicted.failed.empty() && (!largest || ranks > largest->ranks)) largest = size;
    prediction.sizes.push_back(std::move(predicted));
  }
  if (!largest) largest = largest_measured;
  if (!largest) return prediction;
  prediction.advice_ranks = largest->ranks;
  if (largest_measured) {
    prediction.advice_measured_ranks = largest_measured->ranks;
    prediction.advice_measured_nodes = largest_measured->nodes;
  }
  for (const Variant& variant : variants) {
    if (variant.bandwidth != 1 && largest->nodes == 1) continue;
    Advice advice{.variant = variant};
    try {
      advice.gain = gain(predictor, *largest, variant);
      if (largest_measured) advice.gain_measured = gain(predictor, *largest_measured, variant);
    } catch (const InputError& error) {
      advice.failed = error.what();
    }
    prediction.advice.push_back(std::move(advice));
  }
  std::ranges::stable_sort(prediction.advice, [](const Advice& a, const Advice& b) {
    if (a.failed.empty() != b.failed.empty()) return a.failed.empty();
    return a.gain > b.gain;
  });
  return prediction;
}

Json Predicted::json() const {
  Json json{{"ranks", ranks}, {"nodes", nodes}, {"batch_size", batch_size}};
  if (measured_ms > 0) {
    json["measured_step_ms"] = measured_ms;
    json["held_out"] = is_held_out;
  }
  if (!failed.empty()) {
    json["failed"] = failed;
    return json;
  }
  json["step_ms"] = step_ms;
  json["samples_per_s"] = samples_per_s;
  json["compute_ms"] = compute_ms;
  json["exposed_communication_ms"] = exposed_ms;
  json["waiting_for_late_ranks_ms"] = straggler_ms;
  if (measured_ms > 0) json["error"] = error();
  json["notes"] = notes;
  return json;
}

Json Advice::json() const {
  Json json{{"change", variant.name}, {"settings", variant.settings}};
  if (!failed.empty()) {
    json["failed"] = failed;
    return json;
  }
  json["batch_times"] = variant.batch;
  json["gain"] = gain;
  json["gain_at_measured_size"] = gain_measured;
  return json;
}

Json Prediction::json() const {
  Json json{{"fit_ranks", fit}, {"model", model}, {"sizes", Json::array()}};
  for (const Predicted& one : sizes) json["sizes"].push_back(one.json());
  json["advice_ranks"] = advice_ranks;
  json["advice_measured_ranks"] = advice_measured_ranks;
  json["advice_measured_nodes"] = advice_measured_nodes;
  json["advice"] = Json::array();
  for (const Advice& one : advice) json["advice"].push_back(one.json());
  json["notes"] = notes;
  return json;
}

namespace {

std::string compute_line(const Json& model) {
  const auto part = [&](const char* name) {
    const Json& one = model.at(name);
    return fmt::format("{:.3f} + {:.5f} s", one.at("fixed").get<double>(),
                       one.at("a_sample").get<double>());
  };
  const Json& scatter = model.at("scatter_ms");
  return fmt::format(
      "  ms of s samples: forward {}, backward {}, rest {}; within {:.0f} %\n"
      "  scatter of a rank's step: {}\n",
      part("forward_ms"), part("backward_ms"), part("rest_ms"),
      1e2 * model.at("error").get<double>(),
      scatter.is_null() ? "not known" : fmt::format("{:.3f} ms", scatter.get<double>()));
}

std::string collective_lines(const Json& models, const char* where) {
  std::string text;
  for (const Json& one : models) {
    const Json& speed = one.at("gb_per_s");
    text += fmt::format(
        "  {:<14} {:<15} {:<8} {:>9.2f} us + {:>7.2f} us a round, {:>8} GB/s; line within {:.0f} "
        "%, "
        "corrected {:.0f} %\n",
        where, one.at("op").get<std::string>(), one.at("algorithm").get<std::string>(),
        one.at("overhead_us").get<double>(), one.at("latency_us").get<double>(),
        speed.is_null() ? "no limit" : fmt::format("{:.2f}", speed.get<double>()),
        1e2 * one.at("line_error").get<double>(), 1e2 * one.at("error").get<double>());
  }
  return text;
}

}  // namespace

std::string table(const Prediction& prediction) {
  std::string text = fmt::format("predicted from {} rank{}\n", fmt::join(prediction.fit, ", "),
                                 prediction.fit == std::vector<int>{1} ? "" : "s");
  text += compute_line(prediction.model.at("compute"));
  text += collective_lines(prediction.model.at("in_node"), "in a node");
  text += collective_lines(prediction.model.at("between_nodes"), "between nodes");
  text += fmt::format("{:>6} {:>5} {:>7} {:>10} {:>9} {:>9} {:>9} {:>11} {:>10} {:>7}\n", "ranks",
                      "nodes", "batch", "ms a step", "compute", "exposed", "late rank", "samples/s",
                      "measured", "error");
  std::vector<std::string> notes;
  for (const Predicted& one : prediction.sizes) {
    if (!one.failed.empty()) {
      text += fmt::format("{:>6} {:>5} {:>7} not predicted: {}\n", one.ranks, one.nodes,
                          one.batch_size, one.failed);
      continue;
    }
    text += fmt::format("{:>6} {:>5} {:>7} {:>10.3f} {:>9.3f} {:>9.3f} {:>9.3f} {:>11.0f}",
                        one.ranks, one.nodes, one.batch_size, one.step_ms, one.compute_ms,
                        one.exposed_ms, one.straggler_ms, one.samples_per_s);
    if (one.measured_ms > 0) {
      text += fmt::format(" {:>10.3f} {:>+5.0f} % {}", one.measured_ms, 1e2 * one.error(),
                          one.is_held_out ? "held out" : "of the fit");
    }
    text += '\n';
    for (const std::string& note : one.notes)
      notes.push_back(fmt::format("{} ranks: {}", one.ranks, note));
  }
  notes.insert(notes.begin(), prediction.notes.begin(), prediction.notes.end());
  for (const std::string& note : notes) text += "  " + note + "\n";
  if (prediction.advice.empty()) return text;
  text += fmt::format("what would help: samples/s on {} ranks", prediction.advice_ranks);
  const bool both = prediction.advice_measured_ranks > 0 &&
                    prediction.advice_measured_ranks != prediction.advice_ranks;
  text += both ? fmt::format(" (and on {})\n", prediction.advice_measured_ranks) : "\n";
  for (const Advice& one : prediction.advice) {
    if (!one.failed.empty()) {
      text += fmt::format("  {:<38} not predicted: {}\n", one.variant.name, one.failed);
      continue;
    }
    text += fmt::format("  {:<38} {:>+6.1f} %", one.variant.name, 1e2 * one.gain);
    if (both) text += fmt::format(" ({:+.1f} %)", 1e2 * one.gain_measured);
    text += one.variant.settings.empty()
                ? "\n"
                : fmt::format("  --set {}\n", fmt::join(one.variant.settings, " --set "));
  }
  return text;
}

}  // namespace lockstep::scaling
