#include <lockstep/train/report/report.hpp>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include <lockstep/base/helper_program.hpp>
#include <lockstep/io/own_file.hpp>

namespace lockstep::train {
namespace {

/// The set by which epochs are judged, from the first evaluation.
std::string judging_set(const std::vector<MetricsRow>& rows) {
  const auto eval = std::ranges::find(rows, "eval", &MetricsRow::kind);
  return eval == rows.end() ? "test" : eval->set;
}

const MetricsRow* eval_of_epoch(const std::vector<MetricsRow>& rows, std::int64_t epoch) {
  const std::string set = judging_set(rows);
  for (const auto& row : rows) {
    if (row.kind == "eval" && row.epoch == epoch && row.set == set) return &row;
  }
  return nullptr;
}

std::string percentages(const TimeSplit& times) {
  const std::array parts{times.compute.mean, times.communication.mean, times.data.mean,
                         times.other.mean};
  double total = 0;
  for (const double part : parts) total += part;
  if (!(total > 0)) return "";
  return fmt::format("{:>7.0f} {:>7.0f} {:>7.0f} {:>7.0f}", 100 * parts[0] / total,
                     100 * parts[1] / total, 100 * parts[2] / total, 100 * parts[3] / total);
}

/// The metrics of all evaluations: a resumed run may have others.
std::vector<std::string> metric_names(const std::vector<MetricsRow>& rows) {
  std::vector<std::string> names;
  for (const auto& row : rows) {
    for (const auto& [name, value] : row.metrics) {
      if (std::ranges::find(names, name) == names.end()) names.push_back(name);
    }
  }
  return names;
}

std::optional<double> metric_of(const MetricsRow& row, const std::string& name) {
  const auto at = std::ranges::find(row.metrics, name, &NamedFigures::value_type::first);
  return at == row.metrics.end() ? std::nullopt : std::optional(at->second);
}

/// A fraction is drawn from 0 to 1, any other figure over its range.
const char* metric_range(const std::vector<MetricsRow>& rows, const std::string& metric) {
  const bool share = std::ranges::all_of(rows, [&](const MetricsRow& row) {
    const double value = metric_of(row, metric).value_or(0);
    return value >= 0 && value <= 1;
  });
  return share ? "[0:1]" : "[*:*]";
}

/// gnuplot's data: a block of the rows that have a value. False, and no block, if none has.
template <class Value>
bool write_block(std::ostream& out, const std::vector<MetricsRow>& rows, const char* name,
                 const char* kind, const Value& value) {
  const std::string set = judging_set(rows);
  std::ostringstream points;
  for (const auto& row : rows) {
    if (row.kind == kind && (row.kind != "eval" || row.set == set) && std::isfinite(value(row)))
      points << row.step << ' ' << value(row) << '\n';
  }
  if (points.view().empty()) return false;
  out << '$' << name << " << EOD\n" << points.view() << "EOD\n";
  return true;
}

/// A gnuplot string, in which only a quote and a line end have a meaning.
std::string quoted(const std::string& text) {
  std::string string = "'";
  for (const char c : text) {
    if (c == '\'') string += c;
    string += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return string + "'";
}

/// The reason why `gnuplot script` drew nothing in the folder; "" if it did. It runs in the folder,
/// so the script needs no path.
std::string run_gnuplot(const std::filesystem::path& folder, const std::string& script,
                        double limit_s) {
  switch (run_helper({"gnuplot", script}, limit_s, {.folder = folder}).kind) {
    case HelperEnd::Kind::not_started:
      return "gnuplot could not be run (Debian: gnuplot-nox)";
    case HelperEnd::Kind::late:
      return fmt::format("gnuplot did not end within {:g} s", limit_s);
    case HelperEnd::Kind::failed:
      return "gnuplot failed";
    case HelperEnd::Kind::good:
      return "";
  }
  return "";
}

/// gnuplot's script, with only those lines that have a point: gnuplot refuses to plot nothing. ""
/// if none has.
std::string curves_script(const std::vector<MetricsRow>& rows, const std::string& svg) {
  const auto metrics = metric_names(rows);
  const std::string metric = metrics.empty() ? "" : metrics.front();
  const std::string set = judging_set(rows);
  const auto loss = [](const MetricsRow& row) { return row.loss; };
  std::ostringstream blocks;
  std::vector<std::string> losses;
  if (write_block(blocks, rows, "train", "step", loss))
    losses.emplace_back("$train with lines lc rgb '#b0c4de' title 'batch'");
  const std::string points = " with linespoints lw 2 pt 7 ps 0.6 lc rgb ";
  if (write_block(blocks, rows, "epoch", "epoch", loss))
    losses.push_back("$epoch" + points + "'#1f4e9e' title 'training, epoch mean'");
  if (write_block(blocks, rows, "test", "eval", loss))
    losses.push_back("$test" + points + "'#c0392b' title " + quoted(set));
  std::ostringstream plots;
  if (!losses.empty()) {
    plots << "set title 'loss'\nset yrange [0:*]\nplot " << fmt::to_string(fmt::join(losses, ", "))
          << '\n';
  }
  if (write_block(blocks, rows, "metric", "eval", [&](const MetricsRow& row) {
        return metric_of(row, metric).value_or(std::nan(""));
      })) {
    plots << "set title " << quoted(set + ' ' + metric) << "\nset yrange "
          << metric_range(rows, metric) << "\nset key bottom right\nplot $metric" << points
          << "'#2e7d32' title " << quoted(metric) << '\n';
  }
  if (plots.view().empty()) return "";
  return blocks.str() + "set terminal svg noenhanced size 900,420 font 'sans,11'\nset output " +
         quoted(svg) +
         "\nset multiplot layout 1,2\nset grid\nset xlabel 'step'\nset xrange [0:*]\n" +
         plots.str() + "unset multiplot\n";
}

}  // namespace

std::string in_figures(double value) {
  const bool small = value != 0 && std::abs(value) < 1e-2;
  return small ? fmt::format("{:.3e}", value) : fmt::format("{:.4f}", value);
}

std::string report_table(const std::vector<MetricsRow>& rows) {
  const auto metrics = metric_names(rows);
  std::string names;
  for (const auto& name : metrics) names += fmt::format(" {:>9}", name);
  const std::string judged = judging_set(rows) + " loss";
  const bool tokens = std::ranges::any_of(
      rows, [](const MetricsRow& row) { return row.kind == "epoch" && row.tokens_per_s >= 0; });
  const std::size_t width = std::max<std::size_t>(10, judged.size());
  std::string table = fmt::format(
      "{:>6} {:>11} {:>{}}{:{}} {:>11} {:>31}\n{:>6} {:>11} {:>{}}{} {:>11} {:>7} {:>7} {:>7} "
      "{:>7}\n",
      "", "", "", width, "", names.size(), "", "time in %", "epoch", "train loss", judged, width,
      names, tokens ? "tokens/s" : "samples/s", "compute", "comm", "data", "other");
  for (const auto& row : rows) {
    if (row.kind != "epoch") continue;
    const auto* eval = eval_of_epoch(rows, row.epoch);
    std::string values;
    for (const auto& name : metrics) {
      const auto value = eval ? metric_of(*eval, name) : std::nullopt;
      values += fmt::format(" {:>{}}", value ? in_figures(*value) : "-",
                            std::max<std::size_t>(9, name.size()));
    }
    table += fmt::format("{:>6} {:>11} {:>{}}{} {:>11.0f} {}\n", row.epoch, in_figures(row.loss),
                         eval ? in_figures(eval->loss) : "-", width, values,
                         tokens ? row.tokens_per_s : row.samples_per_s,
                         row.has_times ? percentages(row.times) : "");
  }
  return table;
}

std::string anatomy_table(const std::vector<StepTimes>& ranks) {
  if (ranks.empty() || ranks.front().steps == 0) return "";
  using Figure = double (*)(const StepTimes&);
  constexpr std::array<Figure, 8> figures{
      [](const StepTimes& t) { return t.forward; },
      [](const StepTimes& t) { return t.backward; },
      [](const StepTimes& t) { return t.optimizer; },
      [](const StepTimes& t) { return t.data; },
      [](const StepTimes& t) { return t.communication_work; },
      [](const StepTimes& t) { return t.communication_late; },
      [](const StepTimes& t) { return t.communication_transfer(); },
      [](const StepTimes& t) { return t.other(); },
  };
  const double ms = 1e3 / static_cast<double>(ranks.front().steps);
  std::string table =
      fmt::format("{:>6} {:>39} {:>29}\n{:>6} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9} {:>9}\n",
                  "", "ms a step", "waiting for gradients:", "rank", "forward", "backward",
                  "optimizer", "data", "own sums", "late rank", "transfer", "other");
  const auto line = [&](const std::string& name, const auto& value) {
    table += fmt::format("{:>6}", name);
    for (const Figure figure : figures) table += fmt::format(" {:>9.3f}", value(figure) * ms);
    table += '\n';
  };
  constexpr std::size_t most_lines = 16;
  if (ranks.size() <= most_lines) {
    for (std::size_t rank = 0; rank < ranks.size(); ++rank)
      line(std::to_string(rank), [&](Figure figure) { return figure(ranks[rank]); });
  } else {
    line("least", [&](Figure figure) { return spread_of(ranks, figure).min; });
    line("mean", [&](Figure figure) { return spread_of(ranks, figure).mean; });
    line("most", [&](Figure figure) { return spread_of(ranks, figure).max; });
  }
  if (const auto slowest = slowest_rank(ranks)) table += slowest->text() + '\n';
  return table;
}

std::string traffic_in_words(const HookReport& hook) {
  const auto sent = static_cast<double>(hook.bytes.sent),
             replaced = static_cast<double>(hook.bytes.replaced);
  if (sent == 0.0) {
    return fmt::format("{}: each rank sent none of the {:.2f} MB of all_reduce", hook.name,
                       replaced / 1e6);
  }
  return fmt::format(
      "{}: each rank sent {:.2f} MB, {:.1f} times less than the {:.2f} MB of all_reduce", hook.name,
      sent / 1e6, replaced / sent, replaced / 1e6);
}

std::string draw_curves(const std::vector<MetricsRow>& rows, const std::filesystem::path& svg,
                        double limit_s) {
  const std::string commands = curves_script(rows, svg.filename().string());
  if (commands.empty()) return "not drawn: there is nothing to draw";
  const auto folder = svg.has_parent_path() ? svg.parent_path() : ".";
  auto script = svg;
  script.replace_extension(".gp");
  remove_link(script);
  remove_link(svg);
  std::ofstream(script) << commands;
  const std::string failure = run_gnuplot(folder, script.filename().string(), limit_s);
  if (failure.empty()) {
    std::error_code ignored;
    std::filesystem::remove(script, ignored);
    return svg.string();
  }
  return fmt::format("not drawn: {}; to draw it later, in {}: gnuplot {}", failure, folder.string(),
                     script.filename().string());
}

}  // namespace lockstep::train
