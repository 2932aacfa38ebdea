#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include <lockstep/comm/nccl/communicator.hpp>
#include <lockstep/comm/operation.hpp>

namespace lockstep {

class NcclInFlight;

/// A group's operations until the device has completed them. They are launched in the order of the
/// calls, the same on every rank, each when its ranks agree on it and its turn on the device has
/// come (LaunchOrder). A batch is launched together, when the last of it is ready and the first has
/// its turn. Messages have no turn, and a stream of their own, unless a collective is in their
/// batch. An ncclGroup is opened and closed within one call here: NCCL keeps it per thread, and
/// would add other communicators' calls to it.
class NcclQueue {
 public:
  /// The stream of an operation.
  enum Lane : std::size_t { collectives, messages };

  NcclQueue(NcclCommunicator& communicator, int rank, int size)
      : communicator_(communicator), rank_(rank), size_(size) {}

  /// Operations added between these are one batch.
  void begin_batch() noexcept;
  void end_batch() noexcept { open_batch_ = 0; }
  [[nodiscard]] bool is_collecting() const noexcept { return open_batch_ != 0; }

  void add(NcclInFlight& work) noexcept;
  /// Launches operations that are ready, without waiting. Throws NcclError, DeviceError, or an
  /// operation's own error.
  void advance();
  /// Whether to ask the device about this operation: its stream keeps the order, and a query takes
  /// the host about as long as a launch.
  [[nodiscard]] bool is_oldest_on_stream(const NcclInFlight& work) const noexcept;
  /// The device has completed that one.
  void remove_oldest_on_stream(const NcclInFlight& work) noexcept;
  /// The group has ended: nothing more is handed over.
  void clear() noexcept;

 private:
  /// Oldest first; owned by the core's list.
  struct Line {
    NcclInFlight* first = nullptr;
    NcclInFlight* last = nullptr;

    void add(NcclInFlight& work) noexcept;
    void remove_first() noexcept;
  };

  /// The end of the batch that begins the queue; nullptr if part of it may not go yet.
  [[nodiscard]] NcclInFlight* ready_batch();
  void give_to_nccl(NcclInFlight* last);
  void release_batch();
  [[nodiscard]] const Stream& stream_of(Lane lane) const;

  NcclCommunicator& communicator_;
  int rank_, size_;
  Line waiting_;                   // until NCCL has them
  std::array<Line, 2> on_stream_;  // until the device has completed them
  NcclInFlight* given_ = nullptr;  // last operation of those that NCCL is taking
  std::uint64_t batches_ = 0;
  std::uint64_t open_batch_ = 0;  // being collected; 0: none
};

}  // namespace lockstep
