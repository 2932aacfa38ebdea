#include "scaling/model/compute_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include <lockstep/base/error.hpp>

#include "scaling/model/robust_fit.hpp"
#include "scaling/model/stragglers.hpp"

namespace lockstep::scaling {
namespace {

constexpr std::array parts_of_compute{&StepParts::forward, &StepParts::backward, &StepParts::rest};

/// As if its ranks had had cores of their own.
StepParts uncrowded(StepParts parts) {
  if (parts.crowding <= 1) return parts;
  const double own = parts.forward + parts.backward + parts.rest;
  const double factor = own > 0 ? (own + parts.late) / own / parts.crowding : 1;
  for (const auto part : parts_of_compute) parts.*part *= factor;
  return parts;
}

}  // namespace

std::vector<StepParts> step_parts(const std::vector<Result>& results, int places) {
  std::vector<StepParts> sizes;
  for (const Figures& figures : analyse(results)) {
    if (figures.repeats == 0) continue;
    std::vector<Interval> totals;
    for (const Result& result : results) {
      if (result.failed.empty() && result.ranks == figures.ranks && result.nodes == figures.nodes)
        totals.push_back(total(result.intervals));
    }
    const auto median = [&](const auto& seconds) {
      std::vector<double> values;
      for (const Interval& all : totals)
        values.push_back(seconds(all) / static_cast<double>(all.steps));
      return scatter_of(std::move(values)).median;
    };
    const int on_a_node = (figures.ranks + figures.nodes - 1) / figures.nodes;
    sizes.push_back(
        {.ranks = figures.ranks,
         .nodes = figures.nodes,
         .batch_size = figures.batch_size,
         .crowding = std::max(1.0, static_cast<double>(on_a_node) / std::max(1, places)),
         .step = median([](const Interval& all) { return all.seconds; }),
         .forward = median([](const Interval& all) { return all.forward; }),
         .backward = median([](const Interval& all) { return all.backward; }),
         .rest = median([](const Interval& all) {
           return std::max(0.0, all.compute - all.forward - all.backward) + all.data + all.other;
         }),
         .exposed = median([](const Interval& all) { return all.communication; }),
         .late = median([](const Interval& all) { return all.late; })});
  }
  return sizes;
}

ComputeModel::ComputeModel(const std::vector<StepParts>& sizes) {
  least_share_ = most_share_ = sizes.front().share();
  std::vector<double> scatters;
  for (const StepParts& measured : sizes) {
    if (measured.forward <= 0 || measured.backward <= 0) {
      throw InputError(
          fmt::format("the samples of {} ranks do not tell forward from backward: they are of an "
                      "earlier version",
                      measured.ranks));
    }
    least_share_ = std::min(least_share_, measured.share());
    most_share_ = std::max(most_share_, measured.share());
    if (measured.ranks > 1 && measured.crowding <= 1)
      scatters.push_back(measured.late / expected_maximum(measured.ranks));
  }
  knows_scatter_ = !scatters.empty();
  if (knows_scatter_) scatter_s_ = scatter_of(scatters).median;
  for (std::size_t k = 0; k < parts_of_compute.size(); ++k) {
    std::vector<Equation> equations;
    for (const StepParts& measured : sizes) {
      const double seconds = uncrowded(measured).*parts_of_compute[k];
      if (seconds > 0) equations.push_back({{1, measured.share()}, seconds});
    }
    coefficients_[k] = equations.empty() ? std::vector<double>{0, 0} : robust_fit(equations);
  }
  for (const StepParts& measured : sizes) {
    const StepParts alone = uncrowded(measured);
    const Seconds fitted = seconds(measured.share());
    error_ = std::max(error_, std::abs((fitted.forward + fitted.backward + fitted.rest) /
                                           (alone.forward + alone.backward + alone.rest) -
                                       1));
  }
}

ComputeModel::Seconds ComputeModel::seconds(double samples, double parts) const {
  constexpr double rounding = 1e-9;
  if (most_share_ - least_share_ <= rounding * most_share_ &&
      std::abs(samples / parts - most_share_) > rounding * most_share_) {
    throw InputError(fmt::format(
        "{:.6g} samples a rank: all sizes of the fit had {:.6g}, so nothing tells how compute time "
        "grows with samples; measure another size",
        samples / parts, most_share_));
  }
  const auto of = [&](std::size_t k, double times) {
    return times * coefficients_[k][0] + coefficients_[k][1] * samples;
  };
  return {.forward = of(0, parts), .backward = of(1, parts), .rest = of(2, 1)};
}

Json ComputeModel::json() const {
  Json json{{"samples_a_rank", {least_share_, most_share_}}};
  constexpr std::array names{"forward_ms", "backward_ms", "rest_ms"};
  for (std::size_t k = 0; k < names.size(); ++k) {
    json[names[k]] = {{"fixed", 1e3 * coefficients_[k][0]},
                      {"a_sample", 1e3 * coefficients_[k][1]}};
  }
  json["scatter_ms"] = knows_scatter_ ? Json(1e3 * scatter_s_) : Json(nullptr);
  json["error"] = error_;
  return json;
}

}  // namespace lockstep::scaling
