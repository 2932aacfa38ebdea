#include "scaling/model/collective_model.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include <lockstep/base/error.hpp>

#include "scaling/analysis.hpp"
#include "scaling/model/robust_fit.hpp"

namespace lockstep::scaling {
namespace {

double largest_error(const std::vector<CollectiveTime>& times, const auto& predicted) {
  double largest = 0;
  for (const CollectiveTime& time : times) {
    const double error = predicted(time.ranks, time.bytes) / time.seconds - 1;
    largest = std::max(largest, std::abs(error));
  }
  return largest;
}

/// Measurements of one size, that differ by the rounding to whole elements a rank.
bool is_same_size(double a, double b) { return std::abs(std::log(a / b)) < 0.05; }

}  // namespace

double rounds_of(Algorithm algorithm, Collective kind, int ranks) {
  if (ranks <= 1) return 0;
  double rounds = 1;
  if (algorithm == Algorithm::halving) rounds = std::bit_width(static_cast<unsigned>(ranks - 1));
  if (algorithm == Algorithm::ring) rounds = ranks - 1;
  return kind == Collective::all_reduce ? 2 * rounds : rounds;
}

CollectiveModel::CollectiveModel(Collective kind, const std::vector<CollectiveTime>& times)
    : kind_(kind) {
  std::vector<double> sizes;
  for (const CollectiveTime& time : times) {
    if (std::ranges::none_of(sizes, [&](double size) { return is_same_size(size, time.bytes); }))
      sizes.push_back(time.bytes);
    if (std::ranges::find(ranks_, time.ranks) == ranks_.end()) ranks_.push_back(time.ranks);
  }
  constexpr std::size_t fewest_sizes = 3;
  if (sizes.size() < fewest_sizes) {
    throw InputError(fmt::format(
        "latency and bandwidth of {} cannot be fitted to {} size(s): three at least are needed",
        words(kind), sizes.size()));
  }
  std::ranges::sort(sizes);
  std::ranges::sort(ranks_);

  double best = std::numeric_limits<double>::infinity();
  for (const Algorithm algorithm : algorithms) {
    std::vector<Equation> equations;
    for (const CollectiveTime& time : times) {
      equations.push_back(
          {{1, rounds_of(algorithm, kind, time.ranks), bus_factor(kind, time.ranks) * time.bytes},
           time.seconds});
    }
    const std::vector<double> found = robust_fit(equations);
    double sum = 0;
    for (const Equation& one : equations)
      sum += std::abs(value_of(found, one.terms) / one.value - 1);
    constexpr double clearly = 1e-6;
    if (sum > best - clearly) continue;
    best = sum;
    algorithm_ = algorithm;
    coefficients_ = found;
  }
  line_error_ =
      largest_error(times, [this](int ranks, double bytes) { return line(ranks, bytes); });
  for (const double size : sizes) {
    std::vector<double> factors;
    for (const CollectiveTime& time : times) {
      if (is_same_size(size, time.bytes))
        factors.push_back(time.seconds / line(time.ranks, time.bytes));
    }
    corrections_.push_back({size, scatter_of(factors).median});
  }
  error_ = largest_error(times, [this](int ranks, double bytes) { return seconds(ranks, bytes); });
}

double CollectiveModel::line(int ranks, double bytes) const {
  return value_of(coefficients_,
                  {1, rounds_of(algorithm_, kind_, ranks), bus_factor(kind_, ranks) * bytes});
}

double CollectiveModel::correction(double bytes) const {
  if (corrections_.empty()) return 1;
  if (bytes <= corrections_.front().bytes) return corrections_.front().factor;
  for (std::size_t i = 1; i < corrections_.size(); ++i) {
    const Correction &a = corrections_[i - 1], &b = corrections_[i];
    if (bytes > b.bytes) continue;
    const double share = std::log(bytes / a.bytes) / std::log(b.bytes / a.bytes);
    return a.factor + share * (b.factor - a.factor);
  }
  return corrections_.back().factor;
}

double CollectiveModel::seconds(int ranks, double bytes) const {
  return ranks <= 1 ? 0 : line(ranks, bytes) * correction(bytes);
}

Json CollectiveModel::json() const {
  Json corrections = Json::array();
  for (const Correction& one : corrections_)
    corrections.push_back({{"bytes", one.bytes}, {"factor", one.factor}});
  return {{"op", words(kind_)},
          {"algorithm", words(algorithm_)},
          {"measured_ranks", ranks_},
          {"overhead_us", 1e6 * overhead_s()},
          {"latency_us", 1e6 * latency_s()},
          {"gb_per_s", seconds_a_byte() > 0 ? Json(1e-9 / seconds_a_byte()) : Json(nullptr)},
          {"line_error", line_error_},
          {"error", error_},
          {"corrections", corrections}};
}

CollectiveModel CollectiveModel::assumed(Collective kind, double latency_s, double bytes_a_second) {
  CollectiveModel model;
  model.kind_ = kind;
  model.algorithm_ = Algorithm::ring;
  model.coefficients_ = {0, latency_s, 1 / bytes_a_second};
  return model;
}

CollectiveModel CollectiveModel::with_bandwidth(double times) const {
  CollectiveModel faster = *this;
  faster.coefficients_[2] /= times;
  return faster;
}

Network::Cost Network::all_reduce(int ranks, int nodes, double bytes) const {
  const int on_a_node = (ranks + nodes - 1) / nodes;
  if (on_a_node > 1 && !in_node) {
    throw InputError(fmt::format(
        "{} ranks a node: no all_reduce within a node was measured on the sizes of the fit",
        on_a_node));
  }
  if (nodes > 1 && !between_nodes) {
    throw InputError(
        fmt::format("{} nodes: no all_reduce between nodes was measured on the sizes of the fit; "
                    "give the network with --network, or the ranks on a node with --ranks-a-node",
                    nodes));
  }
  return {.own_s = on_a_node > 1 ? in_node->seconds(on_a_node, bytes) : 0,
          .link_s = nodes > 1 ? between_nodes->seconds(nodes, bytes) : 0};
}

std::optional<CollectiveModel> fit_level(Level level, const Json& benchmarks,
                                         const std::vector<int>& ranks, Collective kind,
                                         const std::optional<CollectiveModel>& in_node) {
  std::vector<CollectiveTime> times;
  for (const Json& one : benchmarks) {
    if (one.contains("failed") || one.value("oversubscribed", false)) continue;
    const int size = one.at("ranks").get<int>(), nodes = one.at("nodes").get<int>();
    if (std::ranges::find(ranks, size) == ranks.end()) continue;
    const int on_a_node = (size + nodes - 1) / nodes;
    const bool is_between = level == Level::between_nodes;
    if (is_between != (nodes > 1) || (is_between && on_a_node > 1 && !in_node)) continue;
    for (const Json& collective : one.at("collectives")) {
      if (collective.at("op") != words(kind)) continue;
      const auto bytes = collective.at("bytes").get<double>();
      double seconds = collective.at("us").at("median").get<double>() * 1e-6;
      if (is_between && on_a_node > 1) seconds -= in_node->seconds(on_a_node, bytes);
      if (seconds > 0) times.push_back({is_between ? nodes : size, bytes, seconds});
    }
  }
  if (times.empty()) return std::nullopt;
  return CollectiveModel(kind, times);
}

}  // namespace lockstep::scaling
