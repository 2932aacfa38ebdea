#pragma once
// Which points a study has, and where their ranks go: arithmetic alone.
#include <cstdint>
#include <string>
#include <vector>

#include "elastic/placement.hpp"
#include "options.hpp"

namespace lockstep::scaling {

/// One start of the program, or of the machine's benchmarks.
struct Point {
  elastic::Placement placement;
  int repeat = 0;               ///< from 1; 0: the benchmarks, which run once for each size
  std::int64_t batch_size = 0;  ///< global; 0 for benchmarks
  bool oversubscribed = false;  ///< more ranks than cores

  [[nodiscard]] int ranks() const noexcept { return placement.ranks(); }
  [[nodiscard]] int nodes() const noexcept { return static_cast<int>(placement.hosts.size()); }
  [[nodiscard]] bool is_benchmark() const noexcept { return repeat == 0; }
  /// Of its files: "4_ranks_2_nodes_repeat_1", "4_ranks_2_nodes_benchmarks".
  [[nodiscard]] std::string name() const;
};

struct PlanInput {
  Mode mode = Mode::strong;
  std::vector<int> ranks, nodes;  ///< see Options
  int repeats = 1;
  std::int64_t batch_size = 1;  ///< the deck's; with weak scaling that of the fewest ranks
  elastic::Hosts hosts;         ///< what there is to run on
  bool oversubscribe = false;   ///< the only host may hold more ranks than it has slots
  bool benchmarks = true;
};

/// Throws InputError: no ranks, or nodes that are neither one number nor one for each.
void expect_one_or_each(const std::vector<int>& ranks, const std::vector<int>& nodes);
/// Those of --nodes for the size of this index; 0: as few as hold it.
[[nodiscard]] int nodes_of(const std::vector<int>& nodes, std::size_t size);

/// All points in the order in which they run: benchmarks, then every size once, then again. So that
/// what changes on the machine meanwhile meets all sizes alike. Throws InputError: sizes that do
/// not fit, come twice, or whose batch is no whole number.
[[nodiscard]] std::vector<Point> make_plan(const PlanInput& input);

}  // namespace lockstep::scaling
