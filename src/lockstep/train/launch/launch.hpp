#pragma once
#include <string>
#include <vector>

#include <lockstep/comm/node_layout.hpp>
#include <lockstep/comm/process_group.hpp>
#include <lockstep/train/launch/rank_info.hpp>

namespace lockstep::train {

/// Resources of every rank. The same on all ranks, except `rank`.
struct Launch {
  NodeLayout layout;
  std::vector<RankInfo> infos;  ///< of every rank
  int rank = 0;                 ///< the calling rank

  [[nodiscard]] int size() const { return static_cast<int>(infos.size()); }
  [[nodiscard]] const RankInfo& info(int of) const { return infos[static_cast<std::size_t>(of)]; }
  /// Cores that a rank owns: its affinity mask divided by the ranks that share it, at least 1.
  [[nodiscard]] int cores_owned(int of) const;
  [[nodiscard]] int cores_owned() const { return cores_owned(rank); }
  /// Whether several ranks are threads of one process.
  [[nodiscard]] bool is_one_process() const;
};

/// A launch with given ranks: for plans and tests.
[[nodiscard]] Launch make_launch(std::vector<RankInfo> infos, int rank = 0);

/// Gathers the resources of all ranks: one message of about a kilobyte from each to all.
/// `deck_hash` may be empty; this rank computes on `device`. Collective.
[[nodiscard]] Launch inspect_launch(ProcessGroup& group, const std::string& deck_hash,
                                    Device device = {});

}  // namespace lockstep::train
