#include "run_sections.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include <lockstep/base/error.hpp>
#include <lockstep/io/folder.hpp>
#include <lockstep/train/report/metrics_reader.hpp>
#include <lockstep/train/report/report.hpp>

#include "record_sections.hpp"

namespace lockstep::report {
namespace {

using train::in_figures;

/// The curve's name, or the run's where there are several.
std::string label_of(const std::vector<Run>& runs, std::size_t run, const std::string& curve) {
  if (runs.size() == 1) return curve;
  return curve.empty() ? runs[run].record.name : runs[run].record.name + ", " + curve;
}

/// Steps at which starts of `lockstep elastic` began, after the first.
std::vector<double> restarts_of(const std::vector<Run>& runs) {
  std::vector<double> steps;
  for (const Run& run : runs) {
    for (const ElasticEvent& event : run.record.elastic) {
      if (event.kind == "start" && event.start > 1)
        steps.push_back(static_cast<double>(event.step));
    }
  }
  return steps;
}

using Figure = std::function<const Curve*(const Curves&)>;

/// A chart of one figure, a series a run; none if no run has it.
void add_chart(Section& section, const std::vector<Run>& runs, Chart chart, const Figure& figure,
               Style style = Style::line) {
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Curve* curve = figure(runs[i].curves);
    if (!curve || curve->empty()) continue;
    chart.series.push_back(
        {label_of(runs, i, runs.size() == 1 ? chart.title : ""), i, style, *curve});
  }
  if (chart.series.empty()) return;
  chart.marks = restarts_of(runs);
  section.charts.push_back(std::move(chart));
}

Chart training_loss(const std::vector<Run>& runs) {
  Chart chart{.title = "training loss", .y = "loss", .may_be_log = true};
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const Curves& curves = runs[i].curves;
    if (!curves.batch_loss.empty()) {
      chart.series.push_back({label_of(runs, i, "batch"), i,
                              curves.epoch_loss.empty() ? Style::line : Style::faint,
                              curves.batch_loss});
    }
    if (!curves.epoch_loss.empty()) {
      chart.series.push_back(
          {label_of(runs, i, "mean of an epoch"), i, Style::dots, curves.epoch_loss});
    }
  }
  chart.marks = restarts_of(runs);
  return chart;
}

