#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

#include <lockstep/comm/call_record.hpp>
#include <lockstep/comm/engine/event_count.hpp>
#include <lockstep/comm/node/segment.hpp>

namespace lockstep {

/// A tensor's place in a buffer that every rank of the node can reach (ComputeNode).
struct SharedPlace {
  std::int32_t buffer = -1;  ///< -1: in this rank's own memory
  std::uint64_t offset = 0;
};

/// Tells the ranks of a node which collectives the others have entered: a ring of slots per rank,
/// collective s in slot s mod slots. Each slot is written by its owner alone; a flag, set last,
/// says for which collective it holds. Nothing here waits.
class SlotTable {
 public:
  /// Collectives that a rank may be ahead of the slowest on its node.
  static constexpr std::uint64_t slots = 64;
  /// Tensors up to this size travel in the slot itself.
  static constexpr std::int64_t payload_bytes = 256;

  struct Slot {
    /// The posted record.
    alignas(64) std::atomic<std::uint64_t> posted{0};  ///< the collective's number
    std::uint64_t fingerprint = 0;
    SharedPlace input, output;
    const Operation* operation = nullptr;  ///< for ranks of the same process
    alignas(64) CallRecord call;
    alignas(64) std::byte payload[payload_bytes];
    /// How far the collective has come on this rank; the meaning of each is its user's.
    alignas(64) std::atomic<std::uint64_t> done{0};
    alignas(64) std::atomic<std::uint64_t> agreed{0};
    alignas(64) std::atomic<std::uint64_t> delivered{0};
    /// The differing call of a rank of another node; posted, by the node's first rank, when a
    /// collective is refused.
    alignas(64) std::atomic<std::uint64_t> told{0};
    std::int32_t other_rank = -1;  ///< -1: not known
    CallRecord other_call;
  };

  /// Bytes of every rank's part of the segment.
  [[nodiscard]] static std::size_t bytes() noexcept { return sizeof(Part); }

  /// Collective over the segment's ranks only in that each makes one; nobody may post before all
  /// have.
  SlotTable(std::shared_ptr<Segment> segment, int ranks, int rank);

  [[nodiscard]] int size() const noexcept { return ranks_; }
  [[nodiscard]] int rank() const noexcept { return rank_; }

  [[nodiscard]] Slot& mine(std::uint64_t sequence) const noexcept { return slot(rank_, sequence); }
  [[nodiscard]] Slot& slot(int rank, std::uint64_t sequence) const noexcept {
    return part(rank).ring[sequence % slots];
  }
  [[nodiscard]] bool has_posted(int rank, std::uint64_t sequence) const noexcept {
    return slot(rank, sequence).posted.load(std::memory_order_acquire) == sequence;
  }

  /// True once this rank has posted the collectives before, and no rank reads the slot's last
  /// contents any more.
  [[nodiscard]] bool may_post(std::uint64_t sequence) noexcept;
  /// Shows this rank's call to the others; everything in mine(sequence) has been written.
  void post(std::uint64_t sequence) noexcept {
    mine(sequence).posted.store(sequence, std::memory_order_release);
    part(rank_).newest.store(sequence, std::memory_order_relaxed);
  }
  /// This rank reads nobody's slots of collectives up to `sequence` any more.
  void retire(std::uint64_t sequence) noexcept {
    part(rank_).retired.store(sequence, std::memory_order_release);
  }

  /// The event that wakes a sleeping rank.
  [[nodiscard]] EventCount& event_of(int rank) const noexcept { return part(rank).event; }

  /// The process behind a rank.
  [[nodiscard]] int pid_of(int rank) const noexcept { return part(rank).pid; }
  /// The newest call that a rank has posted; nullptr if none. For verdicts: it may be changing.
  [[nodiscard]] const CallRecord* last_call(int rank) const noexcept;

 private:
  struct Part {
    std::int32_t pid;
    EventCount event;
    alignas(64) std::atomic<std::uint64_t> retired;
    alignas(64) std::atomic<std::uint64_t> newest;
    Slot ring[slots];
  };

  [[nodiscard]] Part& part(int rank) const noexcept {
    return *reinterpret_cast<Part*>(segment_->part(rank));
  }

  std::shared_ptr<Segment> segment_;
  int ranks_;
  int rank_;
  std::uint64_t retired_ = 0;  // by every rank, when this one last looked
};

}  // namespace lockstep
