#pragma once
// Seconds of a collective by bytes and ranks, fitted to measured ones.
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "scaling/bus_bandwidth.hpp"
#include "scaling/json.hpp"

namespace lockstep::scaling {

/// How many messages follow each other in a collective.
enum class Algorithm : std::uint8_t {
  direct,   ///< each rank with all others at the same time: as many rounds for any number
  halving,  ///< recursive halving and doubling: one for each bit of the number of ranks
  ring,     ///< one for each other rank
};
inline constexpr std::array algorithms{Algorithm::direct, Algorithm::halving, Algorithm::ring};
[[nodiscard]] constexpr const char* words(Algorithm algorithm) noexcept {
  constexpr std::array names{"direct", "halving", "ring"};
  return names[static_cast<std::size_t>(algorithm)];
}

/// Rounds of messages among `ranks` (at least 1): r = 1, ceil(log2 n) or n - 1, twice that of an
/// all_reduce, which is a reduce_scatter and an all_gather. Thakur, Rabenseifner, Gropp 2005,
/// "Optimization of collective communication operations in MPICH", section 4.
[[nodiscard]] double rounds_of(Algorithm algorithm, Collective kind, int ranks);

/// One measurement: all of a collective on `ranks` that share one level.
struct CollectiveTime {
  int ranks = 2;
  double bytes = 0;  ///< of the larger tensor
  double seconds = 0;
};

/// seconds = overhead + rounds x latency + bus_factor x bytes x seconds_a_byte,
/// times a correction that depends on the bytes alone. The first three terms are Hockney's model
/// (1994, "The communication challenge for MPP") with the overhead of LogGP (Alexandrov et al.
/// 1995), which is paid once a call. The correction makes gap a function of size, as Kielmann et
/// al. 2000 have it ("Fast measurement of LogP parameters"): caches hold small tensors, and not
/// large ones. It is the median over the numbers of ranks of measured / fitted at each measured
/// size, linear in log(bytes) between them, and that of the nearest one outside.
class CollectiveModel {
 public:
  /// From measurements of one collective on one level. The algorithm is the one that fits
  /// best; of equally good ones that with the fewest rounds. Throws InputError for fewer than three
  /// sizes.
  CollectiveModel(Collective kind, const std::vector<CollectiveTime>& times);

  /// Seconds on `ranks`; 0 on one.
  [[nodiscard]] double seconds(int ranks, double bytes) const;

  [[nodiscard]] Algorithm algorithm() const noexcept { return algorithm_; }
  [[nodiscard]] double overhead_s() const noexcept { return coefficients_[0]; }
  [[nodiscard]] double latency_s() const noexcept { return coefficients_[1]; }
  [[nodiscard]] double seconds_a_byte() const noexcept { return coefficients_[2]; }
  /// Numbers of ranks that were measured. With one of them overhead and latency cannot be told
  /// apart, nor algorithms: all is overhead.
  [[nodiscard]] const std::vector<int>& measured_ranks() const noexcept { return ranks_; }
  /// The largest relative error over the measurements: of the straight line, and with the
  /// correction.
  [[nodiscard]] double line_error() const noexcept { return line_error_; }
  [[nodiscard]] double error() const noexcept { return error_; }
  [[nodiscard]] Json json() const;

  /// Of an unmeasured link: a ring on it.
  [[nodiscard]] static CollectiveModel assumed(Collective kind, double latency_s,
                                               double bytes_a_second);
  /// On a link with so many times its bandwidth.
  [[nodiscard]] CollectiveModel with_bandwidth(double times) const;

 private:
  struct Correction {
    double bytes, factor;
  };
  CollectiveModel() = default;
  [[nodiscard]] double line(int ranks, double bytes) const;
  [[nodiscard]] double correction(double bytes) const;

  Collective kind_ = Collective::all_reduce;
  Algorithm algorithm_ = Algorithm::direct;
  std::vector<double> coefficients_{0, 0, 0};
  std::vector<Correction> corrections_;
  std::vector<int> ranks_;
  double line_error_ = 0, error_ = 0;
};

/// The levels of a machine.
struct Network {
  std::optional<CollectiveModel> in_node;        ///< nothing: no two ranks were measured there
  std::optional<CollectiveModel> between_nodes;  ///< of one rank a node
  /// Time of an all_reduce of `bytes`: the ranks' own work in memory, and the links.
  struct Cost {
    double own_s = 0, link_s = 0;
  };
  /// Within the fullest node, then between the nodes, as hierarchical collectives do. Throws
  /// InputError where a level is needed and not known.
  [[nodiscard]] Cost all_reduce(int ranks, int nodes, double bytes) const;
};

enum class Level : std::uint8_t { in_node, between_nodes };

/// Fits one level to the benchmarks of a study (`lockstep bench`) of these numbers of ranks. Those
/// of more ranks than cores are left out, since they measure the scheduler. Between nodes, the time
/// of a node's ranks by `in_node` is subtracted first; without it only benchmarks of one rank a
/// node count. Nothing, if nothing was measured. Throws InputError as CollectiveModel does.
[[nodiscard]] std::optional<CollectiveModel> fit_level(
    Level level, const Json& benchmarks, const std::vector<int>& ranks, Collective kind,
    const std::optional<CollectiveModel>& in_node = std::nullopt);

}  // namespace lockstep::scaling
