#include "prediction_section.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string>

namespace lockstep::report {
namespace {

using scaling::Json;

std::string text_of(const Json& one, const char* key) { return one.value(key, std::string()); }

std::string in_ms(const Json& one, const char* key) {
  return one.contains(key) ? fmt::format("{:.3f}", one.at(key).get<double>()) : "";
}

std::string in_percent(const Json& one, const char* key) {
  return one.contains(key) ? fmt::format("{:+.1f} %", 1e2 * one.at(key).get<double>()) : "";
}

std::string kind_of(const Json& size) {
  if (!size.contains("held_out")) return "";
  return size.at("held_out").get<bool>() ? "held out" : "of the fit";
}

Table sizes_table(const Json& sizes) {
  Table table{
      .head = {"ranks", "nodes", "batch", "predicted ms a step", "compute", "exposed communication",
               "waiting for late ranks", "samples/s", "measured ms a step", "error", ""},
      .rows = {}};
  for (const Json& one : sizes) {
    Table::Row row{{std::to_string(one.at("ranks").get<int>()),
                    std::to_string(one.at("nodes").get<int>()),
                    std::to_string(one.at("batch_size").get<std::int64_t>())}};
    if (one.contains("failed")) {
      row.cells.push_back("not predicted: " + text_of(one, "failed"));
      row.is_marked = true;
    } else {
      for (const char* key :
           {"step_ms", "compute_ms", "exposed_communication_ms", "waiting_for_late_ranks_ms"})
        row.cells.push_back(in_ms(one, key));
      row.cells.push_back(fmt::format("{:.0f}", one.at("samples_per_s").get<double>()));
      row.cells.push_back(in_ms(one, "measured_step_ms"));
      row.cells.push_back(in_percent(one, "error"));
      row.cells.push_back(kind_of(one));
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Table advice_table(const Json& prediction) {
  Table table{.head = {fmt::format("what would help: samples/s on {} ranks",
                                   prediction.at("advice_ranks").get<int>()),
                       "predicted gain", "settings"},
              .rows = {}};
  for (const Json& one : prediction.at("advice")) {
    if (one.contains("failed")) {
      table.rows.push_back(
          {{text_of(one, "change"), "not known: " + text_of(one, "failed")}, true});
    } else {
      const auto settings = one.at("settings").get<std::vector<std::string>>();
      table.rows.push_back({{text_of(one, "change"), in_percent(one, "gain"),
                             fmt::format("{}", fmt::join(settings, " "))}});
    }
  }
  return table;
}

Chart steps_chart(const std::string& study, const Json& sizes) {
  Curve predicted, measured;
  for (const Json& one : sizes) {
    const double ranks = one.at("ranks").get<double>();
    if (one.contains("step_ms")) predicted.add(ranks, one.at("step_ms").get<double>());
    if (one.contains("measured_step_ms"))
      measured.add(ranks, one.at("measured_step_ms").get<double>());
  }
  return {.title = study + ": time of a step",
          .x = "ranks",
          .y = "ms",
          .series = {{"measured", 0, Style::dots, measured},
                     {"predicted", 1, Style::dashed, predicted}},
          .log_x = true,
          .from_zero = true};
}

void add_prediction(Section& section, const ScalingStudy& study) {
  const Json& prediction = study.prediction;
  if (prediction.contains("failed")) {
    section.text.push_back(
        fmt::format("{}: no prediction: {}.", study.name, text_of(prediction, "failed")));
    return;
  }
  const auto fit = prediction.at("fit_ranks").get<std::vector<int>>();
  section.text.push_back(fmt::format(
      "{}: a model fitted to {} ranks. Look at the error of the sizes that were held out.",
      study.name, fmt::join(fit, ", ")));
  for (const Json& note : prediction.at("notes"))
    section.text.push_back(fmt::format("{}: {}.", study.name, note.get<std::string>()));
  section.charts.push_back(steps_chart(study.name, prediction.at("sizes")));
  section.tables.push_back(sizes_table(prediction.at("sizes")));
  if (!prediction.at("advice").empty()) section.tables.push_back(advice_table(prediction));
}

}  // namespace

void add_predictions(Page& page, const std::vector<ScalingStudy>& studies) {
  Section section{.title = "Prediction"};
  for (const ScalingStudy& study : studies) {
    if (!study.prediction.is_object()) continue;
    Section one;
    try {
      add_prediction(one, study);
    } catch (const Json::exception&) {
      page.notes.push_back(
          fmt::format("The prediction of {} is in a form that is not known here.", study.name));
      continue;
    }
    section.text.insert(section.text.end(), one.text.begin(), one.text.end());
    section.charts.insert(section.charts.end(), one.charts.begin(), one.charts.end());
    section.tables.insert(section.tables.end(), one.tables.begin(), one.tables.end());
  }
  if (!section.text.empty()) page.sections.push_back(std::move(section));
}

}  // namespace lockstep::report
