#include <lockstep/train/report/metrics.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>

#include <nlohmann/json.hpp>

#include <lockstep/base/error.hpp>
#include <lockstep/base/log.hpp>
#include <lockstep/data/files/json_file.hpp>
#include <lockstep/io/atomic_file.hpp>

namespace lockstep::train {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no NaN; a loss that is not finite is written as null.
Json number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

double number_from(const Json& json) { return json.is_null() ? std::nan("") : json.get<double>(); }

/// The keys of an "eval" row other than a task's metrics.
constexpr std::array<std::string_view, 6> own_keys{"kind", "step", "epoch",
                                                   "set",  "loss", "seconds"};

Json to_json(const Spread& spread) {
  return Json::array({number(spread.min), number(spread.mean), number(spread.max)});
}

Json to_json(const MetricsRow& row) {
  Json json{{"kind", row.kind}, {"step", row.step}, {"epoch", row.epoch}};
  if (row.total_steps >= 0) json["total_steps"] = row.total_steps;
  if (row.kind == "eval") json["set"] = row.set;
  json["loss"] = number(row.loss);
  for (const auto& [name, value] : row.metrics) json[name] = number(value);
  if (row.lr >= 0) json["lr"] = row.lr;
  if (!(row.grad_norm < 0))  // a measured value was NaN
    json["grad_norm"] = number(row.grad_norm);
  if (row.samples_per_s >= 0) json["samples_per_s"] = row.samples_per_s;
  if (row.tokens_per_s >= 0) json["tokens_per_s"] = row.tokens_per_s;
  if (row.flops_per_s >= 0) json["flops_per_s"] = row.flops_per_s;
  if (row.of_peak >= 0) json["of_peak"] = row.of_peak;
  if (row.seconds >= 0) json["seconds"] = row.seconds;
  if (row.has_times) {
    json["time_min_mean_max_s"] = {{"compute", to_json(row.times.compute)},
                                   {"communication", to_json(row.times.communication)},
                                   {"communication_work", to_json(row.times.communication_work)},
                                   {"communication_late", to_json(row.times.communication_late)},
                                   {"data", to_json(row.times.data)},
                                   {"other", to_json(row.times.other)},
                                   {"forward", to_json(row.times.forward)},
                                   {"backward", to_json(row.times.backward)},
                                   {"optimizer", to_json(row.times.optimizer)}};
  }
  if (row.slowest) {
    json["slowest"] = {{"rank", row.slowest->rank},
                       {"phase", row.slowest->phase},
                       {"times_median", number(row.slowest->ratio)},
                       {"ms_a_step", row.slowest->seconds * 1e3},
                       {"median_ms_a_step", row.slowest->median_seconds * 1e3}};
  }
  return json;
}

Spread spread_from(const Json& json, const char* name) {
  const auto& times = json.at("time_min_mean_max_s");
  if (!times.contains(name)) return {};  // written before this field existed
  const auto& values = times.at(name);
  return {values.at(0).get<double>(), values.at(1).get<double>(), values.at(2).get<double>()};
}

MetricsRow row_from(const Json& json) {
  MetricsRow row;
  row.kind = json.at("kind").get<std::string>();
  row.step = json.at("step").get<std::int64_t>();
  row.epoch = json.at("epoch").get<std::int64_t>();
  row.total_steps = json.value("total_steps", std::int64_t{-1});
  row.loss = number_from(json.at("loss"));
  if (row.kind == "eval") {
    row.set = json.value("set", "test");
    for (const auto& [name, value] : json.items()) {
      if (std::ranges::find(own_keys, name) == own_keys.end())
        row.metrics.emplace_back(name, number_from(value));
    }
  }
  row.lr = json.value("lr", -1.0);
  if (json.contains("grad_norm")) row.grad_norm = number_from(json.at("grad_norm"));
  row.samples_per_s = json.value("samples_per_s", -1.0);
  row.tokens_per_s = json.value("tokens_per_s", -1.0);
  row.flops_per_s = json.value("flops_per_s", -1.0);
  row.of_peak = json.value("of_peak", -1.0);
  row.seconds = json.value("seconds", -1.0);
  row.has_times = json.contains("time_min_mean_max_s");
  if (row.has_times) {
    row.times = {.compute = spread_from(json, "compute"),
                 .communication = spread_from(json, "communication"),
                 .data = spread_from(json, "data"),
                 .other = spread_from(json, "other"),
                 .communication_work = spread_from(json, "communication_work"),
                 .communication_late = spread_from(json, "communication_late"),
                 .forward = spread_from(json, "forward"),
                 .backward = spread_from(json, "backward"),
                 .optimizer = spread_from(json, "optimizer")};
  }
  if (json.contains("slowest")) {
    const Json& slowest = json.at("slowest");
    row.slowest = Slowest{.rank = slowest.at("rank").get<int>(),
                          .phase = slowest.at("phase").get<std::string>(),
                          .ratio = number_from(slowest.at("times_median")),
                          .seconds = slowest.at("ms_a_step").get<double>() * 1e-3,
                          .median_seconds = slowest.at("median_ms_a_step").get<double>() * 1e-3};
  }
  return row;
}

}  // namespace

