#pragma once
#include <lockstep/comm/node/node.hpp>

namespace lockstep {

/// How far the node's ranks have come with one collective, in stages that its way numbers from 1.
class Stages {
 public:
  /// The last one that this rank has finished.
  [[nodiscard]] unsigned finished() const noexcept { return finished_; }

  /// Tells the node that this rank has finished a stage.
  void finish(ComputeNode& node, const Operation& operation, unsigned stage) noexcept {
    finished_ = stage;
    node.slot_table()
        .mine(operation.sequence)
        .done.store(mark(operation.sequence, stage), std::memory_order_release);
  }

  [[nodiscard]] bool all_have_finished(const ComputeNode& node, const Operation& operation,
                                       unsigned stage) noexcept {
    if (stage != looked_for_) peer_ = 0;
    looked_for_ = stage;
    for (; peer_ < node.size(); ++peer_) {
      const auto& theirs = node.slot_table().slot(peer_, operation.sequence).done;
      if (theirs.load(std::memory_order_acquire) < mark(operation.sequence, stage)) return false;
    }
    return true;
  }

 private:
  /// Larger for later ones: 2^24 stages of 2^40 collectives.
  static std::uint64_t mark(std::uint64_t sequence, unsigned stage) noexcept {
    return sequence << 24U | stage;
  }

  unsigned finished_ = 0;
  unsigned looked_for_ = 0;  // stage
  int peer_ = 0;             // the next rank of the node to be looked at
};

}  // namespace lockstep
