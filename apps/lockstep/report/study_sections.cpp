#include "study_sections.hpp"

#include <fmt/format.h>

#include <algorithm>

#include <lockstep/base/error.hpp>

#include "prediction_section.hpp"
#include "scaling/store.hpp"

namespace lockstep::report {
namespace fs = std::filesystem;
namespace {

using scaling::Figures;

std::string with_spread(const scaling::Scatter& scatter) {
  return fmt::format("{:.3f} ({:.3f} to {:.3f})", scatter.median, scatter.min, scatter.max);
}

/// The study's name, where there are several.
std::string label_of(const std::vector<ScalingStudy>& studies, std::size_t i, const char* name) {
  return studies.size() == 1 ? name : fmt::format("{}, {}", studies[i].name, name);
}

void add_table(Section& section, const ScalingStudy& study, const std::vector<Figures>& sizes) {
  Table table{.head = {"ranks", "nodes", "batch", "ms a step: median (least to most)", "samples/s",
                       "speed-up", "efficiency", "exposed communication, ms",
                       "waiting for late ranks, ms", "data, ms", "MiB a rank"},
              .rows = {}};
  bool is_crowded = false;
  for (const Figures& one : sizes) {
    Table::Row row{{std::to_string(one.ranks) + (one.oversubscribed ? " *" : ""),
                    std::to_string(one.nodes), std::to_string(one.batch_size)}};
    is_crowded = is_crowded || one.oversubscribed;
    if (one.repeats == 0) {
      row.cells.push_back("not measured: " + (one.failures.empty() ? "" : one.failures.front()));
      row.is_marked = true;
    } else {
      for (const std::string& cell :
           {with_spread(one.step_ms), fmt::format("{:.0f}", one.samples_per_s.median),
            fmt::format("{:.2f}", one.speed_up), fmt::format("{:.0f} %", 1e2 * one.efficiency),
            fmt::format("{:.3f}", one.exposed_ms.median), fmt::format("{:.3f}", one.late_ms.median),
            fmt::format("{:.3f}", one.data_ms.median), std::to_string(one.peak_rss_mib)})
        row.cells.push_back(cell);
    }
    table.rows.push_back(std::move(row));
  }
  const scaling::Identity& of = study.study.identity;
  section.text.push_back(fmt::format(
      "{}: {} scaling of {} (deck hash {}) with {}, batch {}, {} steps after {}; {}, {} cores; "
      "lockstep {} ({}).",
      study.name, scaling::words(of.mode), of.deck, of.deck_hash, of.program, of.batch_size,
      of.steps, of.warmup, of.cpu, of.cores, of.version, of.commit));
  if (is_crowded)
    section.text.emplace_back("* more ranks than cores: they wait for each other's cores.");
  section.tables.push_back(std::move(table));
}

Chart ideal_chart(const char* title, const char* y) {
  return {.title = title, .x = "ranks", .y = y, .series = {}, .from_zero = true};
}

void add_charts(Section& section, const std::vector<ScalingStudy>& studies) {
  constexpr std::size_t grey = 8;
  Chart speed = ideal_chart("speed-up: samples/s over those of the fewest ranks", "");
  Chart efficiency = ideal_chart("efficiency", "%");
  Chart step = ideal_chart("time of a step: median, least and most", "ms");
  Chart waiting = ideal_chart("waiting in a step", "ms, mean over ranks");
  Curve ideal, full;
  for (std::size_t i = 0; i < studies.size(); ++i) {
    Curve speed_up, share, median, least, most, exposed, late, data;
    double fewest = 0;
    for (const Figures& one : scaling::analyse(studies[i].study.results)) {
      if (one.repeats == 0) continue;
      const double ranks = one.ranks;
      if (fewest == 0) fewest = ranks;
      speed_up.add(ranks, one.speed_up);
      share.add(ranks, 1e2 * one.efficiency);
      median.add(ranks, one.step_ms.median);
      least.add(ranks, one.step_ms.min);
      most.add(ranks, one.step_ms.max);
      exposed.add(ranks, one.exposed_ms.median);
      late.add(ranks, one.late_ms.median);
      data.add(ranks, one.data_ms.median);
      if (i > 0) continue;
      ideal.add(ranks, ranks / fewest);
      full.add(ranks, 100);
    }
    if (speed_up.empty()) continue;
    speed.series.push_back({label_of(studies, i, "measured"), i, Style::dots, speed_up});
    efficiency.series.push_back({label_of(studies, i, "measured"), i, Style::dots, share});
    step.series.push_back({label_of(studies, i, "median"), i, Style::dots, median});
    step.series.push_back({label_of(studies, i, "least"), i, Style::faint, least});
    step.series.push_back({label_of(studies, i, "most"), i, Style::faint, most});
    waiting.series.push_back(
        {label_of(studies, i, "exposed communication"), 3 * i, Style::dots, exposed});
    waiting.series.push_back(
        {label_of(studies, i, "of it for late ranks"), 3 * i + 1, Style::dots, late});
    waiting.series.push_back({label_of(studies, i, "data"), 3 * i + 2, Style::dots, data});
  }
  if (speed.series.empty()) return;
  speed.series.push_back({"ideal", grey, Style::dashed, ideal});
  efficiency.series.push_back({"ideal", grey, Style::dashed, full});
  for (Chart* chart : {&speed, &efficiency, &step, &waiting})
    section.charts.push_back(std::move(*chart));
}

/// Bus bandwidth by size, a series an operation, of the most ranks that were measured.
void add_benchmarks(Page& page, const std::vector<ScalingStudy>& studies) {
  Section section{.title = "The machine: collectives, memory, products"};
  for (const ScalingStudy& study : studies) {
    Table table{.head = {study.name + ": ranks", "memory, GB/s together",
                         "products, GFLOP/s of the slowest rank"},
                .rows = {}};
    Chart chart{.title = study.name,
                .x = "bytes",
                .y = "bus bandwidth, GB/s",
                .series = {},
                .log_x = true,
                .from_zero = true};
    for (const Json& size : study.benchmarks) {
      if (size.contains("failed")) continue;
      double memory = 0, products = 0;
      for (const Json& rank : size.at("memory").at("gb_per_s")) memory += rank.get<double>();
      for (const Json& rank : size.at("products").at("gflop_per_s"))
        products = products == 0 ? rank.get<double>() : std::min(products, rank.get<double>());
      table.rows.push_back({{std::to_string(size.at("ranks").get<int>()),
                             fmt::format("{:.1f}", memory), fmt::format("{:.0f}", products)}});
      if (size.at("collectives").empty()) continue;
      chart.title =
          fmt::format("{}: collectives of {} ranks", study.name, size.at("ranks").get<int>());
      chart.series.clear();
      for (const Json& one : size.at("collectives")) {
        const auto op = one.at("op").get<std::string>();
        if (chart.series.empty() || chart.series.back().label != op)
          chart.series.push_back({op, chart.series.size(), Style::dots, {}});
        chart.series.back().curve.add(one.at("bytes").get<double>(),
                                      one.at("busbw_gb_per_s").get<double>());
      }
    }
    if (!chart.series.empty()) section.charts.push_back(std::move(chart));
    if (!table.rows.empty()) section.tables.push_back(std::move(table));
  }
  if (!section.tables.empty()) page.sections.push_back(std::move(section));
}

}  // namespace

bool is_study(const fs::path& path) {
  std::error_code error;
  if (path.filename() == "scaling.json") return fs::is_regular_file(path, error);
  return fs::is_regular_file(path / "scaling.json", error) ||
         fs::is_regular_file(path / "study.json", error);
}

ScalingStudy read_scaling_study(const fs::path& path) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  const fs::path file = is_folder ? path / "scaling.json" : path;
  if (!fs::exists(file, error)) {
    throw InputError(
        fmt::format("the scaling study in {} is not finished: run lockstep scaling with the same "
                    "--output again",
                    path.string()));
  }
  fs::path folder = fs::absolute(file).lexically_normal().parent_path();
  const Json content = scaling::read_study_file(file);
  return {.name = folder.filename().string(),
          .study = scaling::study_of(content, file),
          .benchmarks = content.value("benchmarks", Json::array()),
          .prediction = content.value("prediction", Json())};
}

void add_studies(Page& page, const std::vector<ScalingStudy>& studies) {
  Section section{.title = "Scaling"};
  add_charts(section, studies);
  for (const ScalingStudy& study : studies)
    add_table(section, study, scaling::analyse(study.study.results));
  for (std::size_t i = 1; i < studies.size(); ++i) {
    const std::string differs =
        scaling::difference(studies[0].study.identity, studies[i].study.identity);
    if (!differs.empty()) {
      page.notes.push_back(fmt::format("{} and {} cannot be compared: the second has {}.",
                                       studies[0].name, studies[i].name, differs));
    }
  }
  page.sections.push_back(std::move(section));
  add_predictions(page, studies);
  try {
    add_benchmarks(page, studies);
  } catch (const Json::exception&) {
    page.notes.emplace_back("The benchmarks of the machine are in a form that is not known here.");
  }
}

}  // namespace lockstep::report
