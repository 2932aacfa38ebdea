#include "tried.hpp"

#include <fmt/format.h>

#include <filesystem>

#include <lockstep/base/error.hpp>
#include <lockstep/base/hash.hpp>
#include <lockstep/io/atomic_file.hpp>
#include <lockstep/train/report/standard_output.hpp>

#include "store.hpp"

namespace lockstep::scaling {
namespace fs = std::filesystem;
namespace {

Json study_in(const std::string& folder) {
  return read_study_file(fs::path(folder) / "scaling.json");
}

const Json& size_of(const Json& study, int ranks, int nodes) {
  for (const Json& size : study.at("sizes")) {
    if (size.at("ranks") == ranks && size.at("nodes") == nodes && size.at("repeats") > 0)
      return size;
  }
  throw InputError(fmt::format("{} ranks on {} node(s) were not measured", ranks, nodes));
}

}  // namespace

std::optional<Trial> best_trial(const Options& options) {
  const Json study = study_in(options.output);
  const Json& prediction = study.at("prediction");
  const int ranks = prediction.value("advice_measured_ranks", 0);
  const Json* best = nullptr;
  double gain = 0;
  if (ranks > 0) {
    for (const Json& advice : prediction.at("advice")) {
      if (advice.contains("failed") || advice.at("settings").empty()) continue;
      if (advice.at("gain_at_measured_size") <= gain) continue;
      gain = advice.at("gain_at_measured_size").get<double>();
      best = &advice;
    }
  }
  if (!best) {
    train::write_stdout("no change of the deck is predicted to help at a measured size\n");
    return std::nullopt;
  }
  const int nodes = prediction.at("advice_measured_nodes").get<int>();
  const Json& size = size_of(study, ranks, nodes);
  Trial trial{.change = best->at("change"), .ranks = ranks, .predicted = gain, .options = options};
  Options& own = trial.options;
  for (const Json& setting : best->at("settings")) own.overrides.push_back(setting);
  const double batch = best->at("batch_times").get<double>() * size.at("batch_size").get<double>();
  own.overrides.push_back(fmt::format("train.batch_size={:.0f}", batch));
  own.mode = Mode::strong;
  own.ranks = {ranks};
  own.nodes = {nodes};
  own.benchmarks = own.try_best = false;
  own.predict.clear();
  own.fit.clear();
  own.output = (fs::path(options.output) /
                ("tried_" + to_hex(hash64(trial.change.data(), trial.change.size()))))
                   .string();
  return trial;
}

std::string note_trial(const Options& options, const Trial& trial) {
  const auto speed = [&](const Json& study) {
    return size_of(study, trial.ranks, trial.options.nodes.at(0))
        .at("samples_per_s")
        .at("median")
        .get<double>();
  };
  Json study = study_in(options.output);
  const double gain = speed(study_in(trial.options.output)) / speed(study) - 1;
  study["prediction"]["tried"] = {{"change", trial.change},
                                  {"ranks", trial.ranks},
                                  {"predicted_gain", trial.predicted},
                                  {"measured_gain", gain},
                                  {"folder", fs::path(trial.options.output).filename().string()}};
  write_atomically(fs::path(options.output) / "scaling.json", text_of(study));
  return fmt::format("{}, on {} rank(s): {:+.1f} % predicted, {:+.1f} % measured\n", trial.change,
                     trial.ranks, 1e2 * trial.predicted, 1e2 * gain);
}

}  // namespace lockstep::scaling
