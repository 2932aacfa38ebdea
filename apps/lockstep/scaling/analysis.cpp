#include "analysis.hpp"

#include <algorithm>
#include <functional>
#include <iterator>

namespace lockstep::scaling {
namespace {

Json json_of(const Interval& one) {
  return {{"first_step", one.first_step},
          {"steps", one.steps},
          {"samples", one.samples},
          {"seconds", one.seconds},
          {"compute_s", one.compute},
          {"forward_s", one.forward},
          {"backward_s", one.backward},
          {"communication_s", one.communication},
          {"communication_work_s", one.work},
          {"communication_late_s", one.late},
          {"data_s", one.data},
          {"other_s", one.other}};
}

Interval interval_from(const Json& json) {
  const auto number = [&](const char* name) { return json.at(name).get<double>(); };
  return {.first_step = json.at("first_step").get<std::int64_t>(),
          .steps = json.at("steps").get<std::int64_t>(),
          .samples = number("samples"),
          .seconds = number("seconds"),
          .compute = number("compute_s"),
          .communication = number("communication_s"),
          .data = number("data_s"),
          .other = number("other_s"),
          .work = number("communication_work_s"),
          .late = number("communication_late_s"),
          .forward = json.value("forward_s", 0.0),
          .backward = json.value("backward_s", 0.0)};
}

Json json_of(const Scatter& scatter) {
  return {{"median", scatter.median}, {"min", scatter.min}, {"max", scatter.max}};
}

double ms_a_step(double seconds, const Interval& all) {
  return 1e3 * seconds / static_cast<double>(all.steps);
}

Figures figures_of(const std::vector<Result>& repeats) {
  Figures figures{.ranks = repeats.front().ranks,
                  .nodes = repeats.front().nodes,
                  .batch_size = repeats.front().batch_size,
                  .oversubscribed = repeats.front().oversubscribed};
  std::vector<Interval> totals;
  for (const Result& result : repeats) {
    if (!result.failed.empty()) {
      figures.failures.push_back(result.failed);
      continue;
    }
    totals.push_back(total(result.intervals));
    for (const std::int64_t mib : result.peak_rss_mib)
      figures.peak_rss_mib = std::max(figures.peak_rss_mib, mib);
  }
  figures.repeats = static_cast<int>(totals.size());
  if (totals.empty()) return figures;
  const auto scatter = [&](const std::function<double(const Interval&)>& value) {
    std::vector<double> values;
    std::ranges::transform(totals, std::back_inserter(values), value);
    return scatter_of(std::move(values));
  };
  const auto part = [&](double Interval::*seconds) {
    return scatter([=](const Interval& all) { return ms_a_step(all.*seconds, all); });
  };
  figures.step_ms = part(&Interval::seconds);
  figures.exposed_ms = part(&Interval::communication);
  figures.late_ms = part(&Interval::late);
  figures.data_ms = part(&Interval::data);
  figures.samples_per_s = scatter([](const Interval& all) { return all.samples / all.seconds; });
  return figures;
}

}  // namespace

Scatter scatter_of(std::vector<double> values) {
  std::ranges::sort(values);
  const std::size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

Json Result::json() const {
  Json json{{"ranks", ranks},
            {"nodes", nodes},
            {"repeat", repeat},
            {"batch_size", batch_size},
            {"oversubscribed", oversubscribed}};
  if (!failed.empty()) {
    json["failed"] = failed;
    return json;
  }
  const Interval all = total(intervals);
  json["step_ms"] = ms_a_step(all.seconds, all);
  json["samples_per_s"] = all.samples / all.seconds;
  json["peak_rss_mib"] = peak_rss_mib;
  json["intervals"] = Json::array();
  for (const Interval& interval : intervals) json["intervals"].push_back(json_of(interval));
  return json;
}

Result Result::from(const Json& json) {
  Result result{.ranks = json.at("ranks").get<int>(),
                .nodes = json.at("nodes").get<int>(),
                .repeat = json.at("repeat").get<int>(),
                .batch_size = json.at("batch_size").get<std::int64_t>(),
                .oversubscribed = json.at("oversubscribed").get<bool>(),
                .failed = json.value("failed", "")};
  if (!result.failed.empty()) return result;
  result.peak_rss_mib = json.at("peak_rss_mib").get<std::vector<std::int64_t>>();
  for (const Json& interval : json.at("intervals"))
    result.intervals.push_back(interval_from(interval));
  return result;
}

Result result_of(const Point& point) {
  return {.ranks = point.ranks(),
          .nodes = point.nodes(),
          .repeat = point.repeat,
          .batch_size = point.batch_size,
          .oversubscribed = point.oversubscribed};
}

Json Figures::json() const {
  Json json{{"ranks", ranks},           {"nodes", nodes},
            {"batch_size", batch_size}, {"oversubscribed", oversubscribed},
            {"repeats", repeats},       {"failures", failures}};
  if (repeats == 0) return json;
  json["step_ms"] = json_of(step_ms);
  json["samples_per_s"] = json_of(samples_per_s);
  json["speed_up"] = speed_up;
  json["efficiency"] = efficiency;
  json["exposed_communication_ms"] = json_of(exposed_ms);
  json["waiting_for_late_ranks_ms"] = json_of(late_ms);
  json["data_ms"] = json_of(data_ms);
  json["peak_rss_mib"] = peak_rss_mib;
  return json;
}

std::vector<Figures> analyse(const std::vector<Result>& results) {
  std::vector<std::vector<Result>> sizes;
  for (const Result& result : results) {
    const auto same = std::ranges::find_if(sizes, [&](const std::vector<Result>& size) {
      return size.front().ranks == result.ranks && size.front().nodes == result.nodes;
    });
    if (same == sizes.end()) {
      sizes.push_back({result});
    } else {
      same->push_back(result);
    }
  }
  std::vector<Figures> all;
  std::ranges::transform(sizes, std::back_inserter(all), figures_of);
  const Figures* fewest = nullptr;
  for (const Figures& figures : all) {
    if (figures.repeats > 0 && (!fewest || figures.ranks < fewest->ranks)) fewest = &figures;
  }
  if (!fewest) return all;
  const double speed = fewest->samples_per_s.median;
  const int ranks = fewest->ranks;
  for (Figures& figures : all) {
    if (figures.repeats == 0) continue;
    figures.speed_up = figures.samples_per_s.median / speed;
    figures.efficiency = figures.speed_up * ranks / figures.ranks;
  }
  return all;
}

}  // namespace lockstep::scaling