std::optional<MetricsRow> metrics_row_of(const std::string& line) {
  try {
    return row_from(Json::parse(line));
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

namespace {

void add_figures(const Json& json, const std::string& name, NamedFigures& figures) {
  if (json.is_number()) figures.emplace_back(name, json.get<double>());
  if (json.is_null()) figures.emplace_back(name, number_from(json));
  if (json.is_array()) {  // to_json(Spread)
    constexpr std::array parts{"min", "mean", "max"};
    for (std::size_t i = 0; i < parts.size(); ++i)
      add_figures(json.at(i), fmt::format("{}/{}", name, parts[i]), figures);
  }
  if (!json.is_object()) return;
  for (const auto& [key, value] : json.items())
    add_figures(value, name.empty() ? key : fmt::format("{}/{}", name, key), figures);
}

}  // namespace

NamedFigures figures_of(const MetricsRow& row) {
  Json json = to_json(row);
  json.erase("step");
  json.erase("total_steps");
  NamedFigures figures;
  add_figures(json, "", figures);
  return figures;
}

MetricsFile::MetricsFile(std::filesystem::path file, const std::filesystem::path& past,
                         std::int64_t step, std::int64_t epochs)
    : path_(std::move(file)), past_(past), step_(step), epochs_done_(epochs) {
  std::error_code not_there;
  continues_itself_ = std::filesystem::equivalent(past, path_, not_there);
  std::ifstream in(past);
  for (std::string line; std::getline(in, line);) {
    std::optional<MetricsRow> row = metrics_row_of(line);
    if (!row) continue;
    if (continues_itself_ && row->step > step)
      steps_again_ = std::max(steps_again_, row->step - step);
    if (is_past(*row)) keep(std::move(*row));
  }
}

bool MetricsFile::is_past(const MetricsRow& row) const noexcept {
  // A save between an epoch's last step and its end: the end is repeated, and written again.
  return row.step <= step_ && (row.kind == "step" || row.epoch <= epochs_done_);
}

void MetricsFile::erase(std::size_t at) {
  --(rows_[at].kind == "step" ? steps_ : epochs_).kept;
  rows_.erase(rows_.begin() + static_cast<std::ptrdiff_t>(at));
  indices_.erase(indices_.begin() + static_cast<std::ptrdiff_t>(at));
}

void MetricsFile::keep(MetricsRow row) {
  const bool is_step = row.kind == "step";
  Thinned& kept = is_step ? steps_ : epochs_;
  const std::int64_t index = is_step ? kept.seen : row.epoch;
  ++kept.seen;
  // The previous row was kept because it was the newest.
  for (std::size_t at = rows_.size(); at-- > 0;) {
    if (rows_[at].kind != row.kind || rows_[at].set != row.set) continue;
    if (indices_[at] % kept.stride != 0) erase(at);
    break;
  }
  rows_.push_back(std::move(row));
  indices_.push_back(index);
  if (++kept.kept <= most_rows) return;
  kept.stride *= 2;
  for (std::size_t at = rows_.size() - 1; at-- > 0;) {
    const bool same_kind = (rows_[at].kind == "step") == is_step;
    const bool newest_of_epoch = !is_step && indices_[at] == index;
    if (same_kind && !newest_of_epoch && indices_[at] % kept.stride != 0) erase(at);
  }
}

void MetricsFile::begin() {
  remove_unfinished_files_of(path_);
  AtomicFile file(path_);
  std::string lines;
  std::int64_t written = 0;
  const auto write = [&] {
    file.file().write_at(written, lines.data(), std::ssize(lines));
    written += std::ssize(lines);
    lines.clear();
  };
  constexpr std::size_t at_a_time = std::size_t{1} << 20;
  std::ifstream in(past_);
  for (std::string line; !past_.empty() && std::getline(in, line);) {
    const std::optional<MetricsRow> row = metrics_row_of(line);
    if (!row || !is_past(*row)) continue;
    lines += line + '\n';
    if (lines.size() >= at_a_time) write();
  }
  write();
  file.publish();
  file_ = AppendedFile(File::open_for_writing(path_), written);
}

void MetricsFile::flush() {
  file_.flush();
  is_warned_of_ = false;
}

void MetricsFile::append(const MetricsRow& row) {
  keep(row);
  file_.add(detail::json_text(to_json(row)) + '\n');
  try {
    flush();
  } catch (const FileError& error) {
    if (file_.unwritten() > most_unwritten) throw;
    if (std::exchange(is_warned_of_, true)) return;
    log(LogLevel::warning,
        fmt::format("{}. The run goes on and will write the row later.", error.what()));
  }
}

}  // namespace lockstep::train