std::vector<std::string> evaluations_of(const std::vector<Run>& runs) {
  std::vector<std::string> names;
  for (const Run& run : runs) {
    for (const auto& [name, curve] : run.curves.evaluations) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

Section curves_section(const std::vector<Run>& runs) {
  Section section{.title = "Curves"};
  if (Chart loss = training_loss(runs); !loss.series.empty())
    section.charts.push_back(std::move(loss));
  for (const std::string& name : evaluations_of(runs)) {
    add_chart(
        section, runs, {.title = name, .may_be_log = name.ends_with("loss")},
        [&](const Curves& curves) { return curves.evaluation(name); }, Style::dots);
  }
  add_chart(section, runs, {.title = "learning rate", .may_be_log = true},
            [](const Curves& curves) { return &curves.lr; });
  add_chart(section, runs, {.title = "gradient norm before clipping", .may_be_log = true},
            [](const Curves& curves) { return &curves.grad_norm; });
  return section;
}

Section speed_section(const std::vector<Run>& runs) {
  Section section{.title = "Speed"};
  add_chart(section, runs, {.title = "samples/s of all ranks", .from_zero = true},
            [](const Curves& curves) { return &curves.samples_per_s; });
  add_chart(section, runs, {.title = "tokens/s of all ranks", .from_zero = true},
            [](const Curves& curves) { return &curves.tokens_per_s; });
  add_chart(section, runs, {.title = "time of a step, slowest rank", .y = "ms", .from_zero = true},
            [](const Curves& curves) { return &curves.step_ms; });
  add_chart(section, runs, {.title = "share of peak", .y = "%", .from_zero = true},
            [](const Curves& curves) { return &curves.share_of_peak; });
  return section;
}

/// Rows in groups, so that a chart has at most chart_columns points; ms a step of each phase.
Chart anatomy_chart(const Run& run, const std::string& title) {
  Chart chart{.title = title, .y = "ms a step, mean over ranks", .from_zero = true};
  for (std::size_t phase = 0; phase < phases.size(); ++phase)
    chart.series.push_back({phases[phase], phase, Style::area, {}});
  const auto& rows = run.curves.anatomy;
  const std::size_t group = rows.size() / static_cast<std::size_t>(chart_columns) + 1;
  for (std::size_t from = 0; from < rows.size(); from += group) {
    Anatomy sum;
    for (std::size_t i = from; i < std::min(rows.size(), from + group); ++i) {
      sum.last_step = rows[i].last_step;
      sum.steps += rows[i].steps;
      for (std::size_t phase = 0; phase < phases.size(); ++phase)
        sum.seconds[phase] += rows[i].seconds[phase];
    }
    for (std::size_t phase = 0; phase < phases.size(); ++phase) {
      chart.series[phase].curve.add(static_cast<double>(sum.last_step),
                                    1e3 * sum.seconds[phase] / static_cast<double>(sum.steps));
    }
  }
  // Dygraphs stacks the last series lowest.
  std::ranges::reverse(chart.series);
  chart.marks = restarts_of({run});
  return chart;
}

Section anatomy_section(const std::vector<Run>& runs) {
  Section section{.title = "Anatomy of a step"};
  Table table{.head = {"ms a step, mean of the run"}, .rows = {}};
  for (const char* phase : phases) table.rows.push_back({{phase}});
  for (const Run& run : runs) {
    if (run.curves.anatomy.empty()) continue;
    section.charts.push_back(
        anatomy_chart(run, runs.size() == 1 ? "parts of a step" : run.record.name));
    table.head.push_back(run.record.name);
    for (std::size_t phase = 0; phase < phases.size(); ++phase) {
      double seconds = 0, steps = 0;
      for (const Anatomy& one : run.curves.anatomy) {
        seconds += one.seconds[phase];
        steps += static_cast<double>(one.steps);
      }
      table.rows[phase].cells.push_back(fmt::format("{:.4g}", 1e3 * seconds / steps));
    }
  }
  if (!section.charts.empty()) section.tables.push_back(std::move(table));
  return section;
}

Section straggler_section(const std::vector<Run>& runs) {
  Section section{.title = "Stragglers"};
  const bool any =
      std::ranges::any_of(runs, [](const Run& run) { return !run.curves.stragglers.empty(); });
  if (!any) {
    section.text.emplace_back(
        "No rank was 1.1 times as long at work as the median of the ranks, or there was one rank.");
    return section;
  }
  add_chart(section, runs, {.title = "slowest rank's time over the median, in its slowest phase"},
            [](const Curves& curves) { return &curves.slowest_ratio; });
  Table table{.head = {"run", "rank", "phase", "rows in which it was the slowest",
                       "at most, times the median", "steps"},
              .rows = {}};
  constexpr std::size_t most = 16;
  for (const Run& run : runs) {
    using Entry = std::pair<std::pair<int, std::string>, Straggler>;
    std::vector<Entry> found(run.curves.stragglers.begin(), run.curves.stragglers.end());
    std::ranges::stable_sort(found, std::greater{}, [](const Entry& e) { return e.second.rows; });
    if (found.size() > most) found.resize(most);
    for (const auto& [who, one] : found) {
      table.rows.push_back({{run.record.name, std::to_string(who.first), who.second,
                             fmt::format("{} of {}", one.rows, run.curves.slowest_ratio.size()),
                             fmt::format("{:.2f}", one.largest_ratio),
                             fmt::format("{} to {}", one.first_step, one.last_step)}});
    }
  }
  section.tables.push_back(std::move(table));
  return section;
}

Section overview(const std::vector<Run>& runs) {
  Section section{.title = runs.size() == 1 ? "Run" : "Runs"};
  const std::vector<std::string> evaluations = evaluations_of(runs);
  Table table{.head = {"run", "state", "ranks", "steps", "epoch", "training loss"}, .rows = {}};
  table.head.insert(table.head.end(), evaluations.begin(), evaluations.end());
  for (const char* name : {"samples/s", "wall-clock s", "starts"}) table.head.emplace_back(name);
  for (const Run& run : runs) {
    const auto& last = run.curves.last;
    const Curve& epochs = run.curves.epoch_loss;
    const std::int64_t total = run.curves.total_steps;
    Table::Row row{{run.record.name, state_in_words(run.record, run.curves.last_step),
                    figure_of(run.record, "ranks"),
                    total > 0 ? fmt::format("{} of {}", run.curves.last_step, total)
                              : std::to_string(run.curves.last_step),
                    last ? std::to_string(last->epoch) : "",
                    !epochs.empty() ? in_figures(epochs.y.back())
                    : last          ? in_figures(last->loss)
                                    : ""}};
    for (const std::string& name : evaluations) {
      const Curve* curve = run.curves.evaluation(name);
      row.cells.push_back(curve ? in_figures(curve->y.back()) : "");
    }
    row.cells.push_back(figure_of(run.record, "samples_per_s"));
    row.cells.push_back(figure_of(run.record, "wall_s"));
    row.cells.push_back(std::to_string(run.record.starts()));
    table.rows.push_back(std::move(row));
  }
  section.tables.push_back(std::move(table));
  return section;
}

/// By its name, else by its metrics; empty: not known.
std::string task_of(const Run& run) {
  const std::string app = figure_of(run.record, "app");
  if (!app.empty()) return app;
  std::set<std::string> names;
  for (const auto& [name, curve] : run.curves.evaluations) names.insert(name);
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "" : ", ") + name;
  return all;
}

void add_notes(Page& page, const std::vector<Run>& runs) {
  std::map<std::string, std::string> tasks;  // an example of each
  for (const Run& run : runs) {
    for (const std::string& fault : run.record.faults) page.notes.push_back(fault);
    const auto note = [&](const std::string& text) {
      page.notes.push_back(run.record.folder.string() + ": " + text);
    };
    if (run.curves.rows == 0) note("metrics.jsonl has no rows, so there are no curves.");
    if (run.record.deck.empty()) note("deck.toml is missing.");
    if (run.record.summary.empty()) {
      note(run.record.owner.empty() ? "summary.json is missing, and with it memory and versions."
                                    : "the run goes on: memory and versions are known at its end.");
    }
    if (const std::string task = task_of(run); !task.empty()) tasks.emplace(task, run.record.name);
  }
  if (tasks.size() < 2) return;
  std::string text = "The runs are of different tasks, so their figures cannot be compared:";
  for (const auto& [task, run] : tasks) text += fmt::format(" {} ({})", run, task);
  page.notes.push_back(text + ".");
}

}  // namespace

