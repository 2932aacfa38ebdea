#include "report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <system_error>

#include <lockstep/base/helper_program.hpp>
#include <lockstep/io/folder.hpp>

namespace lockstep::scaling {
namespace {

double least(const Json& values) {
  const auto numbers = values.get<std::vector<double>>();
  return *std::ranges::min_element(numbers);
}

double sum(const Json& values) {
  double all = 0;
  for (const Json& value : values) all += value.get<double>();
  return all;
}

std::vector<Figures> measured_sizes(const std::vector<Figures>& figures) {
  std::vector<Figures> some;
  std::ranges::copy_if(figures, std::back_inserter(some),
                       [](const Figures& one) { return one.repeats > 0; });
  std::ranges::stable_sort(some, {}, &Figures::ranks);
  return some;
}

std::vector<Predicted> predicted_sizes(const std::vector<Predicted>& predicted) {
  std::vector<Predicted> some;
  std::ranges::copy_if(predicted, std::back_inserter(some),
                       [](const Predicted& one) { return one.failed.empty(); });
  std::ranges::stable_sort(some, {}, &Predicted::ranks);
  return some;
}

}  // namespace

std::string table(Mode mode, const std::vector<Figures>& figures) {
  std::string text =
      fmt::format("{:>6} {:>5} {:>7} {:>28} {:>11} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9}\n", "", "",
                  "global", "ms a step", "", "", "", "of it ms:", "", "", "MiB");
  text +=
      fmt::format("{:>6} {:>5} {:>7} {:>10} {:>17} {:>11} {:>8} {:>10} {:>9} {:>9} {:>9} {:>9}\n",
                  "ranks", "nodes", "batch", "median", "least to most", "samples/s", "speed-up",
                  "efficiency", "exposed", "late rank", "data", "a rank");
  bool crowded = false;
  for (const Figures& one : figures) {
    if (one.repeats == 0) {
      text += fmt::format("{:>6} {:>5} {:>7} not measured: {}\n", one.ranks, one.nodes,
                          one.batch_size, one.failures.empty() ? "" : one.failures.front());
      continue;
    }
    crowded = crowded || one.oversubscribed;
    text += fmt::format(
        "{:>6} {:>5} {:>7} {:>10.3f} {:>17} {:>11.0f} {:>8.2f} {:>8.0f} % {:>9.3f} {:>9.3f} "
        "{:>9.3f} {:>9}{}\n",
        one.ranks, one.nodes, one.batch_size, one.step_ms.median,
        fmt::format("{:.3f} to {:.3f}", one.step_ms.min, one.step_ms.max), one.samples_per_s.median,
        one.speed_up, 1e2 * one.efficiency, one.exposed_ms.median, one.late_ms.median,
        one.data_ms.median, one.peak_rss_mib, one.oversubscribed ? " *" : "");
  }
  if (crowded) text += "* more ranks than cores: they wait for each other's cores\n";
  return fmt::format("{} scaling\n{}", words(mode), text);
}

std::string benchmark_lines(const Json& benchmarks) {
  const int ranks = benchmarks.at("ranks").get<int>();
  const Json& memory = benchmarks.at("memory").at("gb_per_s");
  const Json& products = benchmarks.at("products").at("gflop_per_s");
  std::string text = fmt::format(
      "{} rank{}: memory {:.1f} GB/s together, products {:.0f} GFLOP/s the slowest rank", ranks,
      ranks == 1 ? "" : "s", sum(memory), least(products));
  std::string sizes, lines, name, first;
  for (const Json& one : benchmarks.at("collectives")) {
    if (one.at("op") != name) lines += fmt::format("\n  {:<16}", one.at("op").get<std::string>());
    name = one.at("op").get<std::string>();
    if (first.empty()) first = name;
    if (name == first)
      sizes += fmt::format("{:>16}", format_bytes(one.at("bytes").get<std::int64_t>()));
    lines += fmt::format("{:>16}",
                         fmt::format("{:.1f} ({:.2f})", one.at("us").at("median").get<double>(),
                                     one.at("busbw_gb_per_s").get<double>()));
  }
  if (!lines.empty()) text += fmt::format("\n  {:<16}{}{}", "us (bus GB/s)", sizes, lines);
  return text + "\n";
}

Json study_json(const Identity& identity, const std::vector<Result>& results,
                const Json& benchmarks) {
  Json json{{"kind", "lockstep scaling"}, {"format", 1}, {"study", identity.json()}};
  json["sizes"] = Json::array();
  for (const Figures& one : analyse(results)) json["sizes"].push_back(one.json());
  json["samples"] = Json::array();
  for (const Result& one : results) json["samples"].push_back(one.json());
  json["benchmarks"] = benchmarks;
  return json;
}

std::string plot_script(Mode mode, const std::vector<Figures>& figures, const std::string& svg,
                        const std::vector<Predicted>& predicted) {
  const std::vector<Figures> sizes = measured_sizes(figures);
  if (sizes.empty()) return "";
  std::string blocks = "$measured << EOD\n";
  const double base = sizes.front().samples_per_s.median;
  const int fewest = sizes.front().ranks;
  for (const Figures& one : sizes) {
    blocks += fmt::format("{} {} {} {} {}\n", one.ranks, one.speed_up, one.samples_per_s.min / base,
                          one.samples_per_s.max / base, 100 * one.efficiency);
  }
  const std::vector<Predicted> model = predicted_sizes(predicted);
  int most = sizes.back().ranks;
  if (!model.empty()) blocks += "EOD\n$predicted << EOD\n";
  for (const Predicted& one : model) {
    const double speed_up = one.samples_per_s / base;
    blocks += fmt::format("{} {} {}\n", one.ranks, speed_up, 100 * speed_up * fewest / one.ranks);
    most = std::max(most, one.ranks);
  }
  blocks += "EOD\n$ideal << EOD\n";
  for (const Figures& one : sizes)
    blocks += fmt::format("{} {}\n", one.ranks, static_cast<double>(one.ranks) / fewest);
  if (most > sizes.back().ranks)
    blocks += fmt::format("{} {}\n", most, static_cast<double>(most) / fewest);
  blocks += "EOD\n";
  const std::string title = mode == Mode::strong ? "strong scaling: the same batch"
                                                 : "weak scaling: the same batch a rank";
  // A prediction may go to a thousand times the ranks that were measured.
  const bool is_wide = most > sizes.back().ranks;
  const std::string from = is_wide ? fmt::format("{}", 0.8 * fewest) : "0";
  const auto dashed = [&](int column) {
    return model.empty() ? std::string()
                         : fmt::format(
                               ", $predicted using 1:{} with linespoints lw 2 dt 3 pt 6 ps "
                               "0.8 lc rgb '#b8431e' title 'predicted'",
                               column);
  };
  return blocks +
         fmt::format(
             "set terminal svg noenhanced size 900,420 font 'sans,11'\nset output '{}'\n"
             "set multiplot layout 1,2\nset grid\nset key top left\nset xlabel 'ranks'\n"
             "{}set xrange [{}:{}]\nset yrange [{}:*]\nset title '{}'\n"
             "set ylabel 'samples/s, over those of {} rank{}'\n"
             "plot $ideal with lines lw 2 dt 2 lc rgb '#888888' title 'ideal', "
             "$measured using 1:2 with lines lw 2 lc rgb '#1f4e9e' notitle, "
             "$measured using 1:2:3:4 with yerrorbars lw 2 pt 7 ps 0.6 lc rgb '#1f4e9e' notitle{}\n"
             "{}set title 'efficiency'\nset ylabel '%'\nset yrange [0:110<*]\n"
             "plot 100 with lines lw 2 dt 2 lc rgb '#888888' title 'ideal', "
             "$measured using 1:5 with linespoints lw 2 pt 5 ps 0.6 lc rgb '#1f4e9e' notitle{}\n"
             "unset multiplot\n",
             svg, is_wide ? "set logscale xy\n" : "", from, most * (is_wide ? 1.3 : 1.05),
             is_wide ? "*" : "0", title, fewest, fewest == 1 ? "" : "s", dashed(2),
             is_wide ? "unset logscale y\n" : "", dashed(3));
}

std::string draw(Mode mode, const std::vector<Figures>& figures, const std::filesystem::path& svg,
                 const std::vector<Predicted>& predicted) {
  constexpr double limit_s = 20;
  const std::string commands = plot_script(mode, figures, svg.filename().string(), predicted);
  if (commands.empty()) return "not drawn, because nothing was measured";
  auto script = svg;
  script.replace_extension(".gp");
  std::ofstream(script) << commands;
  const HelperEnd end =
      run_helper({"gnuplot", script.filename().string()}, limit_s, {.folder = svg.parent_path()});
  if (end.kind != HelperEnd::Kind::good) {
    return fmt::format("not drawn, because gnuplot {}; later, in {}: gnuplot {}",
                       end.kind == HelperEnd::Kind::not_started
                           ? "could not be run (Debian: gnuplot-nox)"
                           : "failed",
                       svg.parent_path().string(), script.filename().string());
  }
  std::error_code ignored;
  std::filesystem::remove(script, ignored);
  return svg.string();
}

}  // namespace lockstep::scaling
