#include "plan.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include <lockstep/base/error.hpp>

namespace lockstep::scaling {
namespace {

using elastic::Host;
using elastic::Hosts;
using elastic::Placement;

int slots_of(const Hosts& hosts) {
  int slots = 0;
  for (const Host& host : hosts) slots += host.slots;
  return slots;
}

/// Evenly on the first `nodes` hosts; the first ones get one more where it does not divide.
Placement spread(const Hosts& hosts, int ranks, int nodes) {
  if (nodes > static_cast<int>(hosts.size())) {
    throw InputError(
        fmt::format("--nodes {}: there {} {} here; more are those of a Slurm allocation, or of the "
                    "hosts in --members FILE",
                    nodes, hosts.size() == 1 ? "is" : "are", hosts.size()));
  }
  if (nodes > ranks)
    throw InputError(
        fmt::format("--nodes {}: {} ranks are on {} nodes at most", nodes, ranks, ranks));
  Placement placement;
  for (int node = 0; node < nodes; ++node) {
    const Host& host = hosts[static_cast<std::size_t>(node)];
    const int here = ranks / nodes + (node < ranks % nodes ? 1 : 0);
    if (here > host.slots) {
      throw InputError(
          fmt::format("{} ranks on {} nodes: {} would hold {} of them, and has room for {}", ranks,
                      nodes, host.name, here, host.slots));
    }
    placement.hosts.push_back({host.name, here});
  }
  return placement;
}

/// `nodes` 0: as few as hold them.
Point point_of(const PlanInput& input, int ranks, int nodes) {
  if (ranks < 1) throw InputError("--ranks wants numbers from 1 on");
  Point point;
  const bool crowded = ranks > slots_of(input.hosts);
  if (crowded && input.oversubscribe && input.hosts.size() == 1 && nodes <= 1) {
    point.placement.hosts = {{input.hosts.front().name, ranks}};
    point.oversubscribed = true;
  } else if (crowded) {
    throw InputError(fmt::format(
        "{} ranks are more than the {} that there are cores for, and would wait for each other's "
        "cores; leave them out, or measure all the same with --oversubscribe, on one machine",
        ranks, slots_of(input.hosts)));
  } else if (nodes > 0) {
    point.placement = spread(input.hosts, ranks, nodes);
  } else {
    point.placement = elastic::place(input.hosts, {.min = ranks, .max = ranks});
  }
  const int fewest = *std::ranges::min_element(input.ranks);
  point.batch_size = input.batch_size;
  if (input.mode == Mode::weak) {
    if (input.batch_size * ranks % fewest != 0) {
      throw InputError(fmt::format(
          "weak scaling: each of {} ranks has {}/{} samples of train.batch_size = {}, which is no "
          "whole number for {} ranks; set a batch size that {} divides",
          fewest, input.batch_size, fewest, input.batch_size, ranks, fewest));
    }
    point.batch_size = input.batch_size * ranks / fewest;
  }
  return point;
}

}  // namespace

std::string Point::name() const {
  const std::string size = fmt::format("{}_ranks_{}_nodes", ranks(), nodes());
  return is_benchmark() ? size + "_benchmarks" : fmt::format("{}_repeat_{}", size, repeat);
}

void expect_one_or_each(const std::vector<int>& ranks, const std::vector<int>& nodes) {
  if (ranks.empty()) throw InputError("--ranks names no numbers of ranks, such as 1,2,4");
  if (nodes.size() > 1 && nodes.size() != ranks.size()) {
    throw InputError(fmt::format("--nodes wants one number, or one for each of the {} of --ranks",
                                 ranks.size()));
  }
}

int nodes_of(const std::vector<int>& nodes, std::size_t size) {
  if (nodes.empty()) return 0;
  return nodes.size() == 1 ? nodes.front() : nodes.at(size);
}

std::vector<Point> make_plan(const PlanInput& input) {
  expect_one_or_each(input.ranks, input.nodes);
  std::vector<Point> sizes;
  std::set<std::pair<int, int>> known;
  for (std::size_t i = 0; i < input.ranks.size(); ++i) {
    const int nodes = nodes_of(input.nodes, i);
    if (!input.nodes.empty() && nodes < 1) throw InputError("--nodes wants numbers from 1 on");
    sizes.push_back(point_of(input, input.ranks[i], nodes));
    if (!known.insert({sizes.back().ranks(), sizes.back().nodes()}).second) {
      throw InputError(fmt::format("--ranks and --nodes name {} rank{} on {} node{} twice",
                                   sizes.back().ranks(), sizes.back().ranks() == 1 ? "" : "s",
                                   sizes.back().nodes(), sizes.back().nodes() == 1 ? "" : "s"));
    }
  }
  std::vector<Point> plan;
  for (int repeat = input.benchmarks ? 0 : 1; repeat <= input.repeats; ++repeat) {
    for (Point point : sizes) {
      point.repeat = repeat;
      if (repeat == 0) point.batch_size = 0;
      plan.push_back(std::move(point));
    }
  }
  return plan;
}

}  // namespace lockstep::scaling