Run read_whole_run(const std::filesystem::path& folder) {
  Run run{.record = read_run(folder), .curves = {}};
  train::MetricsReader reader(folder / "metrics.jsonl");
  reader.read([&](const train::MetricsRow& row) { run.curves.add(row); });
  if (reader.invalid_lines() > 0) {
    run.record.faults.push_back(
        fmt::format("{}: {} of {} lines are not rows and were left out, the first in line {}.",
                    (folder / "metrics.jsonl").string(), reader.invalid_lines(),
                    reader.invalid_lines() + reader.rows(), reader.first_invalid_line()));
  }
  if (reader.has_unfinished_line() && run.record.owner.empty()) {
    run.record.faults.push_back(
        fmt::format("{} ends in the midst of a line, which was left out: its writer was killed, or "
                    "the file was cut.",
                    (folder / "metrics.jsonl").string()));
  }
  return run;
}

void add_runs(Page& page, const std::vector<Run>& runs) {
  add_notes(page, runs);
  page.sections.push_back(overview(runs));
  for (auto* make : {curves_section, speed_section, anatomy_section, straggler_section}) {
    Section section = make(runs);
    if (!section.charts.empty() || !section.text.empty())
      page.sections.push_back(std::move(section));
  }
  std::vector<const RunRecord*> records;
  for (const Run& run : runs) records.push_back(&run.record);
  add_records(page, records);
}

}  // namespace lockstep::report
