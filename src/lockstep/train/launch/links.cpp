#include <lockstep/train/launch/links.hpp>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include <lockstep/base/clock.hpp>

namespace lockstep::train {
namespace {

/// Seconds of each of `trips` round trips of `t`, on the rank that sends first.
std::vector<double> round_trips(ProcessGroup& group, const Tensor& t, bool first, int peer,
                                int trips) {
  std::vector<double> seconds;
  for (int trip = 0; trip < trips; ++trip) {
    const auto start = Clock::now();
    if (first) group.send(t, peer);
    group.recv(t, peer);
    if (!first) group.send(t, peer);
    seconds.push_back(seconds_since(start));
  }
  return seconds;
}

/// The quantile `share` of the values.
double quantile(std::vector<double> values, double share) {
  const auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size()));
  std::ranges::nth_element(values, at);
  return *at;
}

double median(const std::vector<double>& values) { return quantile(values, 0.5); }

}  // namespace

std::vector<Link> measure_links(ProcessGroup& group) {
  constexpr int warm_up = 20, small_trips = 200, large_trips = 4;
  const Tensor small = Tensor::zeros({8}, DType::u8);
  const Tensor large = Tensor::zeros({std::int64_t{4} << 20}, DType::u8);
  const int rank = group.rank();
  std::array<double, 2> mine{};  // to the next rank
  for (const int parity : {0, 1}) {
    group.barrier();
    const bool first = rank % 2 == parity;
    const int peer = first ? rank + 1 : rank - 1;
    if (peer < 0 || peer >= group.size()) continue;
    static_cast<void>(round_trips(group, small, first, peer, warm_up));
    // Not the median: a busy core delays many trips, but a slow link delays all.
    const double latency = quantile(round_trips(group, small, first, peer, small_trips), 0.1) / 2;
    const auto trips = round_trips(group, large, first, peer, large_trips);
    if (first) {
      mine = {latency * 1e6,
              static_cast<double>(large.bytes()) / (*std::ranges::min_element(trips) / 2) / 1e9};
    }
  }
  const Tensor all = Tensor::empty({group.size(), 2}, DType::f64);
  group.all_gather(Tensor::from(std::vector<double>(mine.begin(), mine.end()), {2}), all).wait();
  const auto figures = all.to_vector<double>();
  std::vector<Link> links;
  for (int from = 0; from + 1 < group.size(); ++from) {
    const auto at = static_cast<std::size_t>(from) * 2;
    links.push_back({from, from + 1, figures[at], figures[at + 1]});
  }
  return links;
}

Findings check_links(const std::vector<Link>& links, const NodeLayout& layout) {
  Findings findings;
  for (const bool within : {true, false}) {
    std::vector<Link> kind;
    std::ranges::copy_if(links, std::back_inserter(kind), [&](const Link& link) {
      return (layout.node_of(link.from) == layout.node_of(link.to)) == within;
    });
    if (kind.size() < 3) continue;
    std::vector<double> latencies, bandwidths;
    for (const Link& link : kind) {
      latencies.push_back(link.latency_us);
      bandwidths.push_back(link.bandwidth_gb_s);
    }
    const double usual_us = median(latencies), usual_gb_s = median(bandwidths);
    for (const Link& link : kind) {
      // 10 us: the cost of a neighbour's interrupt is no property of a link.
      const bool late = !(link.latency_us <= 4 * usual_us + 10);
      const bool narrow = !(link.bandwidth_gb_s >= usual_gb_s / 3);
      if (!late && !narrow) continue;
      findings.push_back(
          {Finding::Severity::warning, "links",
           fmt::format("the link from rank {} ({}) to rank {} ({}) is slow: {:.1f} us and {:.2f} "
                       "GB/s, where the median {} machines is {:.1f} us and {:.2f} GB/s",
                       link.from, layout.host_of(link.from), link.to, layout.host_of(link.to),
                       link.latency_us, link.bandwidth_gb_s, within ? "within" : "between",
                       usual_us, usual_gb_s),
           within ? "Check that machine for other programs, and the cores to which the two ranks "
                    "are bound."
                  : "Check the cable, the port and the network interface of these machines, or "
                    "exclude them (Slurm: --exclude)."});
    }
  }
  return findings;
}

}  // namespace lockstep::train
